package call

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestSessionHeader(t *testing.T) {
	of := func(pairs ...string) uint64 {
		var h fasthttp.RequestHeader
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return sessionHash(&h)
	}
	one := of("X-Session-Id", "one")
	for name, got := range map[string]struct{ got, want uint64 }{
		"none":                        {of("X-Request-Id", "one"), 0},
		"empty":                       {of("X-Session-Id", ""), 0},
		"Claude Code":                 {of("X-Claude-Code-Session-Id", "one"), one},
		"Codex":                       {of("session_id", "one"), one},
		"Codex, newer":                {of("session-id", "one"), one},
		"Codex, a thread":             {of("thread-id", "one"), one},
		"opencode":                    {of("x-opencode-session", "one"), one},
		"affinity":                    {of("X-Session-Affinity", "one"), one},
		"the session before the rest": {of("X-Session-Affinity", "two", "session_id", "one"), one},
	} {
		if got.got != got.want {
			t.Errorf("%s: got %x, want %x", name, got.got, got.want)
		}
	}
	if of("X-Session-Id", "two") == one {
		t.Error("two sessions have one hash")
	}
	if of("X-Session-Id", strings.Repeat("\xff", 8<<10)) == 0 {
		t.Error("a long session of any bytes is not hashed")
	}
}
