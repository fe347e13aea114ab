package listen

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync/atomic"
	"time"
)

// Certificate is the edge's own certificate pair, which can be replaced while connections are open.
// It is safe for concurrent use.
type Certificate struct {
	current atomic.Pointer[tls.Certificate]
}

// Load reads a pair from files and uses it for new connections. On an error the last pair stays. It
// is an error, too, to replace a pair that is still valid with an expired one.
func (c *Certificate) Load(certFile, keyFile string) error {
	use, err := c.Prepare(certFile, keyFile)
	if err == nil {
		use()
	}
	return err
}

// Prepare is Load in two steps: it reads and checks the pair, and use takes it for new connections.
func (c *Certificate) Prepare(certFile, keyFile string) (use func(), err error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile) // checks that the two belong together
	if err != nil {
		return nil, fmt.Errorf("load certificate %s with key %s: %w", certFile, keyFile, err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, fmt.Errorf("load certificate %s: %w", certFile, err)
		}
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) && now.Before(c.NotAfter()) {
		return nil, fmt.Errorf("load certificate %s: it expired on %s and the one in use has not: put a new one there",
			certFile, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return func() { c.current.Store(&pair) }, nil
}

// Valid returns the times between which the current pair is valid. They are zero without a pair,
// and for a nil Certificate.
func (c *Certificate) Valid() (from, to time.Time) {
	if c == nil {
		return time.Time{}, time.Time{}
	}
	if pair := c.current.Load(); pair != nil {
		return pair.Leaf.NotBefore, pair.Leaf.NotAfter
	}
	return time.Time{}, time.Time{}
}

// NotAfter returns the end of the current pair's validity, and the zero time without a pair.
func (c *Certificate) NotAfter() time.Time {
	_, to := c.Valid()
	return to
}

// Config returns a server's TLS settings with c: at least TLS 1.2, only HTTP/1.1.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}
