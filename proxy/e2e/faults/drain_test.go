package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// These tests check how the program exits, and how the next process starts.

// TestFault78_Drain sends SIGTERM under traffic, repeatedly. New calls may be refused, but no
// admitted call may break. If PENSTOCK_FULL=1 is set, each row is run with twenty drains instead of
// three.
func TestFault78_Drain(t *testing.T) {
	t.Parallel()
	for name, timeouts := range map[string]string{
		"no linger":   "timeouts: { linger: 0s, drain: 20s }",
		"with linger": "timeouts: { linger: 500ms, drain: 20s }",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			times := 3
			if isFullLength(t) {
				times = 20
			}
			e := start(t, rig.Setup{Engines: []sim.Options{{Slots: 512}}, Config: timeouts + `
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: a, url: "{{up-0}}", engine: sim, concurrency: 512, probe: { timeout: 15s } }]
models: [{ id: sim, deployments: [{ upstream: a }] }]
`})
			for i := range times {
				tr := startTraffic(e, defaultMix)
				tr.mayRefuse.Store(true)
				e.Signal(syscall.SIGTERM)
				e.WantExit(30*time.Second, 0)
				tr.wantNothingLost()
				if !strings.Contains(e.Log.String(), `"drained"`) {
					t.Error("the log does not say that it has drained")
				}
				if i+1 < times {
					e.Restart()
				}
			}
		})
	}
}

// TestFault78_DrainOrder checks the order of a drain. Readiness must change first. While the edge
// lingers, it must accept connections and ask clients to close them. Calls that are still running
// after the drain time must receive an error in their dialect. The exit code must be 0.
func TestFault78_DrainOrder(t *testing.T) {
	t.Parallel()
	forEachRequestType(t, rig.StreamRequestTypes, rig.Setup{Untidy: true, Timeouts: "connect: 2s"}, func(e *edge, w rig.RequestType) {
		e.rewrite("linger: 0s, drain: 5s", "linger: 8s, drain: 500ms")
		if r, status := e.askReload(""); status != 200 {
			e.T.Fatalf("reload = %d %+v, want 200", status, r)
		}
		s := e.OpenStream(w.Path, w.RequestBody("sim", rig.Prompt, `"tokens":1000,"delay_ms":50`))
		s.Next()
		kept := e.Dial()
		ask := func() *rig.Reply {
			e.T.Helper()
			if err := kept.Send(e.RequestBytes(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, `"tokens":1`))); err != nil {
				e.T.Fatal(err)
			}
			return kept.ReadReply("POST")
		}
		for range 2 {
			if r := ask(); r.Status != 200 {
				e.T.Errorf("before: status %d", r.Status)
			}
		}
		e.Signal(syscall.SIGTERM)
		rig.WaitFor(e.T, rig.WaitTimeout, "readiness turns", func() bool { return e.Fetch("GET", e.Admin+"/-/ready").Status == 503 })
		if r := ask(); r.Status != 200 {
			e.T.Errorf("on a kept connection: status %d", r.Status)
		}
		if rest, ok := kept.WaitClosed(rig.WaitTimeout); !ok || rest != "" {
			e.T.Errorf("the kept connection goes on: %q", rest)
		}
		if r := e.Get("/health"); r.Status != 200 {
			e.T.Errorf("while it lingers the public side says %d", r.Status)
		}
		var all strings.Builder
		var last rig.Event
		for {
			ev, ok := s.Next()
			if !ok {
				break
			}
			last = ev
			all.WriteString(ev.Name + " " + ev.Data + "\n")
		}
		if !strings.Contains(all.String(), "shutting down") || w.Dialect == "chat" && last.Data == "[DONE]" || strings.Contains(all.String(), "message_stop") || strings.Contains(all.String(), "response.completed") {
			e.T.Errorf("the stream ends with %q", last)
		}
		e.WantExit(rig.WaitTimeout, 0)
		found := false
		for _, l := range e.AccessLines() {
			found = found || l.Outcome == "drained"
		}
		if !found {
			e.T.Error("no access line tells of a drained call")
		}
	})
}

