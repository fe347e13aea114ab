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

// sessionSecret lasts as long as the process.
var sessionSecret = sync.OnceValue(func() []byte {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // it never fails
	return secret
})

// SessionOf returns the Session for the hash of a session's name; a hash of 0 has none. The hash
// that routing uses has no secret, and names may be easy to guess. Without this second hash a
// reader of the log could therefore test names.
func SessionOf(hash uint64) (s Session) {
	if hash == 0 {
		return s
	}
	mac := hmac.New(sha256.New, sessionSecret())
	mac.Write(binary.BigEndian.AppendUint64(nil, hash))
	copy(s[:], mac.Sum(nil))
	return s
}
