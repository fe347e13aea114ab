//go:build unix

package e2e

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// overSocket returns a client for the HTTP server at a Unix socket.
func overSocket(t *testing.T, file, key string) *rig.Edge {
	t.Helper()
	e := rig.Connect(t, "http://localhost", key)
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", file)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	e.Client = &http.Client{Transport: tr}
	return e
}

// TestUnixSockets checks an edge whose clients, operator and engine all use Unix sockets. The
// engine restarts, the file is reloaded, and the edge is killed and started again. At the end, it
// must drain without losing a stream.
func TestUnixSockets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	key, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	engine := rig.StartEngine(t, sim.Options{Listen: "unix:" + in("engine.sock")})
	const config = `listen: unix:{{dir}}/edge.sock|0600
admin: { listen: "unix:{{dir}}/admin.sock" }
log: { client: true }
timeouts: { linger: 0s, drain: 20s, connect: 10s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "unix:{{dir}}/engine.sock", engine: sim, probe: { interval: 100ms, timeout: 15s } }]
models: [{ id: sim, deployments: [{ upstream: up-0 }] }]
`
	write := func(text string) {
		text = strings.NewReplacer("{{dir}}", dir, "{{hash}}", hash).Replace(text)
		if err := os.WriteFile(in("edge.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(config, "models:", "watch: false\nmodels:", 1))
	launch := func(args ...string) *rig.Process {
		p := rig.StartProcess(t, append([]string{"serve", "--config", in("edge.yaml")}, args...)...)
		p.WaitOutput(`serving unix:\S+/edge.sock \(admin: unix:\S+/admin.sock\)`)
		return p
	}
	p := launch()
	edge, admin := overSocket(t, in("edge.sock"), key), overSocket(t, in("admin.sock"), "")
	served := func(model string) bool {
		res, err := edge.TryOpenResponse(context.Background(), "POST", "/v1/chat/completions", rig.ChatBody(model, ""))
		if err != nil {
			return false
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return err == nil && res.StatusCode == http.StatusOK
	}
	rig.WaitFor(t, rig.WaitTimeout, "a chat is answered", func() bool { return served("sim") })
	if is, err := os.Lstat(in("edge.sock")); err != nil || is.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket: %v, %v", is, err)
	}
	r := edge.Post("/v1/chat/completions", rig.ChatBody("sim", `"stream":true`)).WantStatus(200)
	if !strings.Contains(r.Body, "data: [DONE]") {
		t.Errorf("the stream: %.500s", r.Body)
	}
	rig.WaitFor(t, rig.WaitTimeout, "the log names the peer", func() bool { return strings.Contains(p.Err.String(), `"client":"unix"`) })
	page := admin.Fetch("GET", "http://localhost/status").WantStatus(200)
	if want := `"unix:` + in("engine.sock") + `"`; !strings.Contains(page.Body, want) {
		t.Errorf("the status does not name %s", want)
	}
	if out, errs, code := rig.RunProgram(t, "", "check", in("edge.yaml")); code != 0 {
		t.Errorf("check: %d\n%s%s", code, out, errs)
	}

	engine.Close()
	rig.WaitFor(t, rig.WaitTimeout, "the engine is missed", func() bool { return !served("sim") })
	rig.StartEngine(t, sim.Options{Listen: "unix:" + in("engine.sock")})
	rig.WaitFor(t, 2*rig.WaitTimeout, "the restarted engine is used", func() bool { return served("sim") })

	write(strings.Replace(config, "{ id: sim,", "{ id: sim, aliases: [other],", 1))
	if out, errs, code := rig.RunProgram(t, "", "reload", "--admin", "unix:"+in("admin.sock")); code != 0 {
		t.Errorf("reload: %d\n%s%s", code, out, errs)
	}
	if !served("other") {
		t.Error("the reloaded file is not in force")
	}
	if out, errs, code := rig.RunProgram(t, "", "serve", "--config", in("edge.yaml")); code == 0 || !strings.Contains(errs, "taken by another process") {
		t.Errorf("a second edge: %d\n%s%s", code, out, errs)
	}
	if !served("sim") {
		t.Error("the second edge has taken the socket of the first")
	}

	p.Signal(syscall.SIGKILL)
	<-p.Done
	first := launch() // the socket files of the exited process still exist
	rig.WaitFor(t, rig.WaitTimeout, "a chat is answered after the restart", func() bool { return served("sim") })

	stream := func() *http.Response {
		return edge.OpenResponse(context.Background(), "POST", "/v1/chat/completions",
			rig.ChatBody("sim", `"stream":true,"sim":{"tokens":40,"delay_ms":25}`))
	}
	finished := func(who string, res *http.Response) {
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || !strings.Contains(string(body), "data: [DONE]") {
			t.Errorf("%s: the stream ends with %v: %.500s", who, err, body)
		}
	}
	running := stream()
	second := launch("--share-port") // replaces the first process at the sockets
	first.Signal(syscall.SIGTERM)
	edge.Client.CloseIdleConnections()
	rig.WaitFor(t, rig.WaitTimeout, "the second edge serves", func() bool { return served("sim") })
	finished("the first edge", running)
	edge.Client.CloseIdleConnections()
	first.WantExit(2*rig.WaitTimeout, 0)
	if !served("sim") {
		t.Error("the first edge has removed the socket of the second")
	}

	running = stream()
	second.Signal(syscall.SIGTERM)
	finished("the second edge", running)
	edge.Client.CloseIdleConnections()
	admin.Client.CloseIdleConnections()
	second.WantExit(2*rig.WaitTimeout, 0)
	for _, name := range []string{"edge.sock", "admin.sock"} {
		if _, err := os.Lstat(in(name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	for _, p := range []*rig.Process{p, first, second} {
		rig.WantNoLeak(t, "the log", p.Err.String(), key)
	}
}
