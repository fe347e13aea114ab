//go:build unix

package faults

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
)

// TestStoppedEdge suspends an edge for longer than its timeouts. It checks that the edge then
// passes on the answers that reached its sockets in the meantime.
func TestStoppedEdge(t *testing.T) {
	t.Parallel()
	const answer = `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	asked, goOn := make(chan bool, 1), make(chan bool)
	var answered atomic.Bool
	engine := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/health":
		case "/v1/models":
			fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		case "/v1/chat/completions":
			asked <- true
			<-goOn
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, answer)
		default:
			http.NotFound(w, r)
		}
	}))
	engine.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateIdle { // the kernel of the edge has received the answer
			answered.Store(true)
		}
	}
	engine.Start()
	defer engine.Close()
	e := start(t, rig.Setup{Fakes: []string{engine.URL}, Untidy: true, Config: `
timeouts: { answer: 10s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: a, url: "` + engine.URL + `", engine: openai, concurrency: 4, probe: { path: /health, interval: 1m } }]
models: [{ id: m, deployments: [{ upstream: a }] }]
`})
	got := make(chan *rig.Reply, 1)
	go func() { got <- e.Post(rig.Chat.Path, rig.Chat.RequestBody("m", rig.Prompt, "")) }()
	rig.Receive(t, rig.WaitTimeout, "the engine is asked", asked)
	at := time.Now()
	e.Signal(syscall.SIGSTOP)
	answered.Store(false)
	close(goOn)
	rig.WaitFor(t, rig.WaitTimeout, "the engine has answered", answered.Load)
	time.Sleep(time.Until(at.Add(11 * time.Second))) // the timeout expires in the meantime
	e.Signal(syscall.SIGCONT)
	if r := rig.Receive(t, rig.WaitTimeout, "the call is answered", got); r.Status != 200 {
		t.Errorf("status %d: %s", r.Status, r.Body)
	}
}
