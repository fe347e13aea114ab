package proxy

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/upstreams/engine"
)

// failingListener is a listener whose Accept always fails.
type failingListener struct {
	net.Listener
	closed atomic.Bool
}

func (b *failingListener) Close() error {
	b.closed.Store(true)
	return b.Listener.Close()
}

func (b *failingListener) Accept() (net.Conn, error) {
	if b.closed.Load() {
		return nil, net.ErrClosed
	}
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
}

// TestAdminListenerFails checks that the edge still serves clients and shuts down properly if the
// admin listener fails.
func TestAdminListenerFails(t *testing.T) {
	const text = `
auth: none
timeouts: { linger: 0s }
upstreams: [{ name: up, url: "http://127.0.0.1:1", engine: sim }]
models: [{ id: m, deployments: [{ upstream: up }] }]
`
	f, problems := config.ParseValid("test.yaml", []byte(text), config.KnownProfiles{Engines: engine.EngineNames(nil)})
	if f == nil {
		t.Fatal(problems)
	}
	public, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Options{Config: f, Log: zap.NewNop(), MemoryLimit: 1 << 30, Public: public, Admin: &failingListener{Listener: admin}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx) }()
	for deadline := time.Now().Add(10 * time.Second); e.admin.Listener().AcceptErrorCount() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the admin listener is not tried again")
		}
	}
	r, err := http.Get("http://" + public.Addr().String() + "/health") //nolint:noctx // a test's
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != 200 {
		t.Errorf("status = %d, want 200", r.StatusCode)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v, want no error", err)
	}
}
