package auth

import (
	"crypto/sha256"
	"crypto/subtle"

	"penstock/proxy/access/auth/cert"
)

// Sender is the connection that a request came on. The zero Sender is a connection of which nothing
// is known.
type Sender struct {
	Peer *cert.Peer // by the certificate of the connection; nil: it has none
	Last *LastKey   // nil: nothing is remembered
}

// longestKept is the longest key that a connection remembers. Tokens are longer.
const longestKept = 128

// LastKey is the key that a connection showed last and the key's hash. Clients show the same key
// with each request, and hashing it costs more than the rest of the look-up. Nothing else is
// remembered, so that what a ring says of a key is never out of date. The zero LastKey is ready for
// use. A LastKey belongs to one connection, ends with it, and is not safe for concurrent use.
type LastKey struct {
	key []byte
	sum [sha256.Size]byte
}

// String hides the key from every formatter.
func (l *LastKey) String() string { return "redacted" }

// GoString hides the key from %#v.
func (l *LastKey) GoString() string { return "redacted" }

// recall returns the hash of a key if it is the last one. l may be nil. The comparison takes
// constant time, because a proxy may send the requests of several clients on one connection.
func (l *LastKey) recall(key []byte) (sum [sha256.Size]byte, ok bool) {
	if l == nil || len(l.key) == 0 || subtle.ConstantTimeCompare(l.key, key) != 1 {
		return sum, false
	}
	return l.sum, true
}

// remember keeps a key that a ring has found. l may be nil.
func (l *LastKey) remember(key []byte, sum [sha256.Size]byte) {
	if l == nil || len(key) > longestKept {
		return
	}
	clear(l.key[:cap(l.key)])
	l.key, l.sum = append(l.key[:0], key...), sum
}
