//go:build unix

package fleet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config"
)

type realStore struct {
	t    testing.TB
	args []string
	port string
	cmd  *exec.Cmd

	output bytes.Buffer  // output of the program; must not be read before ended is closed
	ended  chan struct{} // closed when cmd exits
}

func newRealStore(t testing.TB, args ...string) *realStore {
	t.Helper()
	return newRealProgram(t, func(port string) []string {
		return append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir(), "--loglevel", "warning"}, args...)
	})
}

// newRealProgram starts redis-server with the arguments that args returns for a free port. If
// redis-server is not installed, the test is skipped, except in CI.
func newRealProgram(t testing.TB, args func(port string) []string) *realStore {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	switch {
	case err != nil && os.Getenv("CI") != "":
		t.Fatal("CI needs redis-server")
	case err != nil:
		t.Skip("SKIPPED: there is no redis-server on this machine; apt-get install redis-server")
	}
	s := &realStore{t: t}
	for range 5 {
		s.port = freePort(t)
		s.args = append([]string{path}, args(s.port)...)
		if s.startListening() {
			t.Cleanup(s.kill)
			return s
		}
		t.Logf("port %s is somebody else's by now: %s", s.port, s.output.String())
	}
	t.Fatal("redis-server does not listen at any of five ports")
	return nil
}

func (s *realStore) address() string { return "127.0.0.1:" + s.port }

func (s *realStore) start() {
	s.t.Helper()
	if !s.startListening() {
		s.t.Fatalf("redis-server does not listen: %s", s.output.String())
	}
}

// startListening starts the program, and reports whether it listens. The program exits if its port
// or the port of its cluster bus is in use.
func (s *realStore) startListening() bool {
	s.t.Helper()
	s.output.Reset()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	s.cmd.Stdout = &s.output
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = s.cmd.Wait()
		close(ended)
	}()
	s.ended = ended
	for late := time.After(20 * time.Second); ; {
		if c, err := net.Dial("tcp", s.address()); err == nil {
			c.Close()
			return true
		}
		select {
		case <-ended:
			return false
		case <-late:
			s.kill()
			return false
		case <-time.After(25 * time.Millisecond):
		}
	}
}

func (s *realStore) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

func (s *realStore) kill() {
	_ = s.cmd.Process.Signal(syscall.SIGCONT)
	_ = s.cmd.Process.Kill()
	<-s.ended
}

func (s *realStore) command(words ...string) string {
	s.t.Helper()
	c, err := net.Dial("tcp", s.address())
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "%s\r\n", strings.Join(words, " "))
	answer := make([]byte, 4096)
	n, err := c.Read(answer)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(answer[:n])
}

// realEdges are the edges of a fleet with one key, under load.
type realEdges struct {
	edges    []*Fleet
	keys     []*keyAccount
	admitted atomic.Int64
	refused  atomic.Int64
	longest  atomic.Int64 // nanoseconds; the longest time that a call has waited for a decision
}

// generousTimeout is so long that every answer arrives in time even on a busy machine. An edge that
// stopped waiting would use its share in addition to what the other edges use.
const generousTimeout = 300 * time.Millisecond

func newRealEdges(t *testing.T, n int, s StoreOptions) *realEdges {
	t.Helper()
	all := &realEdges{}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	s.Prefix = "ps"
	for i := range n {
		o := Options{Store: s}
		o.Edges, o.WhenLost, o.Timeout = n, config.StoreLostDivide, generousTimeout
		o.Log, o.Metrics, o.Self = zap.NewNop(), metrics.NewSet(), func() Member { return Member{Name: fmt.Sprint("edge-", i)} }
		f := New(o)
		running.Go(func() { f.RunHeartbeats(ctx) })
		running.Go(func() { f.RunReports(ctx) })
		all.edges, all.keys = append(all.edges, f), append(all.keys, newAccount(&f.edgeState, "k:a"))
	}
	t.Cleanup(func() {
		stop()
		running.Wait()
		for _, f := range all.edges {
			f.Close()
		}
	})
	all.wait(t, "every edge knows all", func(f *Fleet) bool { return f.Available() && len(f.Members()) == n })
	return all
}

func (a *realEdges) wait(t *testing.T, what string, holds func(*Fleet) bool) {
	t.Helper()
	waitUntil(t, what, func() bool {
		return !slices.ContainsFunc(a.edges, func(f *Fleet) bool { return !holds(f) })
	})
}

func (a *realEdges) load(limits config.KeyLimits, pause, d time.Duration) {
	var callers sync.WaitGroup
	for _, key := range a.keys {
		for range 4 {
			callers.Go(func() {
				for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(pause) {
					began := time.Now()
					if key.TakeRequest(limits, began).OK {
						a.admitted.Add(1)
					} else {
						a.refused.Add(1)
					}
					a.longest.Store(max(a.longest.Load(), int64(time.Since(began))))
				}
			})
		}
	}
	callers.Wait()
}

