package http1

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLSFiles configures how an upstream's certificate is verified, and which client certificate is
// sent to it.
type TLSFiles struct {
	CA        string // PEM file; if empty, the system's root certificates are used
	Cert, Key string // PEM files; if empty, no client certificate is sent
	Insecure  bool   // accept any certificate
}

// LoadTLS reads the certificate files for connections to the named host. It passes the contents
// of each file to the function seen.
func LoadTLS(t TLSFiles, name string, seen func([]byte)) (*tls.Config, error) {
	c := &tls.Config{
		ServerName:         name,
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: t.Insecure, //nolint:gosec // configured explicitly by the operator
	}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("tls.ca: %w", err)
		}
		seen(pem)
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca: %s holds no certificate in PEM form", t.CA)
		}
	}
	if t.Cert == "" {
		return c, nil
	}
	cert, err := os.ReadFile(t.Cert)
	if err != nil {
		return nil, fmt.Errorf("tls.cert: %w", err)
	}
	key, err := os.ReadFile(t.Key)
	if err != nil {
		return nil, fmt.Errorf("tls.key: %w", err)
	}
	seen(cert)
	seen(key)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls.cert and tls.key (%s, %s) do not make a pair: %w", t.Cert, t.Key, err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

func clientTLS(given *tls.Config, host string) *tls.Config {
	c := given.Clone()
	if c == nil {
		c = &tls.Config{}
	}
	c.ServerName = cmp.Or(c.ServerName, host)
	c.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	c.NextProtos = []string{"http/1.1"} // an exchange supports only HTTP/1.1
	return c
}
