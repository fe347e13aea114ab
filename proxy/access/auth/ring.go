package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"penstock/config"
	"penstock/proxy/access/auth/cert"
)

// KeyRing contains the keys of one configuration. It is immutable; a reload builds a new KeyRing.
// Its methods may be called by multiple goroutines.
type KeyRing struct {
	byHash map[[sha256.Size]byte]hashEntry
	ids    map[string]struct{}

	issuers       *tokenIssuers    // nil if there are no issuers
	certificates  *certificateKeys // nil if no key names a certificate
	unknownKeyErr error
}

// hashEntry is one hash of a key. A key has multiple hashes while it is being rotated.
type hashEntry struct {
	key     *Key
	sum     [sha256.Size]byte
	expires time.Time // zero if the hash never expires
}

// NewKeyRing builds a KeyRing. The error names the key or the issuer, and states what must be
// corrected. It never contains a hash.
func NewKeyRing(keys []config.Key, from *IssuerOptions) (*KeyRing, error) {
	r := &KeyRing{
		byHash: make(map[[sha256.Size]byte]hashEntry, len(keys)),
		ids:    make(map[string]struct{}, len(keys)), unknownKeyErr: errInvalidKey,
	}
	if from.Unread {
		r.unknownKeyErr = errKeysNotRead
	}
	for i := range keys {
		if err := r.add(&keys[i]); err != nil {
			return nil, err
		}
		if id := keys[i].ID; len(keys[i].Hash) == 0 && !keys[i].Certificate.IsSet() && !from.hasTemplate(id) {
			return nil, fmt.Errorf("key %q has no hash, and no issuer gives its rights: "+
				"make a hash with \"penstock key hash\", or remove the key", id)
		}
	}
	var err error
	if r.certificates, err = newCertificates(keys, from.ClientCA); err != nil {
		return nil, err
	}
	r.issuers, err = newIssuers(from, keys, r.ids)
	return r, err
}

func (r *KeyRing) add(c *config.Key) error {
	if c.ID == "" {
		return errors.New("a key has no id: give every key its own")
	}
	if _, twice := r.ids[c.ID]; twice {
		return fmt.Errorf("key %q is listed twice: to rotate a key, list both hashes under one id", c.ID)
	}
	key := newConfiguredKey(c)
	r.ids[c.ID] = struct{}{}
	for _, h := range c.Hash {
		key.hashExpires = append(key.hashExpires, earlierExpiry(c.Expires, h.Expires))
	}
	for i, h := range c.Hash {
		sum, err := parseHash(h.Hash)
		if err != nil {
			return fmt.Errorf("key %q: %w", c.ID, err)
		}
		if other, ok := r.byHash[sum]; ok {
			return fmt.Errorf("keys %q and %q have the same hash: every key needs a secret of its own",
				other.key.ID, c.ID)
		}
		own := *key
		own.sum = sum
		r.byHash[sum] = hashEntry{key: &own, sum: sum, expires: key.hashExpires[i]}
	}
	return nil
}

// FindKey returns the Key for a credential, which may be a key or a token. FindKey compares expiry
// times with the wall-clock time in now.
//
// Errors are shared and read-only. Unknown, expired and inactive keys, and tokens without a valid
// signature, get the same 401. If some keys have not been read yet, an unknown key gets a 503.
// FindKey allocates only for the first key on a connection, and for a token that is not cached.
func (r *KeyRing) FindKey(c Credential, now time.Time) (*Key, error) {
	var sum [sha256.Size]byte
	switch {
	case c.cached:
		sum = c.lastKey.sum
	case len(c.key) >= len(KeyPrefix) && string(c.key[:len(KeyPrefix)]) == KeyPrefix && !hasValidChecksum(c.key):
		return nil, errInvalidKey
	default:
		sum = sha256.Sum256(c.key)
	}
	e := r.byHash[sum] // an unknown key is compared with zeros, so its lookup takes the same time
	if !equalConstantTime(e.sum[:], sum[:]) || e.key == nil {
		if r.issuers != nil {
			if key, err := r.issuers.findKey(c.key, sum, now); !errors.Is(err, errInvalidKey) {
				return key, err
			}
		}
		return nil, r.unknownKeyErr
	}
	if !c.cached {
		c.lastKey.store(&c, sum)
	}
	if !e.key.active || isExpired(e.expires, now) {
		return nil, errInvalidKey
	}
	return e.key, nil
}

// TakesCertificates reports whether at least one key names a certificate.
func (r *KeyRing) TakesCertificates() bool { return r.certificates != nil }

// FindCertificateKey returns the Key that names the client's certificate, or nil if no key names
// it. The error is the same 401 as in FindKey, or ErrCredentialConflict if two keys name the
// certificate. p may be nil. FindCertificateKey allocates only for the first request on a
// connection under this ring.
func (r *KeyRing) FindCertificateKey(p *cert.Peer, now time.Time) (*Key, error) {
	if p == nil || r.certificates == nil {
		return nil, nil
	}
	return r.certificates.findKey(p, now)
}

// MayContinue reports whether running calls made with a Key may continue under this ring. The Key
// may come from another ring. A reload calls MayContinue for each running stream.
//
//   - An API key must exist, be active, and still have the hash by which it was found. At least one
//     of its hashes must not have expired. If a hash is removed, the calls admitted with that hash
//     therefore end. If only that hash has expired, they may continue.
//   - A token's issuer, public key and template must still be valid. The token itself may have
//     expired.
//   - If the key was found by a certificate, the key must be active, and the authority must still
//     trust the certificate. The certificate itself may have expired.
func (r *KeyRing) MayContinue(found *Key, now time.Time) bool {
	if found.token != nil {
		return r.issuers != nil && r.issuers.mayContinue(found, now)
	}
	if found.peer != nil {
		return r.certificates != nil && r.certificates.mayContinue(found, now)
	}
	k := r.byHash[found.sum].key
	if k == nil || k.ID != found.ID || !k.active {
		return false
	}
	for _, t := range k.hashExpires {
		if !isExpired(t, now) {
			return true
		}
	}
	return false
}

// KeyTiers returns the tiers that a key lists in this ring. The key may come from another ring. If
// this ring does not have the key, KeyTiers returns the tiers that the key was found with, because a
// running call keeps the rights that it was admitted with.
func (r *KeyRing) KeyTiers(found *Key) config.TierSet {
	if found.token != nil {
		return r.issuers.templateTiers(found)
	}
	if found.peer != nil {
		return r.certificates.keyTiers(found)
	}
	if k := r.byHash[found.sum].key; k != nil && k.ID == found.ID {
		return k.Tiers
	}
	return found.Tiers
}

func parseHash(s string) (sum [sha256.Size]byte, err error) {
	digits, ok := strings.CutPrefix(s, hashPrefix)
	if !ok || len(digits) != hex.EncodedLen(len(sum)) {
		return sum, errors.New("the hash is not \"sha256:\" and 64 hexadecimal digits: make it with \"penstock key hash\"")
	}
	if _, err := hex.Decode(sum[:], []byte(digits)); err != nil {
		return sum, errors.New("the hash holds a character that is no hexadecimal digit: make it with \"penstock key hash\"")
	}
	return sum, nil
}

// earlierExpiry returns the earlier of two expiry times. The zero time means never.
func earlierExpiry(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
