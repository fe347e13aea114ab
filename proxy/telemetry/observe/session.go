package observe

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync"
)

// Session distinguishes clients' sessions in the log of one process. The zero value means unknown.
type Session [8]byte

// String returns the session as the log shows it.
func (s Session) String() string { return hex.EncodeToString(s[:]) }

// sessionSecret stays the same until the process ends.
var sessionSecret = sync.OnceValue(func() []byte {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // Read never fails
	return secret
})

// SessionOf returns the Session for the hash of a session's name; a hash of 0 has none. The hash
// that routing uses has no secret, and names may be easy to guess. So without this second hash a
// reader of the log could test guessed names.
func SessionOf(hash uint64) (s Session) {
	if hash == 0 {
		return s
	}
	mac := hmac.New(sha256.New, sessionSecret())
	mac.Write(binary.BigEndian.AppendUint64(nil, hash))
	copy(s[:], mac.Sum(nil))
	return s
}
