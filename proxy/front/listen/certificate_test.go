package listen

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestCertificateLoad(t *testing.T) {
	var c Certificate
	if !c.NotAfter().IsZero() {
		t.Errorf("without a certificate it ends %v", c.NotAfter())
	}
	soon, later := time.Now().Add(time.Hour).Truncate(time.Second), time.Now().Add(2*time.Hour).Truncate(time.Second)
	past := time.Now().Add(-time.Hour)
	cert, key, _ := writeCertificate(t, "edge", soon)
	cert2, key2, _ := writeCertificate(t, "edge", later)
	expired, expiredKey, _ := writeCertificate(t, "edge", past)

	if err := c.Load(expired, expiredKey, nil); err != nil {
		t.Errorf("an expired certificate is better than none: %v", err)
	}
	if err := c.Load(cert, key, nil); err != nil || !c.NotAfter().Equal(soon) {
		t.Fatalf("Load: %v, ends %v; want the end %v", err, c.NotAfter(), soon)
	}
	for name, files := range map[string][2]string{
		"key of another": {cert2, key},
		"no certificate": {cert + ".none", key},
		"no key":         {cert, key + ".none"},
		"swapped":        {key, cert},
		"expired":        {expired, expiredKey},
	} {
		err := c.Load(files[0], files[1], nil)
		if err == nil || !strings.Contains(err.Error(), files[0]) {
			t.Errorf("Load of %s: %v, want an error that names %s", name, err, files[0])
		}
		if !c.NotAfter().Equal(soon) {
			t.Fatalf("%s: the certificate before did not stay", name)
		}
	}
	if err := c.Load(cert2, key2, nil); err != nil || !c.NotAfter().Equal(later) {
		t.Errorf("Load of a later certificate: %v, ends %v; want the end %v", err, c.NotAfter(), later)
	}
}

// handshake connects to a server that uses c, and returns the client's connection state.
func handshake(t *testing.T, c *Certificate, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	accepted, dialed := pair(t, open(t, Options{}))
	server := tls.Server(accepted, c.TLSConfig())
	var group sync.WaitGroup
	group.Go(func() {
		if server.Handshake() != nil {
			server.Close()
		}
	})
	defer group.Wait()
	conn := tls.Client(dialed, client)
	err := conn.Handshake()
	if err != nil {
		dialed.Close()
	}
	return conn.ConnectionState(), err
}

func TestCertificateConfig(t *testing.T) {
	var c Certificate
	if _, err := handshake(t, &c, &tls.Config{InsecureSkipVerify: true}); err == nil {
		t.Error("a handshake without a certificate")
	}
	cert, key, pool := writeCertificate(t, "edge", time.Now().Add(time.Hour))
	cert2, key2, pool2 := writeCertificate(t, "edge", time.Now().Add(2*time.Hour))
	if err := c.Load(cert, key, nil); err != nil {
		t.Fatal(err)
	}
	config := func(pool *x509.CertPool) *tls.Config { return &tls.Config{RootCAs: pool, ServerName: "edge"} }

	both := config(pool)
	both.NextProtos = []string{"h2", "http/1.1"}
	if s, err := handshake(t, &c, both); err != nil || s.NegotiatedProtocol != "http/1.1" || s.Version < tls.VersionTLS12 {
		t.Errorf("protocol %q, version %x, %v", s.NegotiatedProtocol, s.Version, err)
	}
	old := config(pool)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := handshake(t, &c, old); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
	only := config(pool)
	only.NextProtos = []string{"h2"}
	if _, err := handshake(t, &c, only); err == nil {
		t.Error("a client that speaks HTTP/2 only was accepted")
	}
	if err := c.Load(cert2, key2, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := handshake(t, &c, config(pool2)); err != nil {
		t.Errorf("the new certificate is not shown: %v", err)
	}
	if _, err := handshake(t, &c, config(pool)); err == nil {
		t.Error("the old certificate is still shown")
	}
}

// TestCertificateRotationKeepsConnections checks that open connections survive a certificate
// rotation.
func TestCertificateRotationKeepsConnections(t *testing.T) {
	var c Certificate
	cert, key, pool := writeCertificate(t, "edge", time.Now().Add(time.Hour))
	cert2, key2, _ := writeCertificate(t, "edge", time.Now().Add(2*time.Hour))
	if err := c.Load(cert, key, nil); err != nil {
		t.Fatal(err)
	}
	server, client := tlsPairOf(t, open(t, Options{}), &c, pool)
	if err := c.Load(cert2, key2, nil); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
}
