package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"
	"time"

	"penstock/config/testkit/selfsigned"
	"penstock/proxy/e2e/rig"
)

func certificateClient(t *testing.T, certificate *tls.Certificate) *http.Client {
	client := rig.NewClient(t)
	if certificate != nil {
		client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{*certificate}
	}
	return client
}

// TestClientCertificates checks that a client certificate can be used instead of a key at every
// endpoint. If the request also contains another client's key, it must be refused. Access must end
// when a reload removes the certificate.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	authority, stranger := selfsigned.NewAuthority(t, "machines"), selfsigned.NewAuthority(t, "machines")
	cert, key := selfsigned.NewPair(t, "edge", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	name := func(n string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.DNSNames = []string{n} }
	}
	setup := rig.Setup{
		Files: map[string]string{"edge.pem": cert, "edge.key": key, "clients.pem": authority.PEM},
		Top:   "on_revoke: abort\ntls: { cert: edge.pem, key: edge.key, client_ca: clients.pem }",
		Keys:  "- { id: agent, certificate: { san: agent.test }, limits: { concurrency: 1 } }\n",
	}
	p := rig.StartProgram(t, setup)
	if !strings.HasPrefix(p.URL, "https://") {
		t.Fatal(p.URL)
	}
	agent, unknown, forged := authority.NewClientCertificate(t, name("agent.test")), authority.NewClientCertificate(t, name("nobody.test")), stranger.NewClientCertificate(t, name("agent.test"))
	const none = "Authorization: "
	for _, c := range []struct {
		name        string
		certificate *tls.Certificate
		header      []string
		status      int // 0 means that the connection fails
	}{
		{"certificate", &agent, []string{none}, 200},
		{"certificate for a page of another origin", &agent, []string{none, "Origin: https://evil.test"}, 401},
		{"certificate for an image of another page", &agent, []string{none, "Sec-Fetch-Site: cross-site"}, 401},
		{"key", nil, nil, 200},
		{"neither", nil, []string{none}, 401},
		{"certificate and the key of another", &agent, nil, 401},
		{"certificate and a wrong key", &agent, []string{"Authorization: Bearer wrong"}, 401},
		{"certificate of no key, with a key", &unknown, nil, 200},
		{"certificate of no key", &unknown, []string{none}, 401},
		{"certificate of another authority", &forged, []string{none}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := *p.Edge
			e.T, e.Client = t, certificateClient(t, c.certificate)
			if c.status == 0 {
				req, _ := http.NewRequestWithContext(context.Background(), "GET", e.URL+"/v1/models", nil)
				if r, err := e.Client.Do(req); err == nil {
					r.Body.Close()
					t.Errorf("status = %d, want a refused connection", r.StatusCode)
				}
				return
			}
			// The second body is large enough for the precheck.
			for _, body := range []string{e.ChatRequest(""), e.ChatRequest(`"user": "` + strings.Repeat("x", 20<<10) + `"`)} {
				r := e.Post(chatPath, body, c.header...).WantStatus(c.status)
				if c.status == 401 && !strings.Contains(r.Body, `"authentication_error"`) {
					t.Errorf("answer = %s, want authentication_error", r.Body)
				}
			}
		})
	}
	machine := *p.Edge
	machine.Client = certificateClient(t, &agent)
	machine.Do("GET", "/v1/models", "").WantStatus(401) // the request has another client's key
	stream := machine.OpenStream(chatPath, p.ChatRequest(endlessStream), none)
	stream.Next()
	if r := machine.Post(chatPath, p.ChatRequest(""), none).WantStatus(429); !strings.Contains(r.Body, "concurrent") {
		t.Errorf("answer = %s, want the concurrent requests", r.Body)
	}
	p.Write("clients.pem", stranger.PEM)
	if status, body := p.Reload(); status != 200 {
		t.Fatal(status, body)
	}
	for ok := true; ok; {
		_, ok = stream.Next()
	}
	// The certificate on the open connection was verified with the old CA.
	machine.Post(chatPath, p.ChatRequest(""), none).WantStatus(401)
	machine.Client = certificateClient(t, &forged)
	machine.Post(chatPath, p.ChatRequest(""), none).WantStatus(200)
	p.Write("clients.pem", "no certificate\n")
	if status, body := p.Reload(); status != 422 || !strings.Contains(body, "tls.client_ca") {
		t.Errorf("reload = %d %s, want 422 and tls.client_ca", status, body)
	}
	machine.Post(chatPath, p.ChatRequest(""), none).WantStatus(200)
}
