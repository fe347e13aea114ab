package auth

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"penstock/config"
	"penstock/proxy/access/auth/cert"
)

// certificateKeys finds the key for a client that presents a certificate instead of a credential.
type certificateKeys struct {
	authority  *cert.Authority
	keys       map[string]*Key // keyed by the certificate's identity
	ringNumber uint64          // number of this ring, for Peer.CacheValue
}

var ringCounter atomic.Uint64

// certificateResult is the result of lookUp for one client and one ring. It is cached in the Peer.
type certificateResult struct {
	key     *Key // nil if no key names the certificate
	err     error
	expires time.Time // when the certificate expires
}

// newCertificates returns the certificateKeys of a configuration, or nil if no key names a
// certificate. authority contains the CA certificates in PEM.
func newCertificates(keys []config.Key, authority []byte) (*certificateKeys, error) {
	c := &certificateKeys{keys: map[string]*Key{}}
	for i := range keys {
		mark, ok := configuredIdentity(&keys[i].Certificate)
		if !ok {
			continue
		}
		if other := c.keys[mark]; other != nil {
			return nil, fmt.Errorf("keys %q and %q name the same certificate", other.ID, keys[i].ID)
		}
		k := newConfiguredKey(&keys[i])
		k.hashExpires = []time.Time{keys[i].Expires}
		c.keys[mark] = k
	}
	if len(c.keys) == 0 {
		return nil, nil
	}
	var err error
	if c.authority, err = cert.ReadAuthority(authority); err != nil {
		return nil, fmt.Errorf("tls.client_ca: %w", err)
	}
	if c.authority == nil {
		return nil, errors.New("keys name certificates of clients, and there is no tls.client_ca")
	}
	c.ringNumber = ringCounter.Add(1)
	return c, nil
}

func configuredIdentity(c *config.CertificateIdentity) (mark string, ok bool) {
	if c.SPKI != "" {
		return cert.PublicKeyIdentity(c.SPKI)
	}
	return cert.SANIdentity(c.SAN), c.SAN != ""
}

func (c *certificateKeys) findKey(p *cert.Peer, now time.Time) (*Key, error) {
	var s *certificateResult
	if v, ok := p.CachedValue(c.ringNumber); ok {
		s = v.(*certificateResult)
	} else {
		s = c.lookUp(p, now)
		p.CacheValue(c.ringNumber, s)
	}
	switch {
	case s.key == nil:
		return nil, s.err
	case !s.key.active || isExpired(s.expires, now) || isExpired(s.key.hashExpires[0], now):
		return nil, errInvalidKey
	}
	return s.key, nil
}

func (c *certificateKeys) lookUp(p *cert.Peer, now time.Time) *certificateResult {
	var key *Key
	for _, mark := range p.Identities() {
		switch k := c.keys[mark]; {
		case k == nil || key != nil && k.ID == key.ID:
		case key != nil:
			return &certificateResult{err: ErrCredentialConflict}
		default:
			own := *k
			own.peer, own.identity = p, mark
			key = &own
		}
	}
	if key == nil {
		return &certificateResult{}
	}
	until, ok := c.authority.VerifyPeer(p, now)
	if !ok {
		return &certificateResult{err: errInvalidKey}
	}
	return &certificateResult{key: key, expires: until}
}

// mayContinue implements KeyRing.MayContinue for a key that was found by its certificate. A running
// call may continue after the certificate has expired.
func (c *certificateKeys) mayContinue(found *Key, now time.Time) bool {
	k := c.keys[found.identity]
	if k == nil || k.ID != found.ID || !k.active || isExpired(k.hashExpires[0], now) {
		return false
	}
	_, ok := c.authority.VerifyPeer(found.peer, found.peer.PresentedAt())
	return ok
}

// keyTiers returns the tiers of a key that was found by its certificate. c may be nil.
func (c *certificateKeys) keyTiers(found *Key) config.TierSet {
	if c == nil {
		return found.Tiers
	}
	if k := c.keys[found.identity]; k != nil && k.ID == found.ID {
		return k.Tiers
	}
	return found.Tiers
}
