package observe

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync"
)

// Session distinguishes client sessions in the log of one process. The zero value means unknown.
type Session [8]byte

// String returns the session as it appears in the log.
func (s Session) String() string { return hex.EncodeToString(s[:]) }

// sessionSecret returns a secret that does not change until the process exits.
var sessionSecret = sync.OnceValue(func() []byte {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // Read never fails
	return secret
})

// NewSession returns the Session for the hash of a session's name. If the hash is 0, it returns the
// zero Session. NewSession hashes the hash again with a secret, because otherwise a reader of the
// log could test guessed names.
func NewSession(hash uint64) (s Session) {
	if hash == 0 {
		return s
	}
	mac := hmac.New(sha256.New, sessionSecret())
	mac.Write(binary.BigEndian.AppendUint64(nil, hash))
	copy(s[:], mac.Sum(nil))
	return s
}
