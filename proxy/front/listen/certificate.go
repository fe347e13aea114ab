package listen

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Certificate contains the edge's certificate and the CAs for client certificates. Both can be
// replaced while connections are open. A Certificate may be used by multiple goroutines.
type Certificate struct {
	manager   CertificateManager // nil if the certificate is read from files
	current   atomic.Pointer[tls.Certificate]
	clientCAs atomic.Pointer[x509.CertPool] // nil if client certificates are not requested
}

// CertificateManager obtains certificates and answers challenges for the edge's domains.
type CertificateManager interface {
	// Certificate returns the certificate for a handshake. An error aborts the handshake.
	Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
	// ChallengeCertificate returns the certificate that proves to an authority that the edge
	// controls a domain (RFC 8737).
	ChallengeCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
}

// NewManagedCertificate returns a Certificate whose certificates come from m.
func NewManagedCertificate(m CertificateManager) *Certificate { return &Certificate{manager: m} }

// Load reads a certificate and its key from files and uses them for new connections. clients
// contains the CAs for client certificates. If clients is nil, no client certificates are
// requested. If Load returns an error, nothing has changed. Load does not replace a valid
// certificate with an expired one.
func (c *Certificate) Load(certFile, keyFile string, clients *x509.CertPool) error {
	use, err := c.PrepareLoad(certFile, keyFile, clients)
	if err == nil {
		use()
	}
	return err
}

// PrepareLoad performs Load in two steps. PrepareLoad itself reads and checks the files, and the
// returned function applies them. If the certificates are managed, the returned function applies
// only clients.
func (c *Certificate) PrepareLoad(certFile, keyFile string, clients *x509.CertPool) (use func(), err error) {
	if c.manager != nil {
		return func() { c.clientCAs.Store(clients) }, nil
	}
	// LoadX509KeyPair checks that the certificate and the key match.
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("load certificate %s with key %s: %w", certFile, keyFile, err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, fmt.Errorf("load certificate %s: %w", certFile, err)
		}
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) && now.Before(c.NotAfter()) {
		return nil, fmt.Errorf("load certificate %s: it expired on %s and the one in use has not: replace it",
			certFile, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return func() {
		c.current.Store(&pair)
		c.clientCAs.Store(clients)
	}, nil
}

// ValidityPeriod returns the validity period of the current certificate. It is zero if no
// certificate is loaded, if certificates are managed, or if c is nil.
func (c *Certificate) ValidityPeriod() (from, to time.Time) {
	if c == nil {
		return time.Time{}, time.Time{}
	}
	if pair := c.current.Load(); pair != nil {
		return pair.Leaf.NotBefore, pair.Leaf.NotAfter
	}
	return time.Time{}, time.Time{}
}

// NotAfter returns the time at which the current certificate expires. It returns zero in the same
// cases as ValidityPeriod.
func (c *Certificate) NotAfter() time.Time {
	_, to := c.ValidityPeriod()
	return to
}

// acmeProtocol is the protocol that an authority negotiates to validate a challenge.
const acmeProtocol = "acme-tls/1"

// TLSConfig returns the TLS configuration for a server. It allows TLS 1.2 or later, and only
// HTTP/1.1.
func (c *Certificate) TLSConfig() *tls.Config {
	base := tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
	var challenge *tls.Config
	if c.manager != nil {
		base.GetCertificate = c.manager.Certificate
		challenge = &tls.Config{
			MinVersion: tls.VersionTLS12, NextProtos: []string{acmeProtocol}, GetCertificate: c.manager.ChallengeCertificate,
		}
	}
	asking := base.Clone()
	asking.ClientAuth = tls.VerifyClientCertIfGiven
	// The client certificate would not be verified again in a resumed session.
	asking.SessionTicketsDisabled = true
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if challenge != nil && slices.Contains(hello.SupportedProtos, acmeProtocol) {
			return challenge, nil
		}
		clients := c.clientCAs.Load()
		if clients == nil {
			return nil, nil
		}
		now := asking.Clone()
		now.ClientCAs = clients
		return now, nil
	}
	return &base
}
