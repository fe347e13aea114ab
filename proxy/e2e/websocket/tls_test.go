package websocket

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"penstock/config/testkit/selfsigned"
	"penstock/proxy/e2e/rig"
)

// TestCertificate checks that a client certificate can be used instead of a key in each turn of a
// connection.
func TestCertificate(t *testing.T) {
	t.Parallel()
	authority := selfsigned.NewAuthority(t, "machines")
	cert, key := selfsigned.NewPair(t, "edge", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	p := rig.StartProgram(t, rig.Setup{
		Top: enabledSetting + "\ntls: { cert: edge.pem, key: edge.key, client_ca: clients.pem }", Untidy: true,
		Files: map[string]string{"edge.pem": cert, "edge.key": key, "clients.pem": authority.PEM},
		Keys:  "- { id: agent, certificate: { san: agent.test } }\n",
	})
	agent := authority.NewClientCertificate(t, func(c *x509.Certificate) { c.DNSNames = []string{"agent.test"} })
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{agent}}}
	defer transport.CloseIdleConnections()
	ws, _, err := websocket.Dial(t.Context(), "wss://"+p.Addr+path, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	c := &peer{t, ws}
	for range 2 {
		c.requestResponse(`"text":"Guten Tag"`, "")
		if _, text := c.wantCompleted(); text != "Guten Tag" {
			t.Errorf("text = %q, want Guten Tag", text)
		}
	}
	_ = ws.Close(websocket.StatusNormalClosure, "")
	rig.WaitFor(t, rig.WaitTimeout, "the calls are the certificate's", func() bool { return strings.Count(p.Log.String(), `"key":"agent"`) == 2 })
}

// TestTLS checks that a TLS connection behaves like a connection without TLS, even though it stays
// with the HTTP server. The cases are turns, a client that disconnects, an invalid frame, a message
// that is too large, and a drain.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := selfsigned.NewPair(t, "edge", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	p := rig.StartProgram(t, rig.Setup{
		Top: enabledSetting + "\ntls: { cert: edge.pem, key: edge.key }", Untidy: true, Timeouts: "linger: 0s, drain: 5s", Limits: "request_body: 8MiB",
		Files: map[string]string{"edge.pem": cert, "edge.key": key},
	})
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	p.URL = "https" + strings.TrimPrefix(strings.TrimPrefix(p.URL, "https"), "http")
	by := &http.Client{Transport: transport}
	c := dialBy(t, p.Edge, by)
	c.requestResponse(`"tool_calls":1`, tools)
	last, _ := c.wantCompleted()
	c.requestResponse(`"text":"Guten Tag"`, fmt.Sprintf(`,"previous_response_id":%q`, last.Response.ID))
	if _, text := c.wantCompleted(); text != "Guten Tag" {
		t.Errorf("text = %q, want Guten Tag", text)
	}
	for name, leave := range map[string]func(c *peer){
		"close": func(c *peer) { _ = c.ws.Close(websocket.StatusNormalClosure, "") },
		"gone":  func(c *peer) { _ = c.ws.CloseNow() },
	} {
		c := dialBy(t, p.Edge, by)
		c.requestResponse(`"ttft_ms":600000`, "")
		rig.WaitFor(t, rig.WaitTimeout, name+": the call runs", func() bool { return p.Engines[0].Stats().Running == 1 })
		leave(c)
		rig.WaitFor(t, rig.WaitTimeout, name+": the engine is free", func() bool { return p.Engines[0].Stats().Running == 0 })
	}
	large := dialBy(t, p.Edge, by)
	go func() { _ = large.ws.Write(t.Context(), websocket.MessageText, make([]byte, 9<<20)) }()
	large.wantClosed(websocket.StatusMessageTooBig)
	conn, err := tls.Dial("tcp", p.Addr, transport.TLSClientConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	wrong := &raw{rig.NewRawConn(t, conn), t}
	_ = wrong.SetDeadline(time.Now().Add(rig.WaitTimeout))
	_ = wrong.Send(handshake(&rig.LocalEdge{Edge: p.Edge}))
	wrong.ReadReply("GET").WantStatus(101)
	_ = wrong.Send(rig.WebSocketFrame(fin|opText, hello, false))
	wrong.wantClosed(1002)
	rig.WaitFor(t, rig.WaitTimeout, "the others are gone", func() bool { return p.Metric("penstock_websocket_connections") == 1 })
	c.requestResponse(`"text":"to the end","delay_ms":100`, "")
	c.readEvent()
	p.Signal(syscall.SIGTERM)
	for e := c.readEvent(); e.Type != "response.completed"; e = c.readEvent() {
	}
	c.wantClosed(websocket.StatusGoingAway)
	p.WantExit(rig.WaitTimeout, 0)
}