// TestRealStore checks that the fleet does not exceed its limit with a real store, even if the
// store's scripts are flushed, its clients are killed, and it is restarted without data.
func TestRealStore(t *testing.T) {
	t.Parallel()
	acl := filepath.Join(t.TempDir(), "acl")
	rights := "user default on nopass ~* +@all\nuser penstock on >secret ~ps:* &ps:* " + storePermissions + "\n"
	if err := os.WriteFile(acl, []byte(rights), 0o600); err != nil {
		t.Fatal(err)
	}
	store := newRealStore(t, "--aclfile", acl)
	fleet := newRealEdges(t, 4, StoreOptions{Addresses: []string{store.address()}, User: "penstock", Password: "secret"})
	limits := config.KeyLimits{RequestsPerMinute: 600}
	began := time.Now()
	most := func(share float64) int64 { // one edge's limit since began, plus this fraction of a minute's limit
		return int64(600 + time.Since(began).Seconds()*10 + share*600)
	}
	step := func(what string, share float64) {
		t.Helper()
		fleet.load(limits, 2*time.Millisecond, time.Second)
		t.Logf("%s: %d of %d", what, fleet.admitted.Load(), most(0))
		if n := fleet.admitted.Load(); n > most(share) {
			t.Errorf("%s: %d requests, at most %d", what, n, most(share))
		}
	}
	step("at rest", 0)
	if n := fleet.admitted.Load(); n < 600 {
		t.Errorf("%d requests of the first 600", n)
	}
	store.command("SCRIPT FLUSH")
	step("scripts flushed", 0)
	store.command("CLIENT KILL TYPE normal")
	step("clients killed", 0.01)
	fleet.wait(t, "the store is reached again", (*Fleet).Available)
	store.signal(syscall.SIGSTOP)
	step("stopped", 0.01)
	step("stopped for long", 0.01)
	fleet.wait(t, "the store is found lost", func(f *Fleet) bool { return !f.Available() })
	store.signal(syscall.SIGCONT)
	fleet.wait(t, "the store is back", (*Fleet).Available)
	step("back", 0.01)
	store.command("FLUSHALL")
	step("flushed", 0.03)
	store.kill()
	step("killed", 0.04)
	store.start()
	fleet.wait(t, "the store is back, empty", (*Fleet).Available)
	step("started again", 0.06)
	if worst := time.Duration(fleet.longest.Load()); worst > 2*time.Second {
		t.Errorf("a call waited %s", worst)
	}
	t.Logf("%d admitted of at most %d, %d refused; longest wait %s", fleet.admitted.Load(), most(0), fleet.refused.Load(), time.Duration(fleet.longest.Load()))
}

// TestRealStoreRefuses checks that the edge recognizes a real store's errors in three cases: a
// missing permission for a command, a missing permission within a script, and a key written by
// another program.
func TestRealStoreRefuses(t *testing.T) {
	t.Parallel()
	store := newRealStore(t)
	r := newRemoteStore(StoreOptions{Addresses: []string{store.address()}, Prefix: "ps"})
	defer r.Close()
	for deadline := time.Now().Add(20 * time.Second); beat(t, r) != nil; {
		if time.Now().After(deadline) {
			t.Fatal("the store is not reached")
		}
	}
	for _, test := range []struct{ before, want string }{
		{"SET ps:{a} text", "WRONGTYPE"},
		{"ACL SETUSER default -hset", "NOPERM"},
		{"ACL SETUSER default -evalsha -eval", "NOPERM"},
		{"ACL SETUSER default +evalsha +eval resetkeys ~other:*", "NOPERM"},
	} {
		store.command(test.before)
		_, err := r.Exchange(t.Context(), "a", &accountMessage{edge: "one", number: 1})
		if got := refusalCode(err); got != test.want || !r.Available() {
			t.Errorf("%s: %q, want %q; available: %v; %v", test.before, got, test.want, r.Available(), err)
		}
		if test.want == "WRONGTYPE" {
			store.command("DEL ps:{a}")
		}
	}
}

