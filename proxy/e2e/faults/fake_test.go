package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
)

// fakeEngine is a listener with a script, for faults that the simulator cannot produce. It responds
// to probes like a working engine, and passes every other request to the script.
type fakeEngine struct {
	t      testing.TB
	url    string
	script func(c *fakeCall)

	mu     sync.Mutex
	calls  int // number of requests that are not probes
	closed int // number of calls whose connection the edge has closed
}

// fakeCall is one request on a connection to a fake engine. The request's body has been read
// completely.
type fakeCall struct {
	net.Conn
	in     *bufio.Reader
	number int // 1 for the first call of the engine
	body   string
	engine *fakeEngine
}

// startFakeEngine starts a fake engine. script answers one request. It must return only when the
// connection is closed or ready for the next request.
func startFakeEngine(t testing.TB, script func(c *fakeCall)) *fakeEngine {
	t.Helper()
	f := &fakeEngine{t: t, script: script}
	f.url = listen(t, f.serve)
	return f
}

// listen accepts connections until the test ends and runs serve for each of them in a separate
// goroutine. It returns the listener's URL.
func listen(t testing.TB, serve func(net.Conn)) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, ln, serve)
	return "http://" + ln.Addr().String()
}

func serveOn(t testing.TB, ln net.Listener, serve func(net.Conn)) {
	var running sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			running.Go(func() { serve(c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
}

func (f *fakeEngine) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		switch {
		case req.Method != "GET":
			f.mu.Lock()
			f.calls++
			n := f.calls
			f.mu.Unlock()
			f.script(&fakeCall{Conn: c, in: in, number: n, body: string(body), engine: f})
		case req.URL.Path == "/v1/models":
			_ = reply200(c, "application/json", `{"object":"list","data":[{"id":"sim","object":"model"}]}`)
		default:
			_ = reply200(c, "application/json", `{}`)
		}
	}
}

// callCounts returns the number of calls, not counting probes, and the number of calls whose connection
// the edge has closed.
func (f *fakeEngine) callCounts() (calls, closed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls, f.closed
}

func (c *fakeCall) send(text string) { _, _ = io.WriteString(c.Conn, text) }

// head writes the head of a successful answer. A negative length means a chunked body.
func (c *fakeCall) head(contentType string, length int) {
	framing := "Transfer-Encoding: chunked"
	if length >= 0 {
		framing = "Content-Length: " + strconv.Itoa(length)
	}
	c.send("HTTP/1.1 200 OK\r\nContent-Type: " + contentType + "\r\n" + framing + "\r\n\r\n")
}

// chunk writes one chunk. An empty chunk is the last chunk.
func (c *fakeCall) chunk(data string) { c.send(fmt.Sprintf("%x\r\n%s\r\n", len(data), data)) }

// answer writes a complete successful answer, as a stream if the request asks for one.
func (c *fakeCall) answer() {
	if !strings.Contains(c.body, `"stream":true`) {
		_ = reply200(c.Conn, "application/json", plainAnswer)
		return
	}
	c.head("text/event-stream", -1)
	for _, data := range append(streamAnswer, "[DONE]") {
		c.chunk("data: " + data + "\n\n")
	}
	c.chunk("")
}

// waitClosed waits until the edge closes the connection, and counts it as closed.
func (c *fakeCall) waitClosed() {
	_ = c.SetReadDeadline(time.Now().Add(rig.WaitTimeout))
	if _, err := c.in.ReadByte(); err == nil {
		c.engine.t.Error("the edge sends more on a connection that waits for an answer")
		return
	} else if nerr, ok := err.(net.Error); ok && nerr.Timeout() {
		return
	}
	c.engine.mu.Lock()
	c.engine.closed++
	c.engine.mu.Unlock()
}

const plainAnswer = `{"id":"x","object":"chat.completion","created":1,"model":"sim","choices":[{"index":0,"message":{"role":"assistant","content":"Good."},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`

var streamAnswer = []string{
	`{"id":"x","object":"chat.completion.chunk","created":1,"model":"sim","choices":[{"index":0,"delta":{"role":"assistant","content":"Go"}}]}`,
	`{"id":"x","object":"chat.completion.chunk","created":1,"model":"sim","choices":[{"index":0,"delta":{"content":"od."}}]}`,
	`{"id":"x","object":"chat.completion.chunk","created":1,"model":"sim","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
}

func reply200(w io.Writer, contentType, body string) error {
	_, err := fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", contentType, len(body), body)
	return err
}
