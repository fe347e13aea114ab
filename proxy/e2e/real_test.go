//go:build unix

package e2e

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
)

// These tests run the real program in front of real engines. PENSTOCK_ENGINES names a script that
// runs an engine in the foreground on loopback:
//
//	SCRIPT llama MODEL PORT [flags]   llama.cpp's server; MODEL is markov, or markov-slow with about 100 tokens a second
//	SCRIPT whisper PORT [flags]       whisper.cpp's server
//	SCRIPT tts PORT                   POST /v1/audio/speech
//	SCRIPT speech OUT.wav "words"     a spoken sample
//
// The tests run one after another, because each engine uses entire processors.

// realEngines returns the script that runs the engines.
func realEngines(t *testing.T) string {
	t.Helper()
	script := os.Getenv("PENSTOCK_ENGINES")
	if script == "" {
		t.Skip("THE REAL-ENGINE RUN WAS SKIPPED: PENSTOCK_ENGINES IS EMPTY")
	}
	return script
}

// realPortFirst and realPortLast are the port range for engines and programs in these tests.
const realPortFirst, realPortLast = 15600, 15650

var realPortNext atomic.Int64

// realPort returns a free port from the range. It returns each port only once.
func realPort(t *testing.T) int {
	t.Helper()
	for {
		port := realPortFirst + int(realPortNext.Add(1)) - 1
		if port > realPortLast {
			t.Fatal("no port is left")
		}
		if ln, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			ln.Close()
			return port
		}
	}
}

// realEngine is a running engine.
type realEngine struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	port int
	out  *rig.Buffer
	done chan struct{} // closed when the engine has exited
}

// tryRealEngine starts an engine and waits until it is ready. It returns false if the engine exited
// or was not ready in time. The engine is killed when the test ends.
func tryRealEngine(t *testing.T, port int, what string, args ...string) (*realEngine, bool) {
	t.Helper()
	line := []string{realEngines(t), what}
	if what == "llama" {
		line, args = append(line, args[0]), args[1:]
	}
	line = append(append(line, strconv.Itoa(port)), args...)
	e := &realEngine{t: t, cmd: exec.Command("bash", line...), port: port, out: new(rig.Buffer), done: make(chan struct{})}
	e.url = "http://127.0.0.1:" + strconv.Itoa(port)
	e.cmd.Stdout, e.cmd.Stderr = e.out, e.out
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that kill also reaches the script's children
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(e.done)
		_ = e.cmd.Wait()
	}()
	t.Cleanup(e.kill)
	client := rig.NewClient(t)
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		select {
		case <-e.done:
			return e, false
		default:
		}
		if res, err := client.Get(e.url + "/health"); err == nil {
			res.Body.Close()
			if res.StatusCode == 200 {
				return e, true
			}
		}
	}
	return e, false
}

// startLlama starts a llama.cpp server.
func startLlama(t *testing.T, port int, model string) *realEngine {
	t.Helper()
	e, ok := tryRealEngine(t, port, "llama", model, "-np", "4", "-c", "8192")
	if !ok {
		t.Fatalf("llama.cpp did not start:\n%s", e.out)
	}
	return e
}

// kill sends the engine SIGKILL.
func (e *realEngine) kill() {
	select {
	case <-e.done:
		return
	default:
	}
	_ = syscall.Kill(-e.cmd.Process.Pid, syscall.SIGKILL)
	<-e.done
}

// processing returns how many slots of a llama.cpp server are busy.
func (e *realEngine) processing() int {
	e.t.Helper()
	res, err := http.Get(e.url + "/slots")
	if err != nil {
		e.t.Fatal(err)
	}
	defer res.Body.Close()
	var slots []struct {
		Processing *bool `json:"is_processing"`
	}
	if err := json.NewDecoder(res.Body).Decode(&slots); err != nil || len(slots) == 0 {
		e.t.Fatalf("/slots: %d slots, %v", len(slots), err)
	}
	n := 0
	for _, s := range slots {
		if s.Processing == nil {
			e.t.Fatal("/slots does not say is_processing")
		}
		if *s.Processing {
			n++
		}
	}
	return n
}

// waitProcessing waits until n slots are busy.
func (e *realEngine) waitProcessing(limit time.Duration, n int) time.Duration {
	e.t.Helper()
	return rig.WaitFor(e.t, limit, fmt.Sprintf("%d slots of llama.cpp are processing", n), func() bool {
		if e.processing() == n {
			return true
		}
		time.Sleep(5 * time.Millisecond)
		return false
	})
}

