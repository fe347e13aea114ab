package chat

import (
	"strings"
	"testing"
)

// TestSessionOfUser checks that UserIDSession finds the session in both formats of Claude Code, and
// that a person's id does not identify a session.
func TestSessionOfUser(t *testing.T) {
	const id = "0b32c8a1-6f5e-4d3c-8b7a-1a2b3c4d5e6f"
	one, hash := SessionHash([]byte(id)), strings.Repeat("ab", 32)
	for user, want := range map[string]uint64{
		`"user_` + hash + `_account__session_` + id + `"`:                                        one,
		`"user_` + hash + `_account_` + id + `_session_` + id + `"`:                              one,
		`"{\"device_id\":\"` + hash + `\",\"account_uuid\":\"\",\"session_id\":\"` + id + `\"}"`: one,
		`"{\"session_id\":\"` + id + `\",\"device_id\":\"x\"}"`:                                  one,
		`"user_1_account__session_"`:                                                             0,
		`"{\"session_id\":\"\"}"`:                                                                0,
		`"alice"`:                                                                                0, `""`: 0, `null`: 0, `7`: 0, `{"session_id":"` + id + `"}`: 0,
	} {
		var r Request
		if err := r.Decode([]byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}],"metadata":{"user_id":` + user + `}}`)); err != nil {
			t.Fatal(err)
		}
		if got := UserIDSession(r.doc.Root().Get("metadata").Get("user_id")); got != want {
			t.Errorf("%s: %x, want %x", user, got, want)
		}
	}
}

// TestRequestSession checks that a session uses the chat request's cache key, whatever the key's type,
// length and bytes. If the request has no key, the session uses the key read by a translator.
func TestRequestSession(t *testing.T) {
	long := strings.Repeat(`é\n`, 100_000)
	for key, want := range map[string]uint64{
		`"one"`: SessionHash([]byte("one")), `"` + long + `"`: SessionHash([]byte(long)),
		`""`: 0, `null`: 0, `5`: 0, `{"a":"one"}`: 0,
	} {
		var r Request
		if err := r.Decode([]byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}],"prompt_cache_key":` + key + `}`)); err != nil {
			t.Fatal(err)
		}
		if got := RequestSession(&r); got != (SessionHashes{CacheKey: want}) {
			t.Errorf("%.20s: %x, want %x", key, got, want)
		}
		r.Session = SessionHashes{ID: 1, CacheKey: 2}
		if got := RequestSession(&r); got != (SessionHashes{ID: 1, CacheKey: 2}) {
			t.Errorf("%.20s: %x of a translated request", key, got)
		}
	}
}
