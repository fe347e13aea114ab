package auth

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"penstock/proxy/access/auth/cert"
)

// ClientConnection describes the connection over which a request arrived. The zero value is valid.
type ClientConnection struct {
	Peer *cert.Peer    // nil if the client has not presented a certificate
	Last *LastKeyCache // nil if keys are not cached
}

const maxCachedHeader = 128

// LastKeyCache caches the last key presented on a connection, and the hash of the key. Clients send
// the same key with each request, and hashing a key costs more than looking it up. LastKeyCache
// does not cache the result of the lookup, because a reload may change it. The zero LastKeyCache is
// ready for use. A LastKeyCache is not safe for concurrent use.
type LastKeyCache struct {
	value    []byte
	key      []byte // subslice of value
	sum      [sha256.Size]byte
	location keyLocation
}

type keyLocation uint8

const (
	locationNone keyLocation = iota
	locationAuthorization
	locationAPIKey
	locationBoth
)

// String hides the key from every formatter.
func (l *LastKeyCache) String() string { return "redacted" }

// GoString hides the key from %#v.
func (l *LastKeyCache) GoString() string { return "redacted" }

// matchRequest returns the credential in a request if it is the cached key. The comparison takes
// constant time, because a proxy may send requests from different clients over one connection. l
// may be nil.
func (l *LastKeyCache) matchRequest(r *CredentialInput) (c Credential, ok bool) {
	if l == nil || l.location == locationNone {
		return c, false
	}
	header, other := &r.Authorization, &r.APIKey
	if l.location == locationAPIKey {
		header, other = other, header
	}
	if header.count != 1 || other.count > 0 || !equalConstantTime(l.value, header.firstValue) {
		return c, false
	}
	return Credential{key: l.key, lastKey: l, cached: true}, true
}

// equalConstantTime reports whether two values are equal. Its duration depends only on their
// lengths. It is faster than crypto/subtle, which compares one byte at a time.
func equalConstantTime(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	var differ uint64
	if len(a) < 8 || len(b) < 8 {
		for i := range a {
			differ |= uint64(a[i] ^ b[i])
		}
		return differ == 0
	}
	differ = binary.LittleEndian.Uint64(a[len(a)-8:]) ^ binary.LittleEndian.Uint64(b[len(b)-8:])
	for ; len(a) > 8 && len(b) > 8; a, b = a[8:], b[8:] {
		differ |= binary.LittleEndian.Uint64(a) ^ binary.LittleEndian.Uint64(b)
	}
	return differ == 0
}

func (l *LastKeyCache) store(c *Credential, sum [sha256.Size]byte) {
	if l == nil || c.location == locationBoth || len(c.value) > maxCachedHeader {
		return
	}
	clear(l.value[:cap(l.value)])
	l.value = append(l.value[:0], c.value...)
	at := bytes.Index(l.value, c.key)
	l.key, l.sum, l.location = l.value[at:at+len(c.key)], sum, c.location
}
