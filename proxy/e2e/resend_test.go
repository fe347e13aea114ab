package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
)

// TestWorkIsNotAskedForTwice checks an engine that works for a while and then closes a keep-alive
// connection without sending a byte. The edge must not repeat the request.
func TestWorkIsNotAskedForTwice(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !strings.HasSuffix(r.URL.Path, "/chat/completions"):
			_, _ = w.Write([]byte(`{"object":"list","data":[{"id":"sim","object":"model"}]}`))
		case asked.Add(1) == 1: // after this request, the connection stays open
			_, _ = w.Write([]byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}`))
		default:
			time.Sleep(1500 * time.Millisecond)
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(engine.Close)
	p := start(t, rig.Setup{Fakes: []string{engine.URL}, Upstream: rig.QuietProbes})
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	p.Post(chatPath, p.ChatRequest("")).WantStatus(502)
	if n := asked.Load(); n != 2 {
		t.Errorf("two requests, and the engine was asked %d times", n)
	}
}
