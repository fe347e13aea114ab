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

// Peer is the client of one TLS connection that has presented a certificate. All methods may be
// called from any goroutine.
type Peer struct {
	chain  []*x509.Certificate // starts with the client's own certificate
	marks  []string
	start  time.Time
	memory atomic.Pointer[memory]
}

type memory struct {
	number uint64
	value  any
}

// NewPeer returns the client that presented the given certificates in a handshake. The first
// certificate is the client's own. Without certificates NewPeer returns nil.
func NewPeer(chain []*x509.Certificate) *Peer {
	if len(chain) == 0 {
		return nil
	}
	return &Peer{chain: chain, marks: marksOf(chain[0]), start: time.Now()}
}

// Start returns the time at which the certificate was presented.
func (p *Peer) Start() time.Time { return p.start }

// Marks returns the marks by which a key may name the client's certificate, as PublicKey and Name
// return them.
func (p *Peer) Marks() []string { return p.marks }

// Remember keeps a value with the connection. The value depends on the configuration with the given
// number.
func (p *Peer) Remember(number uint64, value any) { p.memory.Store(&memory{number, value}) }

// Recall returns the last remembered value if its number is the given one.
func (p *Peer) Recall(number uint64) (value any, ok bool) {
	m := p.memory.Load()
	if m == nil || m.number != number {
		return nil, false
	}
	return m.value, true
}

// hashPrefix starts the hash of a public key, as it starts the hash of an API key.
const hashPrefix = "sha256:"

// PublicKey returns the mark of a certificate's public key. hash is the SHA-256 of the key's
// SubjectPublicKeyInfo, written as "sha256:" and 64 hexadecimal digits. For any other text
// PublicKey returns false.
func PublicKey(hash string) (mark string, ok bool) {
	digits, ok := strings.CutPrefix(strings.ToLower(hash), hashPrefix)
	sum, err := hex.DecodeString(digits)
	return "key " + digits, ok && err == nil && len(sum) == sha256.Size
}

// Name returns the mark of a name among a certificate's subject alternative names. The format of
// the name determines its kind: an IP address; a URI if it has a colon; a mail address if it has an
// @; otherwise a DNS name. A name of another kind with the same text has another mark.
func Name(name string) (mark string) {
	if ip, err := netip.ParseAddr(name); err == nil {
		return "ip " + ip.Unmap().String()
	}
	if strings.Contains(name, ":") {
		u, err := url.Parse(name)
		if err != nil {
			return "none " + name // no certificate has a mark of this kind
		}
		return uriMark(u)
	}
	if strings.Contains(name, "@") {
		return emailMark(name)
	}
	return dnsMark(name)
}

func dnsMark(name string) string   { return "dns " + strings.ToLower(name) }
func emailMark(name string) string { return "email " + strings.ToLower(name) }

// uriMark returns the mark of a URI. It ignores case in the scheme and the host only: in a SPIFFE
// ID these are case-insensitive, but the path is not.
func uriMark(u *url.URL) string {
	folded := *u
	folded.Host = strings.ToLower(u.Host) // url.Parse has lower-cased the scheme
	return "uri " + folded.String()
}

func marksOf(c *x509.Certificate) []string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	all := []string{"key " + hex.EncodeToString(sum[:])}
	for _, n := range c.DNSNames {
		all = append(all, dnsMark(n))
	}
	for _, n := range c.EmailAddresses {
		all = append(all, emailMark(n))
	}
	for _, u := range c.URIs {
		all = append(all, uriMark(u))
	}
	for _, ip := range c.IPAddresses {
		all = append(all, "ip "+ip.String())
	}
	return all
}
