package observe

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync"
)

// Session tells the sessions of clients apart in the log of one process. Zero: not known.
type Session [8]byte

// String returns the session in the log's form.
func (s Session) String() string { return hex.EncodeToString(s[:]) }

// sessionSecret lasts as long as the process.
var sessionSecret = sync.OnceValue(func() []byte {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // it never fails
	return secret
})

// SessionOf returns the Session for the hash of a session's name; 0 has none. Names may be easy to
// guess, and the hash that routing uses has no secret: a reader of the log could try names.
func SessionOf(hash uint64) (s Session) {
	if hash == 0 {
		return s
	}
	mac := hmac.New(sha256.New, sessionSecret())
	mac.Write(binary.BigEndian.AppendUint64(nil, hash))
	copy(s[:], mac.Sum(nil))
	return s
}
