package config

import (
	"crypto/tls"
	"crypto/x509"
	"os"
)

// CheckCertificates loads every certificate pair and every CA file that f names, as serving would, and says which of them do
// not load. It is for a look before a start or a reload; Validate, which is done at every reload, leaves files alone. f must
// have been read from a file.
func (f *File) CheckCertificates() Problems {
	c := &checker{file: f}
	c.pair("tls", f.TLS.Cert, f.TLS.Key)
	for i := range f.Upstreams {
		t, at := &f.Upstreams[i].TLS, element("upstreams", i)+".tls"
		c.pair(at, t.Cert, t.Key)
		if t.CA != "" {
			pem, err := os.ReadFile(t.CA)
			switch {
			case err != nil:
				c.fail(at+".ca", "%s", fileError(t.CA, err))
			case !x509.NewCertPool().AppendCertsFromPEM(pem):
				c.fail(at+".ca", "%s holds no certificate in PEM form: give the one that signed the engine's", t.CA)
			}
		}
	}
	c.problems.sort()
	return c.problems
}

// pair reports a certificate and a key that cannot be loaded together.
func (c *checker) pair(path, cert, key string) {
	if cert == "" || key == "" {
		return
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		c.fail(path, "the pair %s and %s cannot be used: %s: give the key of this certificate, both in PEM form", cert, key, err)
	}
}
