package observe

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync"
)

// SessionHash distinguishes client sessions in the log of one process. The zero value means
// unknown.
type SessionHash [8]byte

// String returns the session as it appears in the log.
func (s SessionHash) String() string { return hex.EncodeToString(s[:]) }

// sessionSecret returns a secret that does not change until the process exits.
var sessionSecret = sync.OnceValue(func() []byte {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // Read never fails
	return secret
})

// NewSessionHash returns the SessionHash for the hash of a session's name. If the hash is 0, it
// returns the zero SessionHash. NewSessionHash hashes the hash again with a secret. Otherwise, a
// reader of the log could test guessed names.
func NewSessionHash(hash uint64) (s SessionHash) {
	if hash == 0 {
		return s
	}
	mac := hmac.New(sha256.New, sessionSecret())
	mac.Write(binary.BigEndian.AppendUint64(nil, hash))
	copy(s[:], mac.Sum(nil))
	return s
}