// startReal runs the program with the given configuration lines for upstreams and models. Only
// those methods of the result that send HTTP requests work.
func startReal(t *testing.T, upstreams int, lines string) *penstock {
	t.Helper()
	program := rig.StartProgram(t, rig.Setup{Cold: true, Config: "timeouts: { linger: 0s, drain: 5s }\nkeys: [{ id: tester, hash: \"{{hash}}\" }]\n" + lines + "\n"})
	p := &penstock{&rig.LocalEdge{Edge: program.Edge}}
	rig.WaitFor(t, rig.WaitTimeout, "all upstreams up", func() bool { return p.realUp() == upstreams })
	return p
}

// realPatience is how long a test waits for an edge to notice that a real engine is frozen, or has
// recovered. A frozen engine is marked down only after 17 s, because more than one of its probes
// must fail.
const realPatience = 30 * time.Second

// realUp returns how many upstreams are up. It pauses first, because its callers poll in a loop.
func (p *penstock) realUp() int {
	time.Sleep(5 * time.Millisecond)
	return int(p.Metric("penstock_upstream_up"))
}

// startRealChat runs llama.cpp with a model, and the program in front of llama.cpp. The program
// calls the model "talk".
func startRealChat(t *testing.T, model string) (*penstock, *realEngine) {
	t.Helper()
	e := startLlama(t, realPort(t), model)
	return startReal(t, 1, fmt.Sprintf(`upstreams: [{ name: llama, url: %q }]
models: [{ id: talk, deployments: [{ upstream: llama, served: %s }] }]`, e.url, model)), e
}

// long makes markov-slow answer for many seconds.
const long = `"max_tokens":1500,"ignore_eos":true`

// realChunk is the part of a chat answer, or of one of its chunks, that the tests read.
type realChunk struct {
	Object  string `json:"object"`
	Model   string `json:"model"`
	Choices []struct {
		Message      struct{ Content string } `json:"message"`
		FinishReason *string                  `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
	} `json:"usage"`
}

func (c *realChunk) wantUsage(t *testing.T) {
	t.Helper()
	if u := c.Usage; u == nil || u.PromptTokens <= 0 || u.CompletionTokens <= 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
		t.Errorf("usage %+v", u)
	}
}

func TestRealChat(t *testing.T) {
	p, _ := startRealChat(t, "markov")
	t.Run("json", func(t *testing.T) {
		r := p.Post(chatPath, rig.ChatBody("talk", "")).WantStatus(200)
		var c realChunk
		if err := json.Unmarshal([]byte(r.Body), &c); err != nil {
			t.Fatalf("%v: %s", err, r.Body)
		}
		if c.Object != "chat.completion" || c.Model != "talk" || len(c.Choices) != 1 || c.Choices[0].Message.Content == "" ||
			c.Choices[0].FinishReason == nil || *c.Choices[0].FinishReason != "stop" {
			t.Errorf("the answer is %s", r.Body)
		}
		c.wantUsage(t)
		if l := p.realCall(t, r.Header); l.Outcome != "ok" || l.Upstream != "llama" || l.TokensEstimated ||
			c.Usage != nil && (l.PromptTokens != c.Usage.PromptTokens || l.CompletionTokens != c.Usage.CompletionTokens) {
			t.Errorf("the log says %+v", l)
		}
	})
	for name, asked := range map[string]bool{"stream": false, "stream with usage": true} {
		t.Run(name, func(t *testing.T) {
			more := `"stream":true`
			if asked {
				more += `,"stream_options":{"include_usage":true}`
			}
			r := p.Post(chatPath, rig.ChatBody("talk", more)).WantStatus(200)
			events := r.Events()
			text, done := rig.StreamText(t, rig.ChatStream, events)
			if text == "" || !done || events[len(events)-1].Data != "[DONE]" {
				t.Fatalf("text %q, done %v", text, done)
			}
			finishes, usages := 0, 0
			for i, e := range events[:len(events)-1] {
				var c realChunk
				if err := json.Unmarshal([]byte(e.Data), &c); err != nil {
					t.Fatalf("%v: %s", err, e.Data)
				}
				if c.Object != "chat.completion.chunk" || c.Model != "talk" {
					t.Errorf("chunk %d: %s", i, e.Data)
				}
				for _, ch := range c.Choices {
					if ch.FinishReason != nil {
						finishes++
					}
				}
				if c.Usage != nil {
					usages++
					c.wantUsage(t)
					if i != len(events)-2 || len(c.Choices) != 0 {
						t.Errorf("usage in chunk %d of %d: %s", i, len(events)-1, e.Data)
					}
				}
				if !asked && strings.Contains(e.Data, `"usage"`) {
					t.Errorf("usage that nobody asked for: %s", e.Data)
				}
			}
			if finishes != 1 || asked != (usages == 1) || usages > 1 {
				t.Errorf("%d finish reasons, %d usages", finishes, usages)
			}
			if l := p.realCall(t, r.Header); l.Outcome != "ok" || !l.Stream || l.PromptTokens <= 0 || l.CompletionTokens <= 0 || l.TokensEstimated {
				t.Errorf("the log says %+v", l)
			}
		})
	}
}

// realCall waits for the access line of the call whose response has the given header.
func (p *penstock) realCall(t *testing.T, h http.Header) (line rig.AccessLine) {
	t.Helper()
	rig.WaitFor(t, rig.WaitTimeout, "the access line", func() bool {
		time.Sleep(5 * time.Millisecond)
		for _, l := range p.AccessLines() {
			if l.RequestID == h.Get("X-Request-Id") {
				line = l
				return true
			}
		}
		return false
	})
	return line
}

// TestRealKill checks that a stream ends with an error if its engine is killed, and that the engine
// is used again once it has recovered.
func TestRealKill(t *testing.T) {
	p, e := startRealChat(t, "markov-slow")
	res := p.OpenResponse(context.Background(), "POST", chatPath, rig.ChatBody("talk", `"stream":true,`+long))
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	var body strings.Builder
	for n := 0; n < 10; {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended before the engine was killed: %v\n%s%s", err, body.String(), line)
		}
		body.WriteString(line)
		if strings.Contains(line, `"content":"`) { // reasoning comes first
			n++
		}
	}
	e.kill()
	killed := time.Now()
	rest, err := io.ReadAll(in)
	body.Write(rest)
	if took := time.Since(killed); took > 2*time.Second {
		t.Errorf("the client was told after %v", took)
	}
	(&rig.Reply{T: t, Status: res.StatusCode, Header: res.Header, Body: body.String(), Err: err}).WantBrokenStream(rig.ChatStream, "upstream_bad_response")
	if l := p.realCall(t, res.Header); l.Outcome != "stream_broken" || l.Attempts != 1 {
		t.Errorf("the log says %+v", l)
	}
	if r := p.Post(chatPath, rig.ChatBody("talk", "")); r.Status < 500 {
		t.Errorf("without its engine: status %d\n%s", r.Status, r.Body)
	}
	startLlama(t, e.port, "markov-slow")
	rig.WaitFor(t, realPatience, "the upstream is up again", func() bool {
		return p.realUp() == 1 && p.Post(chatPath, rig.ChatBody("talk", `"max_tokens":4`)).Status == 200
	})
}

