package faults

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/config/testkit/selfsigned"
	"penstock/proxy/e2e/rig"
)

func pemPair(t *testing.T, name string, notAfter time.Time) (cert, key string) {
	t.Helper()
	return selfsigned.NewPair(t, name, time.Now().Add(-48*time.Hour), notAfter)
}

// certificateShown returns the name in the certificate of a new connection.
func (e *edge) certificateShown() string {
	e.T.Helper()
	c, err := tls.Dial("tcp", e.Addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		e.T.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// TestFault74_CertificateRotated checks that a new certificate is used for new connections while
// old connections stay open. An invalid certificate must have no effect, and must be reported with
// its file name.
func TestFault74_CertificateRotated(t *testing.T) {
	t.Parallel()
	year := time.Now().Add(365 * 24 * time.Hour)
	oldCert, oldKey := pemPair(t, "old", year)
	newCert, newKey := pemPair(t, "new", year.Add(time.Hour))
	lateCert, lateKey := pemPair(t, "late", time.Now().Add(-time.Hour))
	e := start(t, rig.Setup{Top: "tls: { cert: edge.pem, key: edge.key }", Timeouts: "client_header: 60s", Files: map[string]string{"edge.pem": oldCert, "edge.key": oldKey}})
	held := e.OpenStream(rig.Chat.Path, rig.ChatStream.RequestBody("sim", rig.Prompt, `"tokens":200,"delay_ms":20`))
	held.Next()
	if name := e.certificateShown(); name != "old" {
		t.Fatalf("%s is shown", name)
	}
	for name, pair := range map[string][2]string{
		"mismatch": {newCert, oldKey}, "expired": {lateCert, lateKey}, "nonsense": {"nonsense", newKey}, "empty": {"", ""}, "swapped": {newKey, newCert},
	} {
		before := e.Metric("penstock_reloads_total", `result="bad"`)
		e.Write("edge.pem", pair[0])
		e.Write("edge.key", pair[1])
		r, status := e.askReload("")
		if all := strings.Join(r.Problems, "\n"); status != 422 || !strings.Contains(all, "edge.pem") || !strings.Contains(all, "penstock.yaml:") {
			t.Errorf("%s: reload = %d %s, want 422 and the file's place", name, status, all)
		}
		if shown := e.certificateShown(); shown != "old" {
			t.Errorf("%s: %s is shown", name, shown)
		}
		if e.Metric("penstock_reloads_total", `result="bad"`) <= before {
			t.Errorf("%s is not counted", name)
		}
		if page := e.Fetch("GET", e.Admin+"/status").Body; !strings.Contains(page, "edge.pem") {
			t.Errorf("%s: the state page does not tell", name)
		}
	}
	kept, err := tls.Dial("tcp", e.Addr, &tls.Config{InsecureSkipVerify: true})
	noError(t, err)
	defer kept.Close()
	// As in a renewal, one file changes shortly after the other.
	e.Write("edge.pem", newCert)
	time.Sleep(600 * time.Millisecond)
	e.Write("edge.key", newKey)
	rig.WaitFor(t, rig.WaitTimeout, "the new certificate is shown", func() bool { return e.certificateShown() == "new" })
	if at := e.Metric("penstock_certificate_expiry_timestamp_seconds"); int64(at) != year.Add(time.Hour).Unix() {
		t.Errorf("the metric says %v", at)
	}
	if from := e.Metric("penstock_certificate_not_before_timestamp_seconds"); from == 0 || from > float64(time.Now().Add(-47*time.Hour).Unix()) {
		t.Errorf("the metric says that it is valid from %v, and the pair is two days old", from)
	}
	if _, err := kept.Write([]byte(e.RequestBytes(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, `"tokens":1`), "Connection: close"))); err != nil {
		t.Errorf("the connection from before: %v", err)
	}
	b := make([]byte, 12)
	if _, err := io.ReadFull(kept, b); err != nil || string(b) != "HTTP/1.1 200" {
		t.Errorf("the connection from before: %q, %v", b, err)
	}
	if !isCompleteStream(held) {
		t.Error("the stream was cut")
	}
}

// behindTLS puts a TLS server in front of an engine. The server presents the certificate in show,
// and accepts clients whose certificates were issued by the CA in client.
func behindTLS(t *testing.T, engine string, show *atomic.Pointer[tls.Certificate], client string) (url string) {
	t.Helper()
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(client))
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return show.Load(), nil },
		ClientAuth:     tls.RequireAndVerifyClientCert, ClientCAs: clients,
	})
	noError(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				to, err := net.Dial("tcp", engine)
				if err != nil {
					return
				}
				defer to.Close()
				go func() {
					_, _ = io.Copy(to, c)
					_ = to.(*net.TCPConn).CloseWrite()
				}()
				_, _ = io.Copy(c, to)
			}()
		}
	}()
	return "https://" + ln.Addr().String()
}

// TestFault74_UpstreamCertificates checks that the CA and the client certificate for an engine are
// read again when their files change. Malformed files must have no effect.
func TestFault74_UpstreamCertificates(t *testing.T) {
	t.Parallel()
	year := time.Now().Add(365 * 24 * time.Hour)
	pair := func(cert, key string) *tls.Certificate {
		p, err := tls.X509KeyPair([]byte(cert), []byte(key))
		noError(t, err)
		return &p
	}
	oldCert, oldKey := pemPair(t, "engine", year)
	newCert, newKey := pemPair(t, "engine", year)
	ourCert, ourKey := pemPair(t, "edge", year)
	var show atomic.Pointer[tls.Certificate]
	show.Store(pair(oldCert, oldKey))
	engine := rig.StartEngine(t, sim.Options{})
	url := behindTLS(t, engine.Addr(), &show, ourCert)
	e := start(t, rig.Setup{Config: `
timeouts: { linger: 0s, connect: 10s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: a, url: "` + url + `", engine: sim, probe: { interval: 500ms, timeout: 15s }, tls: { ca: ca.pem, cert: our.pem, key: our.key } }]
models: [{ id: sim, deployments: [{ upstream: a }] }]
`, Files: map[string]string{"ca.pem": oldCert, "our.pem": ourCert, "our.key": ourKey}})
	e.SendRequest(rig.Chat, "").WantStatus(200)
	for _, nonsense := range []struct{ file, text string }{{"ca.pem", "nonsense"}, {"our.pem", newCert}, {"our.key", ""}} {
		e.Write(nonsense.file, nonsense.text)
		if r, status := e.askReload(""); status != 422 || !strings.Contains(strings.Join(r.Problems, ""), nonsense.file) {
			t.Errorf("%s: reload = %d %+v, want 422 and the file's name", nonsense.file, status, r)
		}
		e.SendRequest(rig.Chat, "").WantStatus(200)
		e.Write("ca.pem", oldCert)
		e.Write("our.pem", ourCert)
		e.Write("our.key", ourKey)
	}
	// A rotation: first the edge trusts both CAs, then the engine presents the new certificate.
	e.Write("ca.pem", oldCert+newCert)
	if r, status := e.askReload(""); status != 200 || !r.OK {
		t.Errorf("reload = %d %+v, want 200 and ok", status, r)
	}
	show.Store(pair(newCert, newKey))
	for range 10 {
		e.SendRequest(rig.Chat, "").WantStatus(200)
	}
}
