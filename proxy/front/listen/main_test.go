package listen

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"penstock/config/testkit/selfsigned"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type waiter struct {
	called atomic.Int32
	at     chan time.Time
}

func newWaiter() *waiter { return &waiter{at: make(chan time.Time, 1)} }

func (w *waiter) OnDisconnect() {
	if w.called.Add(1) == 1 {
		w.at <- time.Now()
	}
}

// noticeLimit is how long the watch may take to detect a disconnected client on a busy machine. On
// an idle machine, it takes a millisecond.
const noticeLimit = 20 * time.Second

func (w *waiter) mustNotice(t *testing.T, since time.Time) {
	t.Helper()
	select {
	case at := <-w.at:
		t.Logf("noticed after %v", at.Sub(since))
	case <-time.After(noticeLimit):
		t.Error("the client's leaving was not noticed")
	}
}

func (w *waiter) mustNotBeCalled(t *testing.T) {
	t.Helper()
	time.Sleep(30 * time.Millisecond)
	if n := w.called.Load(); n != 0 {
		t.Errorf("OnDisconnect was called %d times", n)
	}
}

func open(t testing.TB, o Options) *Listener {
	t.Helper()
	ln, err := Listen("127.0.0.1:0", PortOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return wrap(t, ln, o)
}

func wrap(t testing.TB, ln net.Listener, o Options) *Listener {
	t.Helper()
	l, err := New(ln, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		for deadline := time.Now().Add(30 * time.Second); l.OpenConnCount() > 0 || l.lingerSlots.held.Load() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("%d connections and %d lingering ones are left", l.OpenConnCount(), l.lingerSlots.held.Load())
				break
			}
		}
		if err := l.StopDisconnectWatch(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func pair(t testing.TB, l *Listener) (server *Conn, client *net.TCPConn) {
	t.Helper()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	server = accepted.(*Conn)
	t.Cleanup(func() {
		dialed.Close()
		server.Close()
	})
	return server, dialed.(*net.TCPConn)
}

// tlsPair adds TLS to both ends of a connection, as a server with a tls.Listener does.
func tlsPair(t testing.TB, l *Listener) (server *tls.Conn, client *tls.Conn) {
	t.Helper()
	var cert Certificate
	certFile, keyFile, pool := writeCertificate(t, "edge", time.Now().Add(time.Hour))
	if err := cert.Load(certFile, keyFile, nil); err != nil {
		t.Fatal(err)
	}
	return tlsPairOf(t, l, &cert, pool)
}

func tlsPairOf(t testing.TB, l *Listener, cert *Certificate, pool *x509.CertPool) (server *tls.Conn, client *tls.Conn) {
	t.Helper()
	plain, dialed := pair(t, l)
	server = tls.Server(plain, cert.TLSConfig())
	client = tls.Client(dialed, &tls.Config{RootCAs: pool, ServerName: "edge"})
	failed := make(chan error, 1)
	go func() { failed <- client.Handshake() }()
	if err := server.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	return server, client
}

// writeCertificate writes a self-signed certificate for name, and the certificate's private key. It
// returns a pool that contains the certificate.
func writeCertificate(t testing.TB, name string, notAfter time.Time) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	certFile, keyFile = selfsigned.WritePair(t, t.TempDir(), name, time.Now().Add(-24*time.Hour), notAfter)
	cert, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return certFile, keyFile, pool
}
