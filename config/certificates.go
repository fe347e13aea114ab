package config

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"time"

	"penstock/config/strictyaml"
)

// CheckCertificates loads every certificate pair and every CA file that f names, as serving would,
// and says which of them do not load. It warns of pairs that are not valid now, which everybody who
// connects refuses, of private keys that every user of the machine can read, and of an account of
// Kubernetes without its token, which the cluster may put there later. It is for a look
// before a start or a reload; Validate, which is done at every reload, leaves files alone. f must
// have been read from a file.
func (f *File) CheckCertificates() Problems {
	c := f.checks().check
	if !f.TLS.Enabled() && f.places().Has("tls.cert") {
		c.warn("tls", "cert and key are empty, so the API is plain HTTP: name them, or take tls out")
	}
	c.pair("tls", f.TLS.Cert, f.TLS.Key)
	for i := range f.Upstreams {
		c.client(element("upstreams", i)+".tls", &f.Upstreams[i].TLS, "engine")
		c.account(element("upstreams", i)+".kubernetes", &f.Upstreams[i].Kubernetes)
	}
	c.client("fleet.store.tls", &f.Fleet.Store.TLS, "store")
	return c.Problems()
}

// CheckLedger says what is wrong with what is at the ledger's path, by who reads ledgers. Like
// CheckCertificates it is for a look before a start.
func CheckLedger(f *File, check func(path string) error) Problems {
	c := f.checks().check
	if f.Ledger.Path != "" {
		if err := check(f.Ledger.Path); err != nil {
			c.fail("ledger", "%s", err)
		}
	}
	return c.Problems()
}

// client checks the files by which we connect to a server.
func (c *checker) client(path string, t *UpstreamTLS, server string) {
	c.pair(path, t.Cert, t.Key)
	if t.CA == "" {
		return
	}
	pem, err := os.ReadFile(t.CA)
	switch {
	case err != nil:
		c.fail(path+".ca", "%s", strictyaml.FileError(t.CA, err))
	case !x509.NewCertPool().AppendCertsFromPEM(pem):
		c.fail(path+".ca", "%s holds no certificate in PEM form: give the one that signed the %s's", t.CA, server)
	}
}

// account warns of a service account that cannot be used here. Outside of a cluster the one that
// would be mounted there says nothing.
func (c *checker) account(path string, k *Kubernetes) {
	if !k.Set() || strings.HasPrefix(k.Server, "http://") {
		return
	}
	if k.Account == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		if k.Server == "" {
			c.warn(path, "this is no pod of a cluster: an edge that runs here finds no pods without server and account")
		}
		return
	}
	folder := cmp.Or(k.Account, MountedAccount)
	token := filepath.Join(folder, "token")
	if text, err := os.ReadFile(token); err != nil {
		c.warn(path, "%s, so the pods are not found: give the edge's pod a service account that is mounted",
			strictyaml.FileError(token, err))
	} else if len(bytes.TrimSpace(text)) == 0 {
		c.warn(path, "%s is empty, so the pods are not found", token)
	}
	ca := filepath.Join(folder, "ca.crt")
	pem, err := os.ReadFile(ca)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		c.warn(path, "%s holds no certificate in PEM form, so the API server is not trusted", ca)
	} else if err != nil && !os.IsNotExist(err) { // without one those of the system count
		c.warn(path, "%s, so the API server is not trusted", strictyaml.FileError(ca, err))
	}
}

// pair reports a certificate and a key that cannot be loaded together, or should not be used.
func (c *checker) pair(path, cert, key string) {
	if cert == "" || key == "" {
		return
	}
	loaded, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		c.fail(path, "the pair %s and %s cannot be used: %s: give the key of this certificate, both in PEM form", cert, key,
			err)
		return
	}
	leaf, err := x509.ParseCertificate(loaded.Certificate[0])
	if err != nil {
		c.fail(path+".cert", "%s cannot be used: %s", cert, err)
		return
	}
	switch now := time.Now(); {
	case now.After(leaf.NotAfter):
		c.warn(path+".cert", "%s expired on %s: put a new one there", cert, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		c.warn(path+".cert", "%s is not valid before %s: put one there that is, or set the clock", cert,
			leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	if info, err := os.Stat(key); err == nil && strictyaml.TooOpen(info) {
		c.warn(path+".key", "%s has mode %04o: chmod 640 keeps other users out", key, info.Mode().Perm())
	}
}
