package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"penstock/bench/sim/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t testing.TB, o Options) *Engine {
	t.Helper()
	e := New(o)
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

type client struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func dial(t testing.TB, e *Engine) *client {
	t.Helper()
	nc, err := net.Dial("tcp", e.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return wrap(t, nc)
}

func wrap(t testing.TB, nc net.Conn) *client {
	t.Cleanup(func() { _ = nc.Close() })
	return &client{Conn: nc, t: t, r: bufio.NewReader(nc)}
}

// post writes a request without waiting for the response.
func (c *client) post(path, body string, header ...string) {
	c.t.Helper()
	c.send("POST", path, body, append([]string{"Content-Type: application/json"}, header...)...)
}

func (c *client) send(method, path, body string, header ...string) {
	c.t.Helper()
	head := method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n"
	for _, h := range header {
		head += h + "\r\n"
	}
	if method == "POST" {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	if _, err := io.WriteString(c, head+"\r\n"+body); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) answer() (*http.Response, string, error) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return nil, "", err
	}
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// readRaw reads raw bytes until the connection ends, and reports whether it ended with an RST.
func (c *client) readRaw() (got string, reset bool) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	b, err := io.ReadAll(c.r)
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		c.t.Fatalf("connection stays open; got %q", shorten(string(b)))
	}
	return string(b), err != nil
}

// wantSilence checks that no more bytes arrive and that the connection stays open.
func (c *client) wantSilence() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	b, err := c.r.Peek(1)
	var ne net.Error
	if !errors.As(err, &ne) || !ne.Timeout() {
		c.t.Fatalf("want silence, got %q, %v", b, err)
	}
}

func shorten(s string) string {
	if len(s) > 900 {
		return s[:600] + " … " + s[len(s)-200:]
	}
	return s
}

// sendChat sends a chat request on a separate connection and returns the whole response.
func sendChat(t testing.TB, e *Engine, body string, header ...string) (*http.Response, string) {
	t.Helper()
	return sendRequest(t, e, "POST", "/v1/chat/completions", body, append([]string{"Content-Type: application/json"}, header...)...)
}

func sendRequest(t testing.TB, e *Engine, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	c := dial(t, e)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	c.send(method, path, body, header...)
	req := &http.Request{Method: method}
	resp, err := http.ReadResponse(c.r, req)
	if err != nil {
		t.Fatalf("%s %s: %v, want an answer", method, path, err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v after %q, want a whole body", method, path, err, shorten(string(b)))
	}
	return resp, string(b)
}

// chatBody makes a request body. more contains additional members, each preceded by a comma.
func chatBody(text, more string) string {
	return `{"model":"sim","messages":[{"role":"user","content":` + string(wire.AppendString(nil, text)) + `}]` + more + `}`
}

// events splits a stream of any format into events. The last event may be incomplete.
func events(body string) []string {
	body = strings.TrimPrefix(body, "\xef\xbb\xbf")
	body = strings.ReplaceAll(body, "\r\n", "\n")
	body = strings.ReplaceAll(body, "\r", "\n")
	var all []string
	for block := range strings.SplitSeq(body, "\n\n") {
		var data []string
		for l := range strings.SplitSeq(block, "\n") {
			if v, ok := strings.CutPrefix(l, "data:"); ok {
				data = append(data, strings.TrimPrefix(v, " "))
			}
		}
		if data != nil {
			all = append(all, strings.Join(data, "\n"))
		}
	}
	return all
}

// completion is a response as a client reads it, whether streamed or not.
type completion struct {
	ID, Model, Object string
	Text, Reasoning   map[int]string
	Finish            map[int]string
	Calls             map[int]*toolCall
	Usage             *usageObject
	Done              bool
	Errors            []string
	Roles             int
}

type toolCall struct{ ID, Name, Args string }

type usageObject struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	PromptD    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionD struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

type wireMessage struct {
	Role             string `json:"role"`
	Content          string `json:"content"`
	Reasoning        string `json:"reasoning"`
	ReasoningContent string `json:"reasoning_content"`
	ToolCalls        []struct {
		Index    int    `json:"index"`
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

type wireChunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Model   string `json:"model"`
	Created int64  `json:"created"`
	Choices []struct {
		Index   int         `json:"index"`
		Delta   wireMessage `json:"delta"`
		Message wireMessage `json:"message"`
		Text    string      `json:"text"`
		Finish  string      `json:"finish_reason"`
	} `json:"choices"`
	Usage *usageObject    `json:"usage"`
	Error json.RawMessage `json:"error"`
}

func newCompletion() *completion {
	return &completion{Text: map[int]string{}, Reasoning: map[int]string{}, Finish: map[int]string{}, Calls: map[int]*toolCall{}}
}

func (c *completion) add(t testing.TB, data string) {
	t.Helper()
	if data == "[DONE]" {
		c.Done = true
		return
	}
	var w wireChunk
	if err := json.Unmarshal([]byte(data), &w); err != nil {
		t.Fatalf("chunk %q: %v, want JSON", shorten(data), err)
	}
	if w.Error != nil {
		c.Errors = append(c.Errors, string(w.Error))
		return
	}
	if c.ID == "" {
		c.ID, c.Model, c.Object = w.ID, w.Model, w.Object
	}
	if w.ID != c.ID || w.Created == 0 {
		t.Errorf("id %q after %q, created %d", w.ID, c.ID, w.Created)
	}
	if w.Usage != nil {
		c.Usage = w.Usage
	}
	for _, ch := range w.Choices {
		for _, m := range []wireMessage{ch.Delta, ch.Message} {
			if m.Role != "" {
				c.Roles++
			}
			c.Text[ch.Index] += m.Content + ch.Text
			ch.Text = ""
			c.Reasoning[ch.Index] += m.Reasoning + m.ReasoningContent
			for i, call := range m.ToolCalls {
				at := call.Index
				if w.Object == "chat.completion" {
					at = i
				}
				if c.Calls[at] == nil {
					c.Calls[at] = &toolCall{}
				}
				c.Calls[at].ID += call.ID
				c.Calls[at].Name += call.Function.Name
				c.Calls[at].Args += call.Function.Arguments
			}
		}
		if ch.Finish != "" {
			c.Finish[ch.Index] = ch.Finish
		}
	}
}

func streamOf(t testing.TB, body string) *completion {
	t.Helper()
	c := newCompletion()
	for _, e := range events(body) {
		c.add(t, e)
	}
	return c
}

func plainOf(t testing.TB, body string) *completion {
	t.Helper()
	c := newCompletion()
	c.add(t, body)
	return c
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 6000 { // half a minute, for a busy machine
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("this never happened: %s", what)
}

func compact(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(s)); err != nil {
		t.Fatalf("%q: %v, want JSON", s, err)
	}
	return b.String()
}
