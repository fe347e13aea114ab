package admin

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// Edge describes how to reach a running edge.
type Edge struct {
	Admin  string // base URL or address of the admin listener; an address without a scheme means http
	Token  string // admin token, or empty if the edge requires none
	CACert string // file with CA certificates for the listener; if empty, the system's CAs
}

// tlsConfig returns the TLS settings that verify the edge, or nil for the system's settings.
func (e Edge) tlsConfig(secure bool) (*tls.Config, error) {
	if e.CACert == "" || !secure {
		return nil, nil
	}
	pem, err := os.ReadFile(e.CACert)
	if err != nil {
		return nil, fmt.Errorf("--cacert: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--cacert: %s holds no certificate in PEM form: give the one that signed the admin listener's", e.CACert)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

func certificateRemedy(err error) string {
	var unknown x509.UnknownAuthorityError
	var wrongName x509.HostnameError
	switch {
	case errors.As(err, &unknown):
		return "--cacert is the file with the certificate that signed the admin listener's (admin.tls), or with that itself"
	case errors.As(err, &wrongName):
		return "--admin is the address of its admin listener, by a name that its certificate has"
	}
	return "--admin is the address of its admin listener"
}
