package observe

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync"
)

// Session distinguishes the sessions of clients in the log of one process. The zero value means
// unknown.
type Session [8]byte

// String returns the session in its form in the log.
func (s Session) String() string { return hex.EncodeToString(s[:]) }

// sessionSecret is valid as long as the process runs.
var sessionSecret = sync.OnceValue(func() []byte {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // it never fails
	return secret
})

// SessionOf returns the Session for the hash of a session's name; a hash of 0 has none. The hash
// that routing uses has no secret, and names may be easy to guess, so a reader of the log could
// test names without this second hash.
func SessionOf(hash uint64) (s Session) {
	if hash == 0 {
		return s
	}
	mac := hmac.New(sha256.New, sessionSecret())
	mac.Write(binary.BigEndian.AppendUint64(nil, hash))
	copy(s[:], mac.Sum(nil))
	return s
}
