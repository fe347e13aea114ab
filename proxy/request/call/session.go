package call

import (
	"github.com/valyala/fasthttp"

	"penstock/routing"
)

// sessionHeaders are those by which clients name the session of a call, the narrowest first: Claude
// Code, Codex (its newer and its older spelling, and the thread), opencode, and what other agents and
// proxies send.
var sessionHeaders = [...]string{
	"X-Claude-Code-Session-Id", "Session-Id", "Session_id", "Thread-Id", "X-Opencode-Session",
	"X-Session-Id", "X-Session-Affinity",
}

// sessionOf returns a hash of the session that a client names in its request's head, and 0 where it
// names none. The name itself is kept nowhere.
func sessionOf(h *fasthttp.RequestHeader) uint64 {
	for _, name := range sessionHeaders {
		if id := h.Peek(name); len(id) > 0 {
			return routing.SessionHash(id)
		}
	}
	return 0
}
