package jwt

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

// Algorithms are the signatures that are understood, by their names in RFC 7518 and RFC 8037.
func Algorithms() []string {
	return []string{string(jose.ES256), string(jose.RS256), string(jose.EdDSA)}
}

const (
	// MaxSet is how long a set may be. Those of large issuers are some 10 KiB.
	MaxSet  = 256 << 10
	maxKeys = 100

	leastRSA, mostRSA = 2048, 8192 // bits; above, a signature would cost milliseconds
)

// Print identifies a public key by its content: the thumbprint of RFC 7638.
type Print [sha256.Size]byte

// Set is the keys of an issuer. It is immutable.
type Set struct {
	keys   []key
	prints map[Print]struct{}
}

type key struct {
	id        string
	algorithm jose.SignatureAlgorithm
	public    any
	print     Print
}

// ParseSet reads a JWK Set. Keys that sign nothing we take (for encryption, of other types, too
// short) are left out; a set without any other is an error, because no token could be verified by
// it. An empty list is none: so an issuer withdraws all of its keys.
func ParseSet(text []byte) (*Set, error) {
	if len(text) > MaxSet {
		return nil, fmt.Errorf("the key set is longer than %d KiB", MaxSet>>10)
	}
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if !stdjson.Valid(text) { // its nesting is bounded, which go-jose's is not
		return nil, errors.New("the key set is not JSON")
	}
	if err := json.Unmarshal(text, &raw); err != nil || raw.Keys == nil {
		return nil, errors.New(`the key set is not an object with a list "keys"`)
	}
	if len(raw.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has more than %d keys", maxKeys)
	}
	s := &Set{prints: map[Print]struct{}{}}
	for _, text := range raw.Keys {
		k, ok := parseKey(text)
		if !ok {
			continue
		}
		if slices.ContainsFunc(s.keys, k.clashes) {
			return nil, errors.New("two keys of the key set have one kid: it is open which of them a token means")
		}
		s.keys, s.prints[k.print] = append(s.keys, k), struct{}{}
	}
	if len(s.keys) == 0 && len(raw.Keys) > 0 {
		return nil, errors.New("the key set has no key for ES256, RS256 (of 2048 bits or more) or EdDSA (Ed25519)")
	}
	return s, nil
}

// parseKey reads one key; ok is false where tokens are not verified by it.
func parseKey(text []byte) (k key, ok bool) {
	var jwk jose.JSONWebKey
	if json.Unmarshal(text, &jwk) != nil || !jwk.IsPublic() || !jwk.Valid() || jwk.Use != "" && jwk.Use != "sig" {
		return key{}, false
	}
	k = key{id: jwk.KeyID, public: jwk.Key}
	switch public := jwk.Key.(type) {
	case *ecdsa.PublicKey:
		k.algorithm, ok = jose.ES256, public.Curve == elliptic.P256()
	case *rsa.PublicKey:
		bits := public.N.BitLen()
		k.algorithm, ok = jose.RS256, bits >= leastRSA && bits <= mostRSA && public.E >= 3 && public.E&1 == 1
	case ed25519.PublicKey:
		k.algorithm, ok = jose.EdDSA, len(public) == ed25519.PublicKeySize
	}
	if !ok || jwk.Algorithm != "" && jwk.Algorithm != string(k.algorithm) && !namesEd25519(jwk.Algorithm, k.algorithm) {
		return key{}, false
	}
	print, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return key{}, false
	}
	copy(k.print[:], print)
	return k, true
}

// namesEd25519 reports whether a key's algorithm is EdDSA by its newer name (RFC 9864).
func namesEd25519(name string, a jose.SignatureAlgorithm) bool {
	return name == "Ed25519" && a == jose.EdDSA
}

// clashes reports whether a token could mean either key.
func (k key) clashes(o key) bool {
	return o.id == k.id && o.algorithm == k.algorithm && o.print != k.print
}

// Len is how many keys of the set verify tokens.
func (s *Set) Len() int { return len(s.keys) }

// Has reports whether a key is in the set.
func (s *Set) Has(p Print) bool {
	_, ok := s.prints[p]
	return ok
}

// Within reports whether every key of s is in other.
func (s *Set) Within(other *Set) bool {
	for p := range s.prints {
		if !other.Has(p) {
			return false
		}
	}
	return true
}

// find returns the key that a token's header means: by its id, or without one the only one of the
// algorithm.
func (s *Set) find(id string, a jose.SignatureAlgorithm) *key {
	var found *key
	for i := range s.keys {
		k := &s.keys[i]
		if k.algorithm != a || id != "" && k.id != id {
			continue
		}
		if found != nil && found.print != k.print {
			return nil
		}
		found = k
	}
	return found
}
