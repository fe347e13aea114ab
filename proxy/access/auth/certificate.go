package auth

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"penstock/config"
	"penstock/proxy/access/auth/cert"
)

// certificates finds the key for a client that presents a certificate instead of a credential.
type certificates struct {
	authority *cert.Authority
	keys      map[string]*Key // keyed by the certificate's mark
	number    uint64          // number of this ring, for Peer.Remember
}

var rings atomic.Uint64

// shown is the result of look for one client and one ring. It is cached with the Peer.
type shown struct {
	key   *Key // nil if no key names the certificate
	err   error
	until time.Time // when the certificate expires
}

// newCertificates returns the certificates of a configuration, or nil if no key names a
// certificate. authority contains the CA certificates in PEM.
func newCertificates(keys []config.Key, authority []byte) (*certificates, error) {
	c := &certificates{keys: map[string]*Key{}}
	for i := range keys {
		mark, ok := markOf(&keys[i].Certificate)
		if !ok {
			continue
		}
		if other := c.keys[mark]; other != nil {
			return nil, fmt.Errorf("keys %q and %q name the same certificate", other.ID, keys[i].ID)
		}
		k := newConfigured(&keys[i])
		k.expires = []time.Time{keys[i].Expires}
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
	c.number = rings.Add(1)
	return c, nil
}

func markOf(c *config.KeyCertificate) (mark string, ok bool) {
	if c.SPKI != "" {
		return cert.PublicKey(c.SPKI)
	}
	return cert.Name(c.SAN), c.SAN != ""
}

func (c *certificates) find(p *cert.Peer, now time.Time) (*Key, error) {
	var s *shown
	if v, ok := p.Recall(c.number); ok {
		s = v.(*shown)
	} else {
		s = c.look(p, now)
		p.Remember(c.number, s)
	}
	switch {
	case s.key == nil:
		return nil, s.err
	case !s.key.active || expired(s.until, now) || expired(s.key.expires[0], now):
		return nil, errInvalid
	}
	return s.key, nil
}

func (c *certificates) look(p *cert.Peer, now time.Time) *shown {
	var key *Key
	for _, mark := range p.Marks() {
		switch k := c.keys[mark]; {
		case k == nil || key != nil && k.ID == key.ID:
		case key != nil:
			return &shown{err: ErrConflict}
		default:
			own := *k
			own.peer, own.mark = p, mark
			key = &own
		}
	}
	if key == nil {
		return &shown{}
	}
	until, ok := c.authority.Trusts(p, now)
	if !ok {
		return &shown{err: errInvalid}
	}
	return &shown{key: key, until: until}
}

// holds implements Ring.Holds for a key that was found by its certificate. A running call may
// continue after the certificate has expired.
func (c *certificates) holds(found *Key, now time.Time) bool {
	k := c.keys[found.mark]
	if k == nil || k.ID != found.ID || !k.active || expired(k.expires[0], now) {
		return false
	}
	_, ok := c.authority.Trusts(found.peer, found.peer.Start())
	return ok
}
