package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/upstreams/engine"
)

// streamingEngine answers every chat call with a short stream.
func streamingEngine(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	const chunk = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}` + "\n\n"
	fmt.Fprintf(w, chunk, `{"content":"word"}`, "null")
	w.(http.Flusher).Flush()
	fmt.Fprintf(w, chunk, `{}`, `"stop"`)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// TestIdleConnectionsAreParked checks connections that have been idle for a while, after an answer
// or a stream. The server must hold no memory for such a connection, and must serve its next
// request.
func TestIdleConnectionsAreParked(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(streamingEngine))
	defer up.Close()
	f, problems := config.ParseValid("test.yaml", fmt.Appendf(nil, `
auth: none
timeouts: { linger: 0s }
upstreams: [{ name: up, url: %q, engine: openai }]
models: [{ id: m, deployments: [{ upstream: up }] }]
`, up.URL), config.KnownProfiles{Engines: engine.EngineNames(nil)})
	if f == nil {
		t.Fatal(problems)
	}
	public, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Options{Config: f, Log: zap.NewNop(), MemoryLimit: 1 << 30, Public: public})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx) }()
	client, err := net.Dial("tcp", public.Addr().String()) //nolint:noctx // a test's
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	answers := bufio.NewReader(client)
	const body = `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`
	stream := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for _, request := range []string{"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", stream, stream, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		if _, err := io.WriteString(client, request); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		if r.StatusCode != 200 || err != nil || request == stream && !strings.Contains(string(text), "[DONE]") {
			t.Fatalf("status %d, %v: %s", r.StatusCode, err, text)
		}
		for deadline := time.Now().Add(30 * time.Second); e.server.GetCurrentConcurrency() > 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the connection still occupies the server")
			}
		}
		if n := e.listener.OpenConnCount(); n != 1 {
			t.Fatalf("%d connections are open, want 1", n)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the drain, the client reads %v", err)
	}
}
