package acme

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/config/testkit/acmeca"
	"penstock/proxy/e2e/rig"
)

// portMap maps the ports of the domains to addresses of an edge. A port has an address only after
// the edge has started.
type portMap struct {
	mu    sync.Mutex
	ports map[string]string // maps a port ("443") to the address of the edge
}

func (n *portMap) mapPort(port, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ports == nil {
		n.ports = map[string]string{}
	}
	n.ports[port] = to
}

// dialMapped connects to the address that a port is mapped to. It waits until the port is mapped,
// because the authority may connect before the test knows the edge's address.
func (n *portMap) dialMapped(ctx context.Context, _, port string) (net.Conn, error) {
	for {
		n.mu.Lock()
		to := n.ports[port]
		n.mu.Unlock()
		if to != "" {
			return new(net.Dialer).DialContext(ctx, "tcp", to)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func settings(ca *acmeca.CA, domains, more string) string {
	return fmt.Sprintf("tls: { acme: { domains: [%s], folder: certificates, accept_terms: true, directory: %q, ca: ca.pem%s } }", domains, ca.Directory(), more)
}

// handshakeState performs a TLS handshake for a server name, and returns its state. The client
// trusts the certificate authority.
func handshakeState(ca *acmeca.CA, addr, name string) (*tls.ConnectionState, error) {
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: rig.WaitTimeout}, "tcp", addr, &tls.Config{ServerName: name, RootCAs: ca.TrustPool()})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	state := c.ConnectionState()
	return &state, nil
}

// waitCertificate waits until an edge has a certificate for a name, and returns its serial number.
func waitCertificate(t *testing.T, ca *acmeca.CA, addr, name string) (serial string) {
	t.Helper()
	return waitCertificateWithin(t, rig.WaitTimeout, ca, addr, name)
}

// waitCertificateWithin is like waitCertificate, but has a different time limit.
func waitCertificateWithin(t *testing.T, limit time.Duration, ca *acmeca.CA, addr, name string) (serial string) {
	t.Helper()
	rig.WaitFor(t, limit, name+" has a certificate", func() bool {
		state, err := handshakeState(ca, addr, name)
		if err == nil {
			serial = state.PeerCertificates[0].SerialNumber.String()
		}
		return err == nil
	})
	return serial
}

// client returns a client that trusts the authority and resolves every domain to an address.
func client(t *testing.T, ca *acmeca.CA, addr string) *http.Client {
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: ca.TrustPool()},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// TestByTLS checks that an edge without a certificate starts, logs that the certificate is missing,
// and obtains one through its public port. A restarted edge must use the same certificate. A reload
// must be able to change the domains while a stream is running.
func TestByTLS(t *testing.T) {
	t.Parallel()
	var world portMap
	ca := acmeca.Start(t, acmeca.Options{Reach: world.dialMapped})
	p := rig.StartProgram(t, rig.Setup{Top: settings(ca, "a.test", ""), Files: map[string]string{"ca.pem": ca.PEM}, Cold: true})
	if _, err := handshakeState(ca, p.Addr, "a.test"); err == nil {
		t.Error("there is a certificate before the authority could look")
	}
	if page := p.Fetch("GET", p.Admin+"/status").Body; !strings.Contains(page, "there is no certificate of a.test yet") {
		t.Error("the status does not say that a certificate is awaited")
	}
	world.mapPort("443", p.Addr)
	first := waitCertificate(t, ca, p.Addr, "a.test")
	rig.WaitFor(t, rig.WaitTimeout, "the log says so", func() bool { return strings.Contains(p.Log.String(), "certificate obtained") })
	if n := p.Metric("penstock_acme_orders_total", `result="ok"`); n != 1 {
		t.Errorf("%v orders are counted", n)
	}
	if end := p.Metric("penstock_certificate_expiry_timestamp_seconds", `domain="a.test"`); time.Until(time.Unix(int64(end), 0)) < 80*24*time.Hour {
		t.Errorf("the metric says %v", end)
	}
	p.SendRequest(rig.Chat, "").WantStatus(200)
	stream := p.OpenStream(rig.Chat.Path, rig.ChatStream.RequestBody("sim", rig.Prompt, `"tokens":100,"delay_ms":20`))
	stream.Next()
	p.Write("penstock.yaml", strings.Replace(p.Text, "[a.test]", "[a.test, b.test]", 1))
	if status, body := p.Reload(); status != 200 {
		t.Fatalf("reload = %d %s, want 200", status, body)
	}
	waitCertificate(t, ca, p.Addr, "b.test")
	if again := waitCertificate(t, ca, p.Addr, "a.test"); again != first {
		t.Error("a reload has changed the certificate of another domain")
	}
	last := ""
	for e, ok := stream.Next(); ok; e, ok = stream.Next() {
		last = e.Data
	}
	if last != "[DONE]" {
		t.Errorf("the stream ended with %q", last)
	}
	if _, orders, _ := ca.Counts(); orders != 2 {
		t.Errorf("%s, want 2 orders", ca)
	}
	p.End()
	p.Restart()
	if again := waitCertificate(t, ca, p.Addr, "a.test"); again != first {
		t.Error("a restart has changed the certificate")
	}
	if _, orders, _ := ca.Counts(); orders != 2 {
		t.Errorf("after the restart: %s", ca)
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "certificates")); err != nil {
		t.Error(err)
	}
}

