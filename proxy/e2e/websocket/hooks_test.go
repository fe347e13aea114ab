package websocket

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"penstock/proxy/e2e/rig"
)

// TestHook checks that a hook decides about each call on a connection, and that the connection
// continues after a refusal. The hook refuses one text and rewrites another.
func TestHook(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		text, _ := io.ReadAll(r.Body)
		switch _, body, _ := strings.Cut(string(text), `"body":`); {
		case strings.Contains(body, "swordfish"):
			io.WriteString(w, `{"action":"refuse","status":422,"message":"Not here."}`)
		case strings.Contains(body, "Bond"):
			io.WriteString(w, `{"action":"rewrite","body":`+strings.ReplaceAll(strings.TrimSuffix(body, "}"), "Bond", "nobody")+`}`)
		default:
			io.WriteString(w, `{"action":"allow"}`)
		}
	}))
	t.Cleanup(hook.Close)
	p := start(t, rig.Setup{Top: `hooks: [{ name: guard, before: "` + hook.URL + `", send: body, timeout: 60s }]`})
	c := dial(t, p)
	c.send(`{"type":"response.create","model":"sim","input":"Hello"}`)
	c.wantCompleted()
	c.send(`{"type":"response.create","model":"sim","input":"my swordfish"}`)
	if e := c.refused(422, "refused_by_hook"); !strings.Contains(e.text, "Not here.") {
		t.Errorf("refusal = %s, want Not here.", e.text)
	}
	c.send(`{"type":"response.create","model":"sim","input":"my name is Bond"}`)
	c.wantCompleted()
	if n := asked.Load(); n != 3 {
		t.Errorf("the hook was asked %d times", n)
	}
}