// TestFault78_SilentConnections checks that a drain is not delayed by new connections that send
// nothing, or by keep-alive connections without a request.
func TestFault78_SilentConnections(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Timeouts: "drain: 30s"})
	for range 10 {
		e.Dial()
		kept := e.Dial()
		noError(t, kept.Send(e.RequestBytes(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, `"tokens":1`))))
		kept.ReadReply("POST")
	}
	begun := time.Now()
	e.Signal(syscall.SIGTERM)
	e.WantExit(rig.WaitTimeout, 0)
	// The drain time for running calls is 30 s.
	if took := time.Since(begun); took > 4*time.Second+rig.TimingTolerance {
		t.Errorf("it took %v", took)
	}
}

// TestFault78_StuckClients checks that a drain disconnects clients that do not read their stream or
// have sent only part of a request, and that the exit is orderly.
func TestFault78_StuckClients(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Untidy: true, Timeouts: "drain: 500ms, write: 30s"})
	deaf := e.Dial()
	noError(t, deaf.Conn.(*net.TCPConn).SetReadBuffer(4<<10))
	noError(t, deaf.Send(e.RequestBytes(rig.ChatStream.Path, rig.ChatStream.RequestBody("sim", rig.Prompt, `"tokens":1000000`))))
	whole := e.RequestBytes(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, `"tokens":1`))
	noError(t, e.Dial().Send(whole[:20]))
	noError(t, e.Dial().Send(whole[:len(whole)-2]))
	rig.WaitFor(t, rig.WaitTimeout, "both calls run", func() bool { return e.Metric("penstock_calls_inflight") == 2 })
	e.Signal(syscall.SIGTERM)
	e.WantExit(rig.WaitTimeout, 0)
}

// TestFault79_Restart checks that, after a SIGKILL, the next process serves its first request
// before it has probed any upstream.
func TestFault79_Restart(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Engines: []sim.Options{{Latency: 0}}, Untidy: true, Cold: true})
	for range 3 {
		e.SendRequest(rig.Chat, "").WantStatus(200)
		e.Signal(syscall.SIGKILL)
		<-e.Done
		e.Restart() // returns once the program reports that it is serving
		e.SendRequest(rig.Chat, `"text":"First."`).WantStatus(200)
	}
}

// sharePort replaces the edge with a process that shares its ports. It returns a function that
// starts another process.
func sharePort(e *edge) (run func() *rig.Process) {
	e.T.Helper()
	e.Signal(syscall.SIGTERM)
	e.WantExit(rig.WaitTimeout, 0)
	admin, addr := rig.ReusableAddress(), rig.ReusableAddress()
	text := strings.Replace(e.Text, "listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }", "listen: "+addr+"\nadmin: { listen: "+admin+" }", 1)
	e.Admin, e.Addr, e.URL = "http://"+admin, addr, "http://"+addr
	e.Write("penstock.yaml", text)
	run = func() *rig.Process {
		p := rig.StartProcess(e.T, "serve", "--share-port", "--config", e.Path)
		p.WaitOutput("serving http://" + e.Addr)
		return p
	}
	e.ReplaceProcess(run())
	return run
}

