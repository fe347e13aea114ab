package cert

import (
	"crypto/x509"
	"errors"
	"time"
)

// Authority verifies client certificates with the CA certificates from a file. An Authority is
// immutable.
type Authority struct{ roots *x509.CertPool }

// ReadAuthority parses CA certificates in PEM. It returns nil if pem is empty.
func ReadAuthority(pem []byte) (*Authority, error) {
	if len(pem) == 0 {
		return nil, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("it holds no certificate in PEM form: give those that sign the clients' certificates")
	}
	return &Authority{roots}, nil
}

// Roots returns the CA certificates for a handshake. For a nil Authority, it returns nil.
func (a *Authority) Roots() *x509.CertPool {
	if a == nil {
		return nil
	}
	return a.roots
}

// VerifyPeer reports whether the authority signed p's certificate for client authentication and the
// chain is valid at the time now. until is the time until which this result is valid.
func (a *Authority) VerifyPeer(p *Peer, now time.Time) (until time.Time, ok bool) {
	between := x509.NewCertPool()
	for _, c := range p.chain[1:] {
		between.AddCert(c)
	}
	chains, err := p.chain[0].Verify(x509.VerifyOptions{
		Roots: a.roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return time.Time{}, false
	}
	for _, chain := range chains {
		if end := chainExpiry(chain); end.After(until) {
			until = end
		}
	}
	return until, true
}

func chainExpiry(chain []*x509.Certificate) time.Time {
	end := chain[0].NotAfter
	for _, c := range chain[1:] {
		if c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	return end
}
