package chat

import (
	"bytes"

	"github.com/cespare/xxhash/v2"

	"penstock/translate/jsonx"
)

// Session is what a request says of the conversation that it is a turn of. Both are hashes, 0 where
// the request says nothing: what a client writes there may be long, and is kept nowhere.
type Session struct {
	// ID is of the name of the client's session.
	ID uint64
	// CacheKey is of prompt_cache_key. Requests with one key begin alike and are to find one cache,
	// but they need not be of one conversation: an application may send the same key for all of its
	// users.
	CacheKey uint64
}

// SessionHash hashes the name of a session, of any bytes and length. It is never 0, and the same at
// every edge: edges in front of the same engines send a session to the same one of them.
func SessionHash(name []byte) uint64 { return max(xxhash.Sum64(name), 1) }

// SessionHashOf is SessionHash of a string as it stands in the body; 0: v is no string, or empty.
func SessionHashOf(v jsonx.Value) uint64 {
	if !v.HasText() {
		return 0
	}
	return SessionHash(v.Inside())
}

// SessionOfUser is SessionHash of the session within metadata.user_id of a Messages request, which
// Claude Code writes as user_…_account_…_session_ID, and from 2.1.78 on as a string of JSON with a
// member session_id. It is 0 where the id has no such part: it is then of a person, who may have
// many conversations.
func SessionOfUser(v jsonx.Value) uint64 {
	if !v.HasText() {
		return 0
	}
	id := v.Inside()
	if _, after, found := bytes.Cut(id, []byte(`\"session_id\":\"`)); found {
		id, _, _ = bytes.Cut(after, []byte(`\"`))
	} else if at := bytes.LastIndex(id, []byte("_session_")); at >= 0 {
		id = id[at+len("_session_"):]
	} else {
		return 0
	}
	if len(id) == 0 {
		return 0
	}
	return SessionHash(id)
}

// SessionOf returns what a request says of its session.
func SessionOf(r *Request) Session {
	s := r.Session
	if s.CacheKey == 0 {
		s.CacheKey = SessionHashOf(r.members[memberPromptCacheKey])
	}
	return s
}