// TestRealStoreTakesNothing checks that a store that rejects all messages counts as lost
// immediately, and that the log names the remedy.
func TestRealStoreTakesNothing(t *testing.T) {
	t.Parallel()
	store := newRealStore(t)
	core, logs := observer.New(zap.WarnLevel)
	f := New(Options{
		Store: StoreOptions{Addresses: []string{store.address()}, Prefix: "ps"}, Timeout: generousTimeout, WhenLost: config.StoreLostDivide,
		Log: zap.New(core), Metrics: metrics.NewSet(), Self: func() Member { return Member{} },
	})
	defer f.Close()
	answers := func() bool { f.sendHeartbeat(t.Context()); return f.Available() && f.State().StoreProblem() == "" }
	waitUntil(t, "the store is reached", answers)
	for _, test := range []struct{ before, after, remedy string }{
		{"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "raise its maxmemory"},
		{"CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "min-replicas-to-write"},
		{"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "name the primary"},
		{"CONFIG SET replica-serve-stale-data no\r\nREPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "name the primary"},
	} {
		logs.TakeAll()
		store.command(test.before)
		waitUntil(t, "the store is lost", func() bool { f.sendHeartbeat(t.Context()); return !f.Available() })
		told := logs.TakeAll()
		if len(told) != 1 || !strings.Contains(fmt.Sprint(told[0].ContextMap()["remedy"]), test.remedy) || !f.State().StoreRefuses {
			t.Errorf("after %s: log lines %+v, want one whose remedy has %q", test.before, told, test.remedy)
		}
		store.command(test.after)
		waitUntil(t, "the store is back", answers)
	}
}

// movingAddress forwards new connections to the current store. Existing connections stay with their
// store, as with a load balancer or a virtual address.
type movingAddress struct {
	listener net.Listener
	to       atomic.Pointer[string]
	running  sync.WaitGroup
}

func newMovingAddress(t *testing.T, to string) *movingAddress {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &movingAddress{listener: l}
	m.to.Store(&to)
	m.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			m.running.Go(func() { m.carry(c) })
		}
	})
	t.Cleanup(m.running.Wait) // runs after the client has been closed
	t.Cleanup(func() { l.Close() })
	return m
}

func (m *movingAddress) carry(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", *m.to.Load())
	if err != nil {
		return
	}
	defer to.Close()
	m.running.Go(func() {
		_, _ = io.Copy(to, from)
		to.Close()
	})
	_, _ = io.Copy(from, to)
}

// TestRealStoreFailsOver checks a failover behind a single address. The old primary becomes a
// replica and keeps its connections. The edges must then share limits through the new primary, and
// must not use a replica as their store even if it accepts writes.
func TestRealStoreFailsOver(t *testing.T) {
	t.Parallel()
	old, next := newRealStore(t, "--repl-diskless-sync-delay", "0"), newRealStore(t, "--repl-diskless-sync-delay", "0")
	follow := func(replica, primary *realStore) {
		replica.command("REPLICAOF 127.0.0.1 " + primary.port)
		waitUntil(t, "the replica has a copy", func() bool {
			time.Sleep(25 * time.Millisecond)
			return strings.Contains(replica.command("INFO replication"), "master_link_status:up")
		})
	}
	follow(next, old)
	address := newMovingAddress(t, old.address())
	core, logs := observer.New(zap.WarnLevel)
	f := New(Options{
		Store: StoreOptions{Addresses: []string{address.listener.Addr().String()}, Prefix: "ps"}, Timeout: generousTimeout, WhenLost: config.StoreLostDivide,
		Edges: 1, Log: zap.New(core), Metrics: metrics.NewSet(), Self: func() Member { return Member{} },
	})
	defer f.Close()
	answers := func() bool { f.sendHeartbeat(t.Context()); return f.Available() && f.State().StoreProblem() == "" }
	waitUntil(t, "the store is reached", answers)
	limits := config.KeyLimits{RequestsPerMinute: 60}
	key := newAccount(&f.edgeState, "k:a")
	if !key.TakeRequest(limits, time.Now()).OK {
		t.Fatal("a call is refused")
	}
	logs.TakeAll()

	next.command("REPLICAOF NO ONE")
	follow(old, next)
	waitUntil(t, "the store is lost", func() bool { f.sendHeartbeat(t.Context()); return !f.Available() })
	old.command("CONFIG SET replica-read-only no")
	for range 4 * initialRedialFailures { // the address still points to the old primary
		f.sendHeartbeat(t.Context())
	}
	if f.Available() || !f.State().StoreRefuses {
		t.Errorf("the store is a replica, and is said to be %+v", f.State())
	}
	if told := logs.TakeAll(); len(told) != 1 || !strings.Contains(fmt.Sprint(told[0].ContextMap()["remedy"]), "replica") {
		t.Errorf("log lines %+v, want one whose remedy names the replica", told)
	}
	to := next.address()
	address.to.Store(&to)
	waitUntil(t, "the store is found behind its address", answers)
	if !key.TakeRequest(limits, time.Now()).OK || !strings.Contains(next.command("HGETALL ps:{k:a}"), "e:"+f.edgeState.edgeID) {
		t.Errorf("the new primary has no account: %q", next.command("HGETALL ps:{k:a}"))
	}
}