// TestRealLeave checks that llama.cpp stops generating when the client disconnects.
func TestRealLeave(t *testing.T) {
	p, e := startRealChat(t, "markov-slow")
	for name, more := range map[string]string{"stream": `"stream":true,`, "not streamed": ""} {
		t.Run(name, func(t *testing.T) {
			e.waitProcessing(5*time.Second, 0)
			ctx, leave := context.WithCancel(context.Background())
			defer leave()
			ended, first := make(chan error, 1), make(chan struct{})
			go func() {
				res, err := p.TryOpenResponse(ctx, "POST", chatPath, rig.ChatBody("talk", more+long))
				if err == nil {
					in := bufio.NewReader(res.Body)
					_, _ = in.ReadString('\n')
					close(first)
					_, err = io.Copy(io.Discard, in)
					res.Body.Close()
				}
				ended <- err
			}()
			e.waitProcessing(5*time.Second, 1)
			if more != "" {
				<-first
			}
			time.Sleep(500 * time.Millisecond) // long enough for the answer to be in progress
			if n := e.processing(); n != 1 {
				t.Fatalf("%d slots are processing before the client leaves, want 1", n)
			}
			leave()
			took := e.waitProcessing(time.Second, 0)
			t.Logf("llama.cpp was free after %v", took)
			if err := <-ended; err == nil {
				t.Error("the answer came to its end")
			}
		})
	}
	p.WaitIdle()
	rig.WaitFor(t, rig.WaitTimeout, "two access lines", func() bool { return len(p.AccessLines()) == 2 })
	for _, l := range p.AccessLines() {
		if l.Outcome != "client_gone" {
			t.Errorf("the log says %+v", l)
		}
	}
}

