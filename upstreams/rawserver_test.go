package upstreams

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// rawServer plays an engine on loopback that does exactly what a script says, byte by byte.
type rawServer struct {
	t      *testing.T
	ln     net.Listener
	secure *tls.Config
	script func(p *peer)
	wg     sync.WaitGroup
	mu     sync.Mutex
	open   map[net.Conn]bool
	conns  int
}

// peer is the engine's end of one connection.
type peer struct {
	net.Conn
	t   *testing.T
	tcp *net.TCPConn
	r   *bufio.Reader
	n   int // of the connection, from 0
}

// serveRaw runs script for every connection. The connection is closed when script returns.
func serveRaw(t *testing.T, script func(p *peer)) *rawServer {
	return serveRawOn(t, nil, script)
}

func serveRawTLS(t *testing.T, script func(p *peer)) *rawServer {
	return serveRawOn(t, serverTLS(t), script)
}

func serveRawOn(t *testing.T, secure *tls.Config, script func(p *peer)) *rawServer {
	t.Helper()
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // whose sockets take no filter
	ln, err := plain.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{t: t, ln: ln, secure: secure, script: script, open: map[net.Conn]bool{}}
	s.wg.Go(s.accept)
	t.Cleanup(s.stop)
	return s
}

func (s *rawServer) accept() {
	for {
		nc, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		n := s.conns
		s.conns++
		s.open[nc] = true
		s.mu.Unlock()
		s.wg.Go(func() {
			p := &peer{Conn: nc, t: s.t, tcp: nc.(*net.TCPConn), n: n}
			if s.secure != nil {
				p.Conn = tls.Server(nc, s.secure)
			}
			p.r = bufio.NewReader(p.Conn)
			s.script(p)
			_ = nc.Close()
			s.mu.Lock()
			delete(s.open, nc)
			s.mu.Unlock()
		})
	}
}

func (s *rawServer) stop() {
	_ = s.ln.Close()
	s.mu.Lock()
	for c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// accepted returns how many connections were made so far.
func (s *rawServer) accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

func (s *rawServer) url() string {
	if s.secure != nil {
		return "https://" + s.ln.Addr().String()
	}
	return "http://" + s.ln.Addr().String()
}

// request reads a whole request and returns its body; ok is false when there is none any more.
func (p *peer) request() (r *http.Request, body string, ok bool) {
	r, err := http.ReadRequest(p.r)
	if err != nil {
		return nil, "", false
	}
	b, err := io.ReadAll(r.Body)
	return r, string(b), err == nil
}

func (p *peer) send(s string) { _, _ = io.WriteString(p.Conn, s) }

// rst makes the close of the connection a reset.
func (p *peer) rst() { _ = p.tcp.SetLinger(0) }

// untilClosed reads until the other side has closed.
func (p *peer) untilClosed() { _, _ = io.Copy(io.Discard, p.r) }

// echo answers every request with its own body, until the other side closes.
func echo(p *peer) {
	for {
		_, body, ok := p.request()
		if !ok {
			return
		}
		p.send(sized(body))
	}
}

func sized(body string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

var certificates = sync.OnceValues(func() (*tls.Config, *tls.Config) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	client := s.Client().Transport.(*http.Transport).TLSClientConfig
	return &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}, &tls.Config{RootCAs: client.RootCAs}
})

func serverTLS(t *testing.T) *tls.Config {
	t.Helper()
	server, _ := certificates()
	return server
}

func clientRoots(t *testing.T) *tls.Config {
	t.Helper()
	_, client := certificates()
	return client
}

// transportTo returns a transport to url that is closed with the test, which fails if a goroutine
// is left then.
func transportTo(t *testing.T, url string, change ...func(o *TransportOptions)) *Transport {
	t.Helper()
	o := TransportOptions{ID: "gpu-a", URL: url}
	if strings.HasPrefix(url, "https:") {
		o.TLS = clientRoots(t)
	}
	for _, f := range change {
		f(&o)
	}
	tr, err := NewTransport(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	return tr
}

// checkLeaks makes the test fail if goroutines are left at its end. Call it before anything that
// has a cleanup.
func checkLeaks(t *testing.T) {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
}

func post(body string) *Request {
	return &Request{Method: "POST", Path: "/v1/chat/completions", ContentType: "application/json", Body: [][]byte{[]byte(body)}, ConnectTimeout: 2 * time.Second, WriteTimeout: 2 * time.Second}
}

func soon() time.Time { return time.Now().Add(5 * time.Second) }

// readAll reads the body to its end or first failure.
func readAll(x *Exchange) (string, error) {
	var b strings.Builder
	p := make([]byte, 1500)
	for {
		n, err := x.Read(p, soon())
		b.Write(p[:n])
		if err == io.EOF {
			return b.String(), nil
		}
		if err != nil {
			return b.String(), err
		}
	}
}

// roundTrip does a whole exchange and closes it.
func roundTrip(tr *Transport, r *Request) (status int, body string, x *Exchange, err error) {
	x = tr.Exchange()
	defer x.Close()
	if err = x.Send(r); err != nil {
		return 0, "", x, err
	}
	if err = x.Await(soon()); err != nil {
		return 0, "", x, err
	}
	body, err = readAll(x)
	return x.Status(), body, x, err
}

// mustEcho checks that tr works: an exchange gets back what it sent.
func mustEcho(t *testing.T, tr *Transport, body string) *Exchange {
	t.Helper()
	status, got, x, err := roundTrip(tr, post(body))
	if err != nil || status != 200 || got != body {
		t.Fatalf("exchange: status %d, body %q, error %v; want 200 and %q", status, got, err, body)
	}
	return x
}

// failureOf returns err as a Failure, and checks what every Failure must say.
func failureOf(t *testing.T, err error) *Failure {
	t.Helper()
	var f *Failure
	if !errors.As(err, &f) {
		t.Fatalf("error %v (%T), want a *Failure", err, err)
	}
	if f.Upstream != "gpu-a" {
		t.Errorf("failure names upstream %q, want gpu-a", f.Upstream)
	}
	if (f.Clock != "") != (f.Kind == Timeout) {
		t.Errorf("failure of kind %v has clock %q", f.Kind, f.Clock)
	}
	return f
}

func wantFailure(t *testing.T, err error, kind Kind, reason string) *Failure {
	t.Helper()
	f := failureOf(t, err)
	if f.Kind != kind || f.Reason != reason {
		t.Fatalf("failure %v (%s): %v; want %v (%s)", f.Kind, f.Reason, f, kind, reason)
	}
	return f
}

var errTestCause = errors.New("the client has gone")
