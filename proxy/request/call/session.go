package call

import (
	"github.com/valyala/fasthttp"

	"penstock/translate/chat"
)

// sessionHeader returns a hash of the session in the request headers, or 0 if the headers contain
// none. If the request has more than one session header, the narrowest session counts. From the
// narrowest session to the widest, the headers are those of Claude Code, Codex (new spelling, old
// spelling, thread), opencode, and other agents and proxies. The headers are read in one pass,
// because a lookup of each name would cost more than the pick.
func sessionHeader(h *fasthttp.RequestHeader) uint64 {
	var name []byte
	narrowest := 8
	for k, v := range h.All() {
		at := narrowest
		switch string(k) {
		case "X-Claude-Code-Session-Id":
			at = 0
		case "Session-Id":
			at = 1
		case "Session_id":
			at = 2
		case "Thread-Id":
			at = 3
		case "X-Opencode-Session":
			at = 4
		case "X-Session-Id":
			at = 5
		case "X-Session-Affinity":
			at = 6
		}
		if at < narrowest && len(v) > 0 {
			narrowest, name = at, v
		}
	}
	if name == nil {
		return 0
	}
	return chat.SessionHash(name)
}

func (c *Call) session() chat.Session {
	t := &c.tries.talk
	if t.asked {
		return t.session
	}
	t.asked, t.session = true, c.request.Session()
	if c.client.ctx != nil {
		if id := sessionHeader(&c.client.ctx.Request.Header); id != 0 {
			t.session.ID = id
		}
	}
	return t.session
}
