package chat

import (
	"bytes"

	"github.com/cespare/xxhash/v2"

	"penstock/translate/jsonx"
)

// SessionHashes identifies the conversation of a request. Both fields are hashes. A field is 0 if the
// request lacks the corresponding member.
type SessionHashes struct {
	// ID is the hash of the client's session name.
	ID uint64
	// CacheKey is the hash of prompt_cache_key. Requests with the same key have the same prefix and
	// should use the same cache. An application may send the same key for all its users.
	CacheKey uint64
}

// SessionHash hashes a session's name. The hash is never 0. All edges compute the same hash, so
// that they send a session to the same engine.
func SessionHash(name []byte) uint64 { return max(xxhash.Sum64(name), 1) }

// HashSessionValue returns SessionHash for the string v. It returns 0 if v is empty or not a
// string.
func HashSessionValue(v jsonx.Value) uint64 {
	if !v.HasText() {
		return 0
	}
	return SessionHash(v.RawContents())
}

// UserIDSession returns SessionHash for the session in metadata.user_id of a Messages request.
// Claude Code writes user_…_account_…_session_ID or, since version 2.1.78, a JSON string with a
// session_id member. UserIDSession returns 0 for any other id, because such an id identifies a
// person, who may have many conversations.
func UserIDSession(v jsonx.Value) uint64 {
	if !v.HasText() {
		return 0
	}
	id := v.RawContents()
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

// RequestSession returns the session of a request.
func RequestSession(r *Request) SessionHashes {
	s := r.Session
	if s.CacheKey == 0 {
		s.CacheKey = HashSessionValue(r.members[memberPromptCacheKeyIndex])
	}
	return s
}
