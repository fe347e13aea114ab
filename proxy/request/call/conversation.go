package call

import (
	"math/rand/v2"

	"github.com/valyala/fasthttp"

	"penstock/proxy/access/auth"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/running/snapshot"
	"penstock/routing"
	"penstock/translate/chat"
)

// sessionHash returns a hash of the session in the request headers, or 0 if there is no session
// header. If the request has more than one session header, the narrowest session counts. From the
// narrowest session to the widest, the headers are those of Claude Code, Codex (new spelling, old
// spelling, thread), opencode, and other agents and proxies. The headers are read in one pass,
// because a lookup of each name would cost more than picking the engine.
func sessionHash(h *fasthttp.RequestHeader) uint64 {
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

// conversation contains the values by which routing recognizes the conversation of a call.
type conversation struct {
	hashes      []uint64
	prefixBytes int    // number of prompt bytes that hashes covers
	armNumber   uint64 // selects the arms; 0 if not computed yet
	session     chat.SessionHashes
	sessionRead bool // whether session is set
}

// clientSession returns the session that the request or its headers name.
func (t *conversation) clientSession(r endpoint.Request, cl *callClient) chat.SessionHashes {
	if t.sessionRead {
		return t.session
	}
	t.sessionRead, t.session = true, r.SessionHashes()
	if cl.ctx != nil {
		if id := sessionHash(&cl.ctx.Request.Header); id != 0 {
			t.session.ID = id
		}
	}
	return t.session
}

// armSelector returns the number that selects the arms of a call. All calls of a conversation get
// the same number.
func (t *conversation) armSelector(key string, r endpoint.Request) uint64 {
	if t.armNumber == 0 {
		begin := chat.ConversationPrefix(r.Chat())
		if t.armNumber = routing.ConversationHash(key, begin); key == "" && begin == nil {
			t.armNumber = rand.Uint64()
		}
	}
	return t.armNumber
}

// prefixBlocks hashes the beginning of the prompt for a route with prefix affinity.
func (t *conversation) prefixBlocks(m *snapshot.Model, key *auth.Key, r endpoint.Request) []uint64 {
	if !m.Route.UsesPrefixIndex() {
		return nil
	}
	if len(t.hashes) == 0 {
		tools, messages := r.PromptPrefix()
		if messages == nil {
			return nil
		}
		seed := routing.PromptSeed(m.Config.ID, m.CacheOwner(key), tools)
		t.hashes, t.prefixBytes = routing.HashBlocks(t.hashes, seed, messages), len(messages)
	}
	return t.hashes
}
