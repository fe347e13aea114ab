package chat

import (
	"bytes"

	"github.com/cespare/xxhash/v2"

	"penstock/translate/jsonx"
)

// Session holds what a request says about its conversation. Both members are hashes, because a
// client's text may be long and is not stored. They are 0 if the request says nothing.
type Session struct {
	// ID is the hash of the client's session name.
	ID uint64
	// CacheKey is the hash of prompt_cache_key. Requests with the same key share a prefix and should
	// find the same cache, but need not belong to one conversation: an application may send the same
	// key for all its users.
	CacheKey uint64
}

// SessionHash hashes a session's name, which may be any bytes of any length. The hash is never 0.
// It is the same at every edge, so that edges in front of the same engines send a session to the
// same engine.
func SessionHash(name []byte) uint64 { return max(xxhash.Sum64(name), 1) }

// SessionHashOf is SessionHash for the string v in the body's spelling. It returns 0 if v is empty
// or not a string.
func SessionHashOf(v jsonx.Value) uint64 {
	if !v.HasText() {
		return 0
	}
	return SessionHash(v.Inside())
}

// SessionOfUser is SessionHash for the session within metadata.user_id of a Messages request.
// Claude Code writes that id as user_…_account_…_session_ID, and since 2.1.78 as a string of JSON
// with a member session_id. SessionOfUser returns 0 if the id names no session, because the id then
// identifies a person, who may have many conversations.
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

// SessionOf returns what a request says about its session.
func SessionOf(r *Request) Session {
	s := r.Session
	if s.CacheKey == 0 {
		s.CacheKey = SessionHashOf(r.members[memberPromptCacheKey])
	}
	return s
}