func TestRealDialects(t *testing.T) {
	p, _ := startRealChat(t, "markov")
	for _, c := range []struct{ name, path, body, first, delta, last string }{
		{
			"messages", "/v1/messages", `{"model":"talk","max_tokens":1000,"stream":true,"messages":[{"role":"user","content":"Tell me of ` + rig.Canary + `."}]}`,
			"message_start", "text_delta", "message_stop",
		},
		{
			"responses", "/v1/responses", `{"model":"talk","stream":true,"input":"Tell me of ` + rig.Canary + `."}`,
			"response.created", "response.output_text.delta", "response.completed",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := p.Post(c.path, c.body).WantStatus(200)
			events := r.Events()
			if c.name == "responses" { // after the last event, the edge sends [DONE], as in chat
				if n := len(events) - 1; events[n].Data != "[DONE]" {
					t.Errorf("no [DONE] but %q", events[n].Data)
				} else {
					events = events[:n]
				}
			}
			if first, last := events[0], events[len(events)-1]; first.Name != c.first || last.Name != c.last {
				t.Errorf("from %q to %q, want from %q to %q\n%s", first.Name, last.Name, c.first, c.last, last.Data)
			}
			for _, e := range events {
				var typed struct{ Type string }
				if err := json.Unmarshal([]byte(e.Data), &typed); err != nil || typed.Type != e.Name {
					t.Errorf("the event %q has the type %q, %v", e.Name, typed.Type, err)
				}
				if e.Name == "error" || e.Name == "response.failed" {
					t.Errorf("an error: %s", e.Data)
				}
			}
			if strings.Count(r.Body, c.delta) == 0 {
				t.Errorf("no %s", c.delta)
			}
			if n := strings.Count(r.Body, "event: "+c.last+"\n"); n != 1 {
				t.Errorf("%d of the last event", n)
			}
			if !strings.Contains(events[0].Data, `"talk"`) || strings.Contains(r.Body, `"markov"`) {
				t.Errorf("the model's name: %s", events[0].Data)
			}
		})
	}
}

func TestRealTranscription(t *testing.T) {
	script := realEngines(t)
	sample := filepath.Join(t.TempDir(), "speech.wav")
	if out, err := exec.Command("bash", script, "speech", sample, "The night train carries mail and oranges.").CombinedOutput(); err != nil {
		t.Fatalf("no spoken sample: %v\n%s", err, out)
	}
	spoken, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string][]string{"own path": nil, "OpenAI's path": {"--inference-path", transcriptions}} {
		t.Run(name, func(t *testing.T) {
			e, ok := tryRealEngine(t, realPort(t), "whisper", flags...)
			if !ok {
				t.Fatalf("whisper did not start:\n%s", e.out)
			}
			p := startReal(t, 1, fmt.Sprintf(`upstreams: [{ name: whisper, url: %q }]
models: [{ id: ears, kind: audio-transcription, deployments: [{ upstream: whisper }] }]`, e.url))
			r := p.upload(transcriptions, text("model", "ears"), text("response_format", "json"), wav(string(spoken))).WantStatus(200)
			var heard struct{ Text string }
			if err := json.Unmarshal([]byte(r.Body), &heard); err != nil || !strings.Contains(strings.ToLower(heard.Text), "train") {
				t.Errorf("json: %v: %s", err, r.Body)
			}
			r = p.upload(transcriptions, wav(string(spoken)), text("response_format", "text"), text("model", "ears")).WantStatus(200)
			if ct := r.Header.Get("Content-Type"); !strings.HasPrefix(ct, "text/plain") {
				t.Errorf("text: Content-Type %q", ct)
			}
			if strings.TrimSpace(r.Body) != strings.TrimSpace(heard.Text) {
				t.Errorf("text %q, json %q", r.Body, heard.Text)
			}
		})
	}
}

func TestRealSpeech(t *testing.T) {
	e, ok := tryRealEngine(t, realPort(t), "tts")
	if !ok {
		t.Fatalf("the speech engine did not start:\n%s", e.out)
	}
	p := startReal(t, 1, fmt.Sprintf(`upstreams: [{ name: tts, url: %q }]
models: [{ id: voice, kind: audio-speech, deployments: [{ upstream: tts, served: espeak }] }]`, e.url))
	r := p.Post(speech, `{"model":"voice","voice":"alloy","input":"Mail and oranges.","response_format":"wav"}`).WantStatus(200)
	if ct := r.Header.Get("Content-Type"); !strings.HasPrefix(ct, "audio/") || !strings.Contains(ct, "wav") {
		t.Errorf("Content-Type %q", ct)
	}
	if len(r.Body) < 1000 || !strings.HasPrefix(r.Body, "RIFF") || r.Body[8:12] != "WAVE" {
		t.Errorf("%d bytes that begin with %q", len(r.Body), r.Body[:min(len(r.Body), 12)])
	}
	var sound []byte
	for _, event := range p.Post(speech, `{"model":"voice","voice":"alloy","input":"Mail and oranges.","stream_format":"sse"}`).WantStatus(200).Events() {
		var ev speechEvent
		piece, err := []byte(nil), json.Unmarshal([]byte(event.Data), &ev)
		if err == nil {
			piece, err = base64.StdEncoding.DecodeString(ev.Audio)
		}
		if sound = append(sound, piece...); err != nil {
			t.Errorf("%+v: %v", event, err)
		}
	}
	if string(sound) != r.Body {
		t.Errorf("%d bytes in events, %d without", len(sound), len(r.Body))
	}
}