// TestUpgradeKeepsBudgets checks that a process that replaces another process starts with the old
// process's budgets and usage, even while the old process drains. It must also count the usage of
// the old process during the drain.
func TestUpgradeKeepsBudgets(t *testing.T) {
	t.Parallel()
	key, hash, _ := auth.NewKey()
	e := start(t, rig.Setup{Engines: []sim.Options{{Slots: 8}}, Untidy: true, Config: `
timeouts: { linger: 200ms, drain: 5m }
ledger: usage.ledger
keys: [{ id: tester, hash: "{{hash}}" }, { id: other, hash: "` + hash + `", limits: { tokens_per_day: 1000 } }]
upstreams: [{ name: a, url: "{{up-0}}", engine: sim, concurrency: 8, probe: { timeout: 15s } }]
models: [{ id: sim, deployments: [{ upstream: a }] }]
`})
	run := sharePort(e)
	stream := e.OpenStream(rig.ChatStream.Path, rig.ChatStream.RequestBody("sim", rig.Prompt, `"tokens":1000,"delay_ms":200`))
	stream.Next()
	bearer := "Authorization: Bearer " + key
	call := rig.Chat.RequestBody("sim", rig.Prompt, `"tokens":600`)
	call = strings.Replace(call, "{", `{"max_tokens":600,`, 1)
	e.Do("POST", rig.Chat.Path, call, bearer).WantStatus(200)
	usedAtFirst := `"key":"other"`
	rig.WaitFor(t, rig.WaitTimeout, "the ledger has it", func() bool {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(e.Path), "usage.ledger"))
		return err == nil && strings.Contains(string(text), usedAtFirst)
	})
	next := run()
	e.Signal(syscall.SIGTERM)
	rig.WaitFor(t, rig.WaitTimeout, "the first one has let go of its port", func() bool {
		return strings.Contains(e.Log.String(), "draining")
	})
	// long enough for the old process to linger and to accept the connections queued at its socket
	time.Sleep(time.Second)
	for range 3 {
		if r := e.Do("POST", rig.Chat.Path, call, bearer); r.Status != 429 || !strings.Contains(r.Body, "quota_exceeded") {
			t.Errorf("while the one before drains: %d %s", r.Status, r.Body)
		}
	}
	if e.HasExited() {
		t.Error("the first one has ended meanwhile")
	}
	stream.Disconnect()
	e.WantExit(rig.WaitTimeout, 0)
	e.ReplaceProcess(next)
	rig.WaitFor(t, rig.WaitTimeout, "the second one writes the ledger", func() bool {
		return strings.Contains(e.Log.String(), "this process now writes the ledger")
	})
	if e.Do("POST", rig.Chat.Path, call, bearer).Status != 429 || strings.Contains(e.Log.String(), `"level":"error"`) {
		t.Error(e.Log.String())
	}
}

// TestUpgradeBySharedPort checks that a second process on the same port replaces the first without
// refusing a client.
func TestUpgradeBySharedPort(t *testing.T) {
	t.Parallel()
	times := 2
	if isFullLength(t) {
		times = 20
	}
	e := start(t, rig.Setup{Engines: []sim.Options{{Slots: 512}}, Untidy: true, Config: `
timeouts: { linger: 200ms, drain: 20s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: a, url: "{{up-0}}", engine: sim, concurrency: 512, probe: { timeout: 15s } }]
models: [{ id: sim, deployments: [{ upstream: a }] }]
`})
	e.Signal(syscall.SIGTERM)
	e.WantExit(rig.WaitTimeout, 0)
	// These addresses stay free between two programs.
	admin, addr := rig.ReusableAddress(), rig.ReusableAddress()
	text := strings.Replace(e.Text, "listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }", "listen: "+addr+"\nadmin: { listen: "+admin+" }", 1)
	e.Admin, e.Addr, e.URL = "http://"+admin, addr, "http://"+addr
	e.Write("penstock.yaml", text)
	run := func() *rig.Process {
		p := rig.StartProcess(t, "serve", "--share-port", "--config", e.Path)
		p.WaitOutput("serving http://" + e.Addr)
		return p
	}
	e.ReplaceProcess(run())
	if _, errs, code := rig.RunProgram(t, "", "serve", "--config", e.Path); code != 1 || !strings.Contains(errs, "is taken") || !strings.Contains(errs, "--share-port") {
		t.Errorf("one who does not share: exit code %d\n%s", code, errs)
	}
	tr := startTraffic(e, defaultMix)
	for range times {
		next := run()
		time.Sleep(300 * time.Millisecond)
		e.Signal(syscall.SIGTERM)
		for ready := 0; ready < 20; ready++ { // after 20 responses, the new process accepts all connections
			if r := e.Fetch("GET", e.Admin+"/-/ready"); r.Status != 200 {
				t.Errorf("not ready during the upgrade: %d", r.Status)
			}
			time.Sleep(5 * time.Millisecond)
		}
		e.WantExit(30*time.Second, 0)
		e.ReplaceProcess(next)
	}
	tr.wantNothingLost()
	if n := tr.refused.Load(); n > 0 {
		t.Errorf("%d connections were refused", n)
	}
}

// TestSharedAdminPort checks two edges that share an admin port. Each response must name its
// process, and a command must warn that it has reached only one of the edges. Once one edge has
// exited, there must be no warning.
func TestSharedAdminPort(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux says who listens on a port")
	}
	e := start(t, rig.Setup{Engines: []sim.Options{{}}, Untidy: true, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: a, url: "{{up-0}}", engine: sim }]
