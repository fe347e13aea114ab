package cert

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Peer is a TLS client that has presented a certificate. Its methods may be called by multiple
// goroutines.
type Peer struct {
	chain       []*x509.Certificate // the client's certificate is first
	identities  []string
	presentedAt time.Time
	cache       atomic.Pointer[cachedValue]
}

type cachedValue struct {
	configNumber uint64
	value        any
}

// NewPeer returns the Peer for a client that presented a certificate chain. If the chain is empty,
// NewPeer returns nil. The client's certificate must be first.
func NewPeer(chain []*x509.Certificate) *Peer {
	if len(chain) == 0 {
		return nil
	}
	return &Peer{chain: chain, identities: certificateIdentities(chain[0]), presentedAt: time.Now()}
}

// PresentedAt returns the time at which the certificate was presented.
func (p *Peer) PresentedAt() time.Time { return p.presentedAt }

// Identities returns the identities of the client's certificate, in the format of PublicKeyIdentity
// and SANIdentity.
func (p *Peer) Identities() []string { return p.identities }

// CacheValue caches a value computed for the configuration with the given number.
func (p *Peer) CacheValue(number uint64, value any) { p.cache.Store(&cachedValue{number, value}) }

// CachedValue returns the cached value if it belongs to the configuration with the given number.
func (p *Peer) CachedValue(number uint64) (value any, ok bool) {
	m := p.cache.Load()
	if m == nil || m.configNumber != number {
		return nil, false
	}
	return m.value, true
}

// hashPrefix is the prefix for the hash of a public key. API keys have the same prefix.
const hashPrefix = "sha256:"

// PublicKeyIdentity returns the identity for a certificate's public key. hash must be "sha256:"
// followed by the SHA-256 of the SubjectPublicKeyInfo in 64 hexadecimal digits; otherwise, ok is
// false.
func PublicKeyIdentity(hash string) (mark string, ok bool) {
	digits, ok := strings.CutPrefix(strings.ToLower(hash), hashPrefix)
	sum, err := hex.DecodeString(digits)
	return "key " + digits, ok && err == nil && len(sum) == sha256.Size
}

// SANIdentity returns the identity for a subject alternative name. The format of the name
// determines its kind: an IP address, a URI if it contains a colon, a mail address if it contains
// an @, and otherwise a DNS name. The identity contains the kind.
func SANIdentity(name string) (mark string) {
	if ip, err := netip.ParseAddr(name); err == nil {
		return "ip " + ip.Unmap().String()
	}
	if strings.Contains(name, ":") {
		u, err := url.Parse(name)
		if err != nil {
			return "none " + name // does not match any certificate
		}
		return uriIdentity(u)
	}
	if strings.Contains(name, "@") {
		return emailIdentity(name)
	}
	return dnsIdentity(name)
}

func dnsIdentity(name string) string   { return "dns " + strings.ToLower(name) }
func emailIdentity(name string) string { return "email " + strings.ToLower(name) }

// uriIdentity returns the identity for a URI. It converts only the scheme and the host to lower
// case, because the path of a SPIFFE ID is case-sensitive.
func uriIdentity(u *url.URL) string {
	folded := *u
	// url.Parse has already converted the scheme to lower case.
	folded.Host = strings.ToLower(u.Host)
	return "uri " + folded.String()
}

func certificateIdentities(c *x509.Certificate) []string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	all := []string{"key " + hex.EncodeToString(sum[:])}
	for _, n := range c.DNSNames {
		all = append(all, dnsIdentity(n))
	}
	for _, n := range c.EmailAddresses {
		all = append(all, emailIdentity(n))
	}
	for _, u := range c.URIs {
		all = append(all, uriIdentity(u))
	}
	for _, ip := range c.IPAddresses {
		all = append(all, "ip "+ip.String())
	}
	return all
}
