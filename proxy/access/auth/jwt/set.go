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

const (
	// MaxSet is the maximum size of a set in bytes. The sets of large issuers are about 10 KiB in
	// size.
	MaxSet  = 256 << 10
	maxKeys = 100

	// maxKeysTried is the maximum number of keys tried for one signature. Usually, each kid in a
	// set has one key. If an issuer does not use kids, its set contains a few keys during a
	// rotation. Each try costs up to a millisecond.
	maxKeysTried = 8

	// The sizes of RSA keys are in bits. With a longer key, verifying a signature takes
	// milliseconds.
	minRSABits, maxRSABits = 2048, 8192
)

// Thumbprint identifies a public key by its RFC 7638 thumbprint.
type Thumbprint [sha256.Size]byte

// Set contains an issuer's keys, read from a JWK Set (RFC 7517). It is immutable.
type Set struct {
	keys        []key
	thumbprints map[Thumbprint]struct{}
}

type key struct {
	id         string
	algorithm  jose.SignatureAlgorithm
	public     any
	thumbprint Thumbprint
}

// ParseSet parses a JWK Set. It omits keys that cannot verify accepted tokens: encryption keys,
// keys of unsupported types, and short keys. If these are the only keys in the set, ParseSet
// returns an error. An empty list is valid, because an issuer may withdraw all its keys.
func ParseSet(text []byte) (*Set, error) {
	if len(text) > MaxSet {
		return nil, fmt.Errorf("the key set is longer than %d KiB", MaxSet>>10)
	}
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if !stdjson.Valid(text) { // unlike go-jose, stdjson.Valid limits the nesting depth
		return nil, errors.New("the key set is not JSON")
	}
	if err := json.Unmarshal(text, &raw); err != nil || raw.Keys == nil {
		return nil, errors.New(`the key set is not an object with a list "keys"`)
	}
	if len(raw.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has more than %d keys", maxKeys)
	}
	s := &Set{thumbprints: map[Thumbprint]struct{}{}}
	for _, text := range raw.Keys {
		k, ok := parseKey(text)
		if !ok {
			continue
		}
		if slices.ContainsFunc(s.keys, k.isSameKey) {
			continue
		}
		s.keys, s.thumbprints[k.thumbprint] = append(s.keys, k), struct{}{}
	}
	if len(s.keys) == 0 && len(raw.Keys) > 0 {
		return nil, errors.New("the key set has no key for ES256, RS256 (of 2048 bits or more) or EdDSA (Ed25519)")
	}
	return s, nil
}

// parseKey parses one key. ok is false if the key cannot verify tokens.
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
		k.algorithm, ok = jose.RS256, bits >= minRSABits && bits <= maxRSABits && public.E >= 3 && public.E&1 == 1
	case ed25519.PublicKey:
		k.algorithm, ok = jose.EdDSA, len(public) == ed25519.PublicKeySize
	}
	if !ok || jwk.Algorithm != "" && jwk.Algorithm != string(k.algorithm) && !isEd25519Alias(jwk.Algorithm, k.algorithm) {
		return key{}, false
	}
	print, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return key{}, false
	}
	copy(k.thumbprint[:], print)
	return k, true
}

// isEd25519Alias reports whether name is Ed25519, the newer name for EdDSA with that curve (RFC
// 9864).
func isEd25519Alias(name string, a jose.SignatureAlgorithm) bool {
	return name == "Ed25519" && a == jose.EdDSA
}

func (k key) isSameKey(o key) bool { return o.id == k.id && o.thumbprint == k.thumbprint }

// Len returns the number of keys in the set.
func (s *Set) Len() int { return len(s.keys) }

// HasThumbprint reports whether a key is in the set.
func (s *Set) HasThumbprint(p Thumbprint) bool {
	_, ok := s.thumbprints[p]
	return ok
}

// IsSubsetOf reports whether other contains every key of s.
func (s *Set) IsSubsetOf(other *Set) bool {
	for p := range s.thumbprints {
		if !other.HasThumbprint(p) {
			return false
		}
	}
	return true
}

// HasKeyFor reports whether the set contains a key that might verify a token.
func (s *Set) HasKeyFor(t *Token) bool {
	return slices.ContainsFunc(s.keys, func(k key) bool { return k.matchesToken(t) })
}

// candidateKeys returns the keys that might verify a token. These are the keys with the token's
// kid. If the token has no kid, these are all keys for its algorithm. candidateKeys returns at most
// maxKeysTried keys.
func (s *Set) candidateKeys(t *Token) (found []*key) {
	for i := range s.keys {
		if k := &s.keys[i]; k.matchesToken(t) && len(found) < maxKeysTried {
			found = append(found, k)
		}
	}
	return found
}

func (k *key) matchesToken(t *Token) bool {
	return string(k.algorithm) == t.Algorithm && (t.keyID == "" || k.id == t.keyID)
}