models: [{ id: sim, deployments: [{ upstream: a }] }]
`})
	run := sharePort(e)
	alone := e.Fetch("GET", e.Admin+"/-/ready")
	if alone.Header.Get("X-Penstock-Process") == "" || alone.Header.Get("X-Penstock-Processes") != "" {
		t.Errorf("alone: %q of %q", alone.Header.Get("X-Penstock-Process"), alone.Header.Get("X-Penstock-Processes"))
	}
	next := run()
	seen := map[string]bool{}
	rig.WaitFor(t, rig.WaitTimeout, "both answer", func() bool {
		e.Client.CloseIdleConnections() // a new connection may reach the other edge
		r := e.Fetch("GET", e.Admin+"/status")
		name := r.Header.Get("X-Penstock-Process")
		seen[name] = true
		if r.Header.Get("X-Penstock-Processes") != "2" || !strings.Contains(r.Body, `"process": "`+name+`"`) || !strings.Contains(r.Body, `"others_on_admin_port": 1`) {
			t.Fatalf("shared: %q of %q", name, r.Header.Get("X-Penstock-Processes"))
		}
		return len(seen) == 2
	})
	if out, errs, code := rig.RunProgram(t, "", "reload", "--admin", e.Admin); code != 0 || !strings.Contains(out, "warning: 2 processes listen on this admin port") {
		t.Errorf("exit code %d\n%s\n%s", code, out, errs)
	}
	e.Signal(syscall.SIGTERM)
	e.WantExit(rig.WaitTimeout, 0)
	e.ReplaceProcess(next)
	rig.WaitFor(t, rig.WaitTimeout, "the second one has noticed", func() bool {
		return strings.Contains(e.Log.String(), "has the admin port to itself again")
	})
	if r := e.Fetch("GET", e.Admin+"/-/ready"); r.Header.Get("X-Penstock-Processes") != "" || r.Header.Get("X-Penstock-Process") == "" {
		t.Error("the one that is left says that others listen")
	}
}

// serviceManager simulates a service manager. It owns the sockets, and receives the program's
// notifications.
type serviceManager struct {
	t      *testing.T
	files  []*os.File
	notify *net.UnixConn
	path   string
	marks  int // number of marks that waitDelivered has sent
	mu     sync.Mutex
	told   []string
}

func newManager(t *testing.T, names ...string) (m *serviceManager, addrs []string) {
	m = &serviceManager{t: t, path: filepath.Join(t.TempDir(), "notify")}
	for range names {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		noError(t, err)
		f, err := ln.(*net.TCPListener).File()
		noError(t, err)
		ln.Close()
		t.Cleanup(func() { f.Close() })
		m.files, addrs = append(m.files, f), append(addrs, ln.Addr().String())
	}
	var err error
	m.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	noError(t, err)
	t.Cleanup(func() { m.notify.Close() })
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := m.notify.Read(b)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.told = append(m.told, string(b[:n]))
			m.mu.Unlock()
		}
	}()
	return m, addrs
}

// run starts the program as the manager does. LISTEN_PID must be the program's process id, which
// only a shell can set.
func (m *serviceManager) run(names, config string, env ...string) *rig.Process {
	m.t.Helper()
	cmd := exec.Command("sh", "-c", `export LISTEN_PID=$$; exec "$@"`, "sh", rig.ProgramPath(m.t), "serve", "--config", config)
	cmd.Env = append(append(rig.CleanEnv(), "NOTIFY_SOCKET="+m.path, fmt.Sprintf("LISTEN_FDS=%d", len(m.files)), "LISTEN_FDNAMES="+names), env...)
	cmd.ExtraFiles = m.files
	return rig.StartCommand(m.t, cmd)
}

// waitNotified waits until at least atLeast notifications that contain part have been received, and
// returns their number.
func (m *serviceManager) waitNotified(part string, atLeast int) int {
	m.t.Helper()
	n := 0
	rig.WaitFor(m.t, rig.WaitTimeout, fmt.Sprintf("%q is notified %d times", part, atLeast), func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		n = 0
		for _, s := range m.told {
			if strings.Contains(s, part) {
				n++
			}
		}
		return n >= atLeast
	})
	return n
}

func (m *serviceManager) waitDelivered() {
	m.t.Helper()
	m.marks++
	mark := fmt.Sprintf("MARK=%d;", m.marks)
	c, err := net.Dial("unixgram", m.path)
	noError(m.t, err)
	defer c.Close()
	_, err = c.Write([]byte(mark))
	noError(m.t, err)
	m.waitNotified(mark, 1)
}

// TestSocketActivation checks that the program serves on inherited sockets and notifies the manager
// of its state. A restart must not lose any connections, including those opened while no process is
// running.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Engines: []sim.Options{{Slots: 512}}, Untidy: true, Config: `
timeouts: { linger: 0s, drain: 20s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: a, url: "{{up-0}}", engine: sim, concurrency: 512, probe: { timeout: 15s } }]
models: [{ id: sim, deployments: [{ upstream: a }] }]
`})
	e.Signal(syscall.SIGTERM)
	e.WantExit(rig.WaitTimeout, 0)
	m, addrs := newManager(t, "admin", "public")
	e.Admin, e.Addr, e.URL = "http://"+addrs[0], addrs[1], "http://"+addrs[1]
	e.ReplaceProcess(m.run("admin:public", e.Path, "WATCHDOG_USEC=400000"))
	m.waitNotified("READY=1", 1)
	m.waitNotified("WATCHDOG=1", 3)
	e.SendRequest(rig.Chat, "").WantStatus(200)
	if r := e.Fetch("GET", e.Admin+"/-/ready"); r.Status != 200 {
		t.Errorf("the admin socket: %d", r.Status)
	}
	e.rewrite("id: sim,", "id: sim, aliases: [reloaded],")
	if r, status := e.askReload(""); status != 200 {
		t.Errorf("reload = %d %+v, want 200", status, r)
	}
	m.waitNotified("RELOADING=1\nMONOTONIC_USEC=", 1)
	m.waitNotified("READY=1", 2)
	tr := startTraffic(e, defaultMix)
	for range 3 {
		before := m.waitNotified("STOPPING=1", 0)
		e.Signal(syscall.SIGTERM)
		m.waitNotified("STOPPING=1", before+1)
		e.WantExit(30*time.Second, 0)
		m.waitDelivered()
		ready := m.waitNotified("READY=1", 2) // the old process may have reloaded the changed file
		time.Sleep(200 * time.Millisecond)    // clients connect while no process is running
		e.ReplaceProcess(m.run("admin:public", e.Path))
		m.waitNotified("READY=1", ready+1)
		time.Sleep(200 * time.Millisecond)
	}
	tr.wantNothingLost()
	if n := tr.refused.Load(); n > 0 {
		t.Errorf("%d connections were refused", n)
	}
	e.Signal(syscall.SIGTERM)
	e.WantExit(rig.WaitTimeout, 0)
	for _, names := range []string{"admin:admin"} {
		p := m.run(names, e.Path)
		p.WantExit(rig.WaitTimeout, 1)
		if !strings.Contains(p.Err.String(), "FileDescriptorName") {
			t.Errorf("%s: error output = %s, want FileDescriptorName", names, p.Err)
		}
	}
}

// TestFault78_RequestUnderWay checks that a client is served if it is sending its request when the
// signal arrives.
func TestFault78_RequestUnderWay(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	body := rig.Chat.RequestBody("sim", rig.Prompt, `"tokens":1`)
	whole := e.RequestBytes(rig.Chat.Path, body)
	c, fresh := e.Dial(), e.Dial()
	noError(t, c.Send(whole[:len(whole)-20]))
	noError(t, fresh.Send(whole[:10]))
	rig.WaitFor(t, rig.WaitTimeout, "both are there", func() bool { return e.Metric("penstock_client_connections") >= 2 })
	e.Signal(syscall.SIGTERM)
	rig.WaitFor(t, rig.WaitTimeout, "it drains", func() bool { return strings.Contains(e.Log.String(), `"draining"`) })
	time.Sleep(300 * time.Millisecond)
	noError(t, c.Send(whole[len(whole)-20:]))
	noError(t, fresh.Send(whole[10:]))
	for _, conn := range []*rig.RawConn{c, fresh} {
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 || !res.Close {
			t.Errorf("status %d, close %v, %v: %s", res.StatusCode, res.Close, err, b)
		}
	}
	e.WantExit(rig.WaitTimeout, 0)
}
