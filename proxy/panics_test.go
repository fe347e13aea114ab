//go:build testing

package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"penstock/bench/sim"
	"penstock/config"
	"penstock/config/testkit/selfsigned"
	"penstock/proxy/front/listen"
	"penstock/proxy/telemetry/guard"
	"penstock/upstreams/engine"
)

// panickingEdge returns an edge that serves a configuration from a file, its guard, and the name of
// the file.
func panickingEdge(t *testing.T) (e *Edge, g *guard.Guard, file string) {
	t.Helper()
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}
	file = filepath.Join(t.TempDir(), "edge.yaml")
	const text = `
auth: none
timeouts: { linger: 0s }
upstreams: [{ name: up, url: "http://127.0.0.1:1", engine: sim }]
models: [{ id: m, deployments: [{ upstream: up }] }]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	load := func() (*config.File, config.Problems, []string) {
		return config.LoadForReload(file, config.KnownProfiles{Engines: engine.EngineNames(nil)})
	}
	f, problems, _ := load()
	if f == nil {
		t.Fatal(problems)
	}
	g = guard.New()
	e, err := New(Options{Config: f, Log: zap.NewNop(), MemoryLimit: 1 << 30, Public: listen(), Admin: listen(), Load: load, Guard: g})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return e, g, file
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// TestPanicOfReloads checks that the file watch and the SIGHUP handler continue after a panic.
func TestPanicOfReloads(t *testing.T) {
	e, g, file := panickingEdge(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := e.reloads.WatchChanges(ctx)
	defer stop()
	g.Inject(guard.PlaceFiles, 2)
	eventually(t, "the watch panics", func() bool { return g.PanicCount(guard.PlaceFiles) == 2 })
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(before, "cors: { origins: [\"https://a.example\"] }\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the changed file counts", func() bool { r := e.LastReload(); return r != nil && r.OK && r.Version == 2 })

	g.Inject("reload.signal", 1)
	hangUp := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	hangUp()
	eventually(t, "the signal's goroutine panics", func() bool { return g.PanicCount(guard.PlaceReload) == 1 })
	last := e.LastReload()
	hangUp()
	eventually(t, "the next signal counts", func() bool { return e.LastReload() != last })
}

// TestPanicOfTheWatchdog checks that watchdog messages continue after a panic.
func TestPanicOfTheWatchdog(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "200000")
	t.Setenv("WATCHDOG_PID", "")
	name := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	e, g, _ := panickingEdge(t)
	g.Inject(guard.PlaceWatchdog, 2)
	stop := e.startWatchdog(context.Background())
	defer stop()
	eventually(t, "the watchdog panics", func() bool { return g.PanicCount(guard.PlaceWatchdog) == 2 })
	_ = manager.SetReadDeadline(time.Now().Add(20 * time.Second))
	var text [64]byte
	if n, err := manager.Read(text[:]); err != nil || string(text[:n]) != "WATCHDOG=1" {
		t.Errorf("%q, %v", text[:n], err)
	}
}

// TestPanicOfSignals checks that after a panic, SIGQUIT still ends the process, and the next
// termination signal is handled.
func TestPanicOfSignals(t *testing.T) {
	code := make(chan int, 1)
	s := HandleSignals(func(c int) { code <- c })
	defer s.Stop()
	s.guard.Inject("shutdown.signal", 1)
	s.guard.Inject("shutdown.quit", 1)
	send := func(sig syscall.Signal) {
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
	}
	send(syscall.SIGTERM)
	<-s.Context.Done()
	eventually(t, "the signal's goroutine panics", func() bool { return s.guard.PanicCount(guard.PlaceShutdown) == 1 })
	send(syscall.SIGTERM)
	time.Sleep(200 * time.Millisecond) // two pending signals would be merged into one
	send(syscall.SIGTERM)
	select {
	case <-s.Hurry:
	case <-time.After(20 * time.Second):
		t.Error("nobody is in a hurry")
	}
	send(syscall.SIGQUIT)
	select {
	case c := <-code:
		if c != signalExitBase+int(syscall.SIGQUIT) {
			t.Errorf("exit code %d", c)
		}
	case <-time.After(20 * time.Second):
		t.Error("the process goes on")
	}
}

// TestPanicUnderTLS checks that a panic in a TLS stream ends only that stream. fasthttp writes the
// streams on TLS connections.
func TestPanicUnderTLS(t *testing.T) {
	played := sim.New(sim.Options{Listen: "127.0.0.1:0"})
	if err := played.Start(); err != nil {
		t.Fatal(err)
	}
	defer played.Close()
	cert, key := selfsigned.WritePair(t, t.TempDir(), "edge", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	pair := new(listen.Certificate)
	if err := pair.Load(cert, key, nil); err != nil {
		t.Fatal(err)
	}
	f, problems := config.ParseValid("test.yaml", []byte(`
auth: none
timeouts: { linger: 0s }
admin: { listen: "" }
tls: { cert: "`+cert+`", key: "`+key+`" }
upstreams: [{ name: up, url: "`+played.URL()+`", engine: sim, concurrency: 1 }]
models: [{ id: sim, deployments: [{ upstream: up }] }]
`), config.KnownProfiles{Engines: engine.EngineNames(nil)})
	if f == nil {
		t.Fatal(problems)
	}
	public, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := guard.New()
	e, err := New(Options{Config: f, Log: zap.NewNop(), MemoryLimit: 1 << 30, Public: public, Certificate: pair, Guard: g})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	ask := func() (whole bool) {
		body := `{"model":"sim","stream":true,"messages":[{"role":"user","content":"hi"}],"sim":{"text":"hello there"}}`
		res, err := client.Post("https://"+public.Addr().String()+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			return false
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		return err == nil && strings.HasSuffix(string(text), "data: [DONE]\n\n")
	}
	eventually(t, "it serves", ask)
	n := uint64(0)
	for _, test := range []struct {
		point, place string
		whole        bool
	}{
		{"relay.run", guard.PlaceStream, false},
		{"relay.close", guard.PlaceStream, true},
		{"call.release", guard.PlaceEnd, true},
		{"call.end", guard.PlaceEnd, true},
	} {
		g.Inject(test.point, 1)
		if whole := ask(); whole != test.whole {
			t.Errorf("%s: the stream is whole: %v", test.point, whole)
		}
		n++
		eventually(t, test.point+" panics", func() bool { return g.PanicCount(guard.PlaceStream)+g.PanicCount(guard.PlaceEnd) == n })
		eventually(t, "the call has ended", func() bool { return e.services.Calls.InFlight() == 0 })
		if !ask() {
			t.Errorf("after %s: the next stream is not whole", test.point)
		}
	}
	if n := e.services.Bodies.UsedBytes(); n != 0 {
		t.Errorf("%d bytes of bodies are held", n)
	}
}
