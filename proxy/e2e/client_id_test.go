package e2e

import (
	"strings"
	"testing"

	"penstock/proxy/e2e/rig"
)

// TestClientRequestID checks that every kind of response returns the client's request id, and that
// the log never contains it. An id that is invalid as a header value must be omitted.
func TestClientRequestID(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	const name, id = "X-Client-Request-Id", "ours-4711/{a}"
	for what, r := range map[string]*rig.Reply{
		"whole":   p.Do("POST", chatPath, rig.ChatBody("sim", ""), name+": "+id),
		"stream":  p.Do("POST", chatPath, rig.ChatBody("sim", `"stream":true`), name+": "+id),
		"refused": p.Do("POST", "/v1/messages", "{", name+": "+id),
		"no key":  p.Do("POST", chatPath, "{}", name+": "+id, "Authorization: Bearer wrong"),
		"models":  p.Do("GET", "/v1/models", "", name+": "+id),
		"nowhere": p.Do("GET", "/nowhere", "", name+": "+id),
	} {
		if got := r.Header.Get(name); got != id {
			t.Errorf("%s (%d): it gets %q", what, r.Status, got)
		}
	}
	longest := strings.Repeat("x", 512)
	if got := p.Do("GET", "/health", "", name+": "+longest).Header.Get(name); got != longest {
		t.Errorf("of 512 characters come back %d", len(got))
	}
	for _, bad := range []string{longest + "x", "two words", "gr\u00f6\u00dfe", ""} {
		if got, given := p.Do("GET", "/health", "", name+": "+bad).Header[name]; given {
			t.Errorf("%.20q comes back as %q", bad, got)
		}
	}
	if strings.Contains(p.Log.String(), "ours-4711") {
		t.Error("a log has it")
	}
}
