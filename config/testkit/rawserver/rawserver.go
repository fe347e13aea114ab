// Package rawserver is a server on loopback that simulates an engine. Tests script its responses
// byte by byte. The package imports no other package of this module, so tests in any package can
// use it.
package rawserver

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
)

// Server runs a script for each connection.
type Server struct {
	t             *testing.T
	Listener      net.Listener
	tlsConfig     *tls.Config
	script        func(p *Peer)
	wg            sync.WaitGroup
	mu            sync.Mutex
	openConns     map[net.Conn]bool
	acceptedCount int
}

// Peer is the server's end of a connection.
type Peer struct {
	net.Conn
	T      *testing.T
	TCP    *net.TCPConn
	Reader *bufio.Reader
	N      int // number of the connection, counting from 0
}

// Serve starts a server that runs script for each connection. The server closes the connection when
// script returns.
func Serve(t *testing.T, script func(p *Peer)) *Server {
	return serveOn(t, nil, script)
}

// ServeTLS is like Serve, but uses TLS with a certificate that ClientTLS trusts.
func ServeTLS(t *testing.T, script func(p *Peer)) *Server {
	return serveOn(t, serverTLS(t), script)
}

func serveOn(t *testing.T, secure *tls.Config, script func(p *Peer)) *Server {
	t.Helper()
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // Multipath TCP sockets do not support socket filters
	ln, err := plain.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, Listener: ln, tlsConfig: secure, script: script, openConns: map[net.Conn]bool{}}
	s.wg.Go(s.accept)
	t.Cleanup(s.stop)
	return s
}

func (s *Server) accept() {
	for {
		nc, err := s.Listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		n := s.acceptedCount
		s.acceptedCount++
		s.openConns[nc] = true
		s.mu.Unlock()
		s.wg.Go(func() {
			p := &Peer{Conn: nc, T: s.t, TCP: nc.(*net.TCPConn), N: n}
			if s.tlsConfig != nil {
				p.Conn = tls.Server(nc, s.tlsConfig)
			}
			p.Reader = bufio.NewReader(p.Conn)
			s.script(p)
			_ = nc.Close()
			s.mu.Lock()
			delete(s.openConns, nc)
			s.mu.Unlock()
		})
	}
}

func (s *Server) stop() {
	_ = s.Listener.Close()
	s.mu.Lock()
	for c := range s.openConns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// AcceptedCount returns the number of accepted connections.
func (s *Server) AcceptedCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acceptedCount
}

// URL returns the server's base URL.
func (s *Server) URL() string {
	if s.tlsConfig != nil {
		return "https://" + s.Listener.Addr().String()
	}
	return "http://" + s.Listener.Addr().String()
}

// ReadRequest reads a request and its body. ok is false if there are no more requests.
func (p *Peer) ReadRequest() (r *http.Request, body string, ok bool) {
	r, err := http.ReadRequest(p.Reader)
	if err != nil {
		return nil, "", false
	}
	b, err := io.ReadAll(r.Body)
	return r, string(b), err == nil
}

// Send writes s.
func (p *Peer) Send(s string) { _, _ = io.WriteString(p.Conn, s) }

// ResetOnClose makes Close send an RST.
func (p *Peer) ResetOnClose() { _ = p.TCP.SetLinger(0) }

// ReadToEnd reads until the client closes the connection.
func (p *Peer) ReadToEnd() { _, _ = io.Copy(io.Discard, p.Reader) }

// EchoRequests responds to every request with the request's body, until the client closes the
// connection.
func EchoRequests(p *Peer) {
	for {
		_, body, ok := p.ReadRequest()
		if !ok {
			return
		}
		p.Send(SizedResponse(body))
	}
}

// SizedResponse returns a response with status 200, a Content-Length and the body.
func SizedResponse(body string) string {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
	return head + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

var testCertificates = sync.OnceValues(func() (*tls.Config, *tls.Config) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	client := s.Client().Transport.(*http.Transport).TLSClientConfig
	server := &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	return server, &tls.Config{RootCAs: client.RootCAs}
})

func serverTLS(t *testing.T) *tls.Config {
	t.Helper()
	server, _ := testCertificates()
	return server
}

// ClientTLS returns a client configuration that trusts servers from ServeTLS.
func ClientTLS(t *testing.T) *tls.Config {
	t.Helper()
	_, client := testCertificates()
	return client
}