var listening = regexp.MustCompile(`challenges of the authority are answered.*"listen":"([^"]+)"`)

// TestByHTTP checks that the second listener answers the challenge, redirects browsers to https,
// and refuses all other requests.
func TestByHTTP(t *testing.T) {
	t.Parallel()
	var world portMap
	ca := acmeca.Start(t, acmeca.Options{Reach: world.dialMapped})
	p := rig.StartProgram(t, rig.Setup{Top: settings(ca, "a.test", `, http: "127.0.0.1:0"`), Files: map[string]string{"ca.pem": ca.PEM}, Cold: true})
	var at string
	rig.WaitFor(t, rig.WaitTimeout, "the log names the listener", func() bool {
		if found := listening.FindStringSubmatch(p.Log.String()); found != nil {
			at = found[1]
		}
		return at != ""
	})
	world.mapPort("80", at)
	waitCertificate(t, ca, p.Addr, "a.test")
	c := client(t, ca, at)
	for _, want := range []struct {
		method, url, body, location string
		status                      int
	}{
		{"GET", "http://a.test/?key=sentinel-key", "", "https://a.test/", 308},
		{"GET", "http://a.test/health%2F?token=sentinel-key#x", "", "https://a.test/health%2F", 308},
		{"GET", "http://a.test/v1x", "", "https://a.test/v1x", 308},
		{"GET", "http://a.test/v1/models?key=sentinel-key", "", "", 403},
		{"HEAD", "http://a.test/v1", "", "", 403},
		{"HEAD", "http://A.test:80/", "", "https://a.test/", 308},
		{"GET", "http://other.test/", "", "", 404},
		{"GET", "http://127.0.0.1/", "", "", 404},
		{"POST", "http://a.test/v1/chat/completions", "{}", "", 403},
		{"POST", "http://a.test/v1/chat/completions?key=sentinel-key", strings.Repeat("x", 300_000), "", 403},
		{"POST", "http://a.test/v1/chat/completions", "", "", 403},
		{"DELETE", "http://a.test/", "", "", 403},
		{"POST", "http://other.test/v1/chat/completions", "{}", "", 400},
		{"DELETE", "http://other.test/", "", "", 404},
		{"GET", "http://a.test/.well-known/acme-challenge/unknown", "", "", 404},
		{"GET", "http://a.test/.well-known/acme-challenge/", "", "", 404},
	} {
		req, err := http.NewRequestWithContext(t.Context(), want.method, want.url, strings.NewReader(want.body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(req)
		if err != nil {
			t.Errorf("%s %s: %v, want an answer", want.method, want.url, err)
			continue
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		told := strings.Contains(string(text), `"code":"https_required"`) && strings.Contains(string(text), "call https://a.test.")
		if told != (want.status == 403 && want.method != "HEAD") || strings.Contains(string(text), "sentinel") {
			t.Errorf("%s %s is answered %q", want.method, want.url, text)
		}
		if res.StatusCode != want.status || res.Header.Get("Location") != want.location {
			t.Errorf("%s %s = %d to %q, want %d to %q", want.method, want.url, res.StatusCode, res.Header.Get("Location"), want.status, want.location)
		}
	}
	raw, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(rig.WaitTimeout))
	if _, err := io.WriteString(raw, "GET / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if text, _ := io.ReadAll(raw); !strings.HasPrefix(string(text), "HTTP/1.1 400 ") {
		t.Errorf("a smuggled request is answered %q", text)
	}
}

// TestRefused checks that, if the authority cannot reach one domain, the status shows the reason
// and the edge serves the other domains.
func TestRefused(t *testing.T) {
	t.Parallel()
	var world portMap
	ca := acmeca.Start(t, acmeca.Options{Reach: func(ctx context.Context, domain, port string) (net.Conn, error) {
		if domain == "lost.test" {
			return nil, fmt.Errorf("no such host: %s", domain)
		}
		return world.dialMapped(ctx, domain, port)
	}})
	p := rig.StartProgram(t, rig.Setup{Top: settings(ca, "lost.test, a.test", ""), Files: map[string]string{"ca.pem": ca.PEM}, Cold: true})
	world.mapPort("443", p.Addr)
	waitCertificate(t, ca, p.Addr, "a.test")
	if _, err := handshakeState(ca, p.Addr, "lost.test"); err == nil {
		t.Error("lost.test has a certificate")
	}
	verdict := p.Status().Verdict.Text
	if !strings.Contains(verdict, "there is no certificate of lost.test yet (1 attempt failed") || !strings.Contains(verdict, "no such host") {
		t.Errorf("the verdict is %q", verdict)
	}
	if n := p.Metric("penstock_acme_failures", `domain="lost.test"`); n != 1 {
		t.Errorf("%v failures, want 1", n)
	}
	p.SendRequest(rig.Chat, "").WantStatus(200)
}
