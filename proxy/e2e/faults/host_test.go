package faults

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/config/testkit/raced"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// These tests cover rows 75 to 77, 79, 81 and 89: the clock, the log, descriptors, kills, two edges
// in front of one engine, and thousands of connections.

// TestFault75_ExpiryByTheWallClock checks that a key expires on time, even on an open connection,
// and that its running stream continues. (Tests in packages limit and upstreams check that limits
// and delays use the monotonic clock.)
func TestFault75_ExpiryByTheWallClock(t *testing.T) {
	t.Parallel()
	short, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	e := start(t, rig.Setup{})
	ends := time.Now().Add(10 * time.Second).UTC() // measured from now, because the program may start slowly
	e.rewrite("\nkeys:\n", "\nkeys:\n  - { id: short, hash: \""+hash+"\", expires: "+ends.Format(time.RFC3339Nano)+" }\n")
	if status, body := e.Reload(); status != 200 {
		t.Fatalf("reload = %d %s, want 200", status, body)
	}
	bearer := "Authorization: Bearer " + short
	stream := e.OpenStream(rig.ChatStream.Path, rig.ChatStream.RequestBody("sim", rig.Prompt, `"tokens":150,"delay_ms":100`), bearer)
	if time.Now().Before(ends.Add(-time.Second)) {
		e.Post(rig.Chat.Path, e.ChatRequest(""), bearer).WantStatus(200)
	}
	rig.WaitFor(t, 10*time.Second+rig.WaitTimeout, "the key has ended", func() bool { return e.Post(rig.Chat.Path, e.ChatRequest(""), bearer).Status == 401 })
	if early := time.Until(ends); early > 0 {
		t.Errorf("it ended %v early", early)
	}
	e.Post(rig.Chat.Path, e.ChatRequest(""), bearer).WantRefused(rig.Chat, rig.Refusal{Status: 401, Kind: "authentication_error", Code: "invalid_api_key", After: ""})
	events := 0
	for ev, ok := stream.Next(); ok; ev, ok = stream.Next() {
		events++
		if rig.IsErrorEvent(ev) {
			t.Errorf("the stream of a key that has ended was ended: %v", ev)
		}
	}
	if events < 120 {
		t.Errorf("%d events", events)
	}
}

// TestFault76_LogIsFull checks that a full, blocked or closed log loses lines, but does not affect
// requests or the exit of the program.
func TestFault76_LogIsFull(t *testing.T) {
	t.Parallel()
	serveAll := func(e *edge) {
		for _, w := range rig.TextRequestTypes {
			e.SendRequest(w, "").VisibleText(w)
		}
	}
	t.Run("disk full", func(t *testing.T) {
		t.Parallel()
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		e := start(t, rig.Setup{Stderr: full})
		serveAll(e)
		rig.WaitFor(t, rig.WaitTimeout, "the lost lines are counted", func() bool { return e.Metric("penstock_log_dropped_total") >= 6 })
	})
	t.Run("reader has died", func(t *testing.T) {
		t.Parallel()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		e := start(t, rig.Setup{Stderr: w})
		serveAll(e)
		r.Close()
		w.Close()
		serveAll(e)
		rig.WaitFor(t, rig.WaitTimeout, "the lost lines are counted", func() bool { return e.Metric("penstock_log_dropped_total") >= 6 })
		serveAll(e)
	})
	t.Run("reader hangs", func(t *testing.T) {
		t.Parallel()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		e := start(t, rig.Setup{Stderr: w})
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for range 1500 { // about 3 MB of lines, more than fits into the buffer and the pipe
					if r := e.SendRequest(rig.Chat, `"tokens":1`); r.Status != 200 {
						t.Errorf("status = %d, want 200", r.Status)
						return
					}
				}
			})
		}
		clients.Wait()
		if n := e.Metric("penstock_log_dropped_total"); n == 0 {
			t.Error("no line was dropped, or it was not counted")
		}
	})
}

// TestFault77_OutOfDescriptors checks that a program with few descriptors accepts only as many
// clients as it can serve, because connections to engines also need descriptors. It must log this
// limit when it starts.
func TestFault77_OutOfDescriptors(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Under: []string{"sh", "-c", `ulimit -n 80; exec "$@"`, "sh"}})
	rig.WaitFor(t, rig.WaitTimeout, "the log says that it takes fewer clients", func() bool {
		return strings.Contains(e.Log.String(), "raise the process's limit on open files")
	})
	s := e.OpenStream(rig.ChatStream.Path, rig.ChatStream.RequestBody("sim", rig.Prompt, `"tokens":40,"delay_ms":50`))
	var crowd []net.Conn
	for range 150 {
		c, err := net.DialTimeout("tcp", e.Addr, rig.WaitTimeout)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		crowd = append(crowd, c)
	}
	pending := slices.Clone(crowd) // clients that have received neither an answer nor a close
	rig.WaitFor(t, rig.WaitTimeout, "100 of 150 are turned away", func() bool {
		pending = slices.DeleteFunc(pending, func(c net.Conn) bool {
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
			buf := make([]byte, 1024)
			n, err := c.Read(buf)
			switch text := string(buf[:n]); {
			case strings.HasPrefix(text, "HTTP/1.1 503 ") && strings.Contains(text, "Retry-After: "), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
				return true
			case n > 0:
				t.Errorf("%q", text)
			}
			return false
		})
		return len(pending) <= 50
	})
	if n := e.DescriptorCount(); n >= 80 {
		t.Errorf("%d descriptors, want fewer than 80", n)
	}
	// An accepted client is served. A waiting client may replace a client that has not sent
	// anything yet, so the served client may be a later one.
	served := slices.IndexFunc(pending, func(c net.Conn) bool {
		_ = c.SetDeadline(time.Now().Add(rig.WaitTimeout))
		_, _ = io.WriteString(c, e.RequestBytes(rig.Chat.Path, e.ChatRequest("")))
		answer := make([]byte, len("HTTP/1.1 200"))
		_, err := io.ReadFull(c, answer)
		return err == nil && string(answer) == "HTTP/1.1 200"
	})
	if served < 0 {
		t.Errorf("none of %d clients inside is served", len(pending))
	}
	used, looked := e.CPUTime(), time.Now()
	time.Sleep(500 * time.Millisecond) // long enough to reveal whether the edge is in a busy loop
	if used = e.CPUTime() - used; used > time.Since(looked)*3/5 {
		t.Errorf("it worked for %v of %v", used, time.Since(looked))
	}
	events := 0
	for _, ok := s.Next(); ok; _, ok = s.Next() {
		events++
	}
	if events < 40 {
		t.Errorf("the stream that was there has %d events", events)
	}
	for _, c := range crowd {
		c.Close()
	}
	rig.WaitFor(t, rig.WaitTimeout, "there is room again", func() bool {
		r, err := sendForStatus(e.Dial(), e.RequestBytes(rig.Chat.Path, e.ChatRequest("")))
		return err == nil && r == 200
	})
	for _, u := range e.Status().Upstreams {
		if u.LastFailure != nil {
			t.Errorf("the engine is blamed for it: %+v", u.LastFailure)
		}
	}
}

func sendForStatus(c *rig.RawConn, text string) (int, error) {
	defer c.Close()
	if err := c.Send(text); err != nil {
		return 0, err
	}
	r, err := c.TryReadReply("POST")
	if err != nil {
		return 0, err
	}
	return r.Status, nil
}

// TestFault79_KilledAndRestarted checks that, after a kill -9, the next start serves its first
// request on the same port without waiting for a probe.
func TestFault79_KilledAndRestarted(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Untidy: true})
	s := e.OpenStream(rig.ChatStream.Path, rig.ChatStream.RequestBody("sim", rig.Prompt, `"tokens":1000,"delay_ms":50`))
	s.Next()
	e.Signal(syscall.SIGKILL)
	<-e.Done
	rig.WaitFor(t, rig.WaitTimeout, "the engine is free", func() bool { return e.Engines[0].Stats().Running == 0 })
	e.Setup.Cold = true // do not wait for probes
	begun := rig.StartWatch()
	e.Restart()
	e.SendRequest(rig.Chat, "").WantStatus(200)
	if took := begun.Elapsed(); took > 5*time.Second+rig.TimingTolerance+begun.MachineDelay() {
		t.Errorf("the first answer came after %v", took)
	}
	for _, w := range rig.TextRequestTypes {
		e.SendRequest(w, "").VisibleText(w)
	}
	left, err := filepath.Glob(filepath.Join(e.Dir, "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("files beside the configuration: %v, %v", left, err)
	}
	e.Setup.Untidy = false
}

// TestFault81_TwoEdges checks that edges do not share limits, so that two edges in front of one
// engine admit twice as many calls. The engine's 429 must be passed on.
func TestFault81_TwoEdges(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Upstream: "concurrency: 2"})
	other := start(t, rig.Setup{Fakes: []string{e.Engines[0].URL()}, Upstream: "concurrency: 2"})
	var streams []*rig.Stream
	for _, edge := range []*edge{e, other} {
		for range 2 {
			s := edge.OpenStream(rig.ChatStream.Path, rig.ChatStream.RequestBody("sim", rig.Prompt, `"tokens":1000,"delay_ms":50`))
			s.Next()
			streams = append(streams, s)
		}
		edge.SendRequest(rig.Chat, "").WantRefused(rig.Chat, rig.RefusalCapacityFull)
	}
	if n := e.Engines[0].Stats().Running; n != 4 {
		t.Errorf("%d at the engine, want 4", n)
	}
	for _, s := range streams {
		s.Disconnect()
	}
}

// fill opens n streams, each on a separate connection. A connection with a running request is never
// closed to make room.
func (e *edge) fill(n int) (inside []*rig.Stream) {
	e.T.Helper()
	e.Client.CloseIdleConnections()
	for range n {
		s := e.OpenStream(rig.ChatStream.Path, rig.ChatStream.RequestBody("sim", rig.Prompt, `"tokens":100000,"delay_ms":200`))
		s.Next()
		inside = append(inside, s)
	}
	return inside
}

// TestFault89_TooManyConnections checks that a connection that exceeds the limit receives an error,
// and that a closed connection makes room for another.
func TestFault89_TooManyConnections(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Limits: "connections: 50", Upstream: "concurrency: 64", Engines: []sim.Options{{Slots: 64}}})
	inside := e.fill(50)
	for range 5 {
		c := e.Dial()
		_ = c.Send(e.RequestBytes(rig.Chat.Path, e.ChatRequest("")))
		r := c.ReadReply("POST")
		if r.Status != 503 || r.Header.Get("Retry-After") != "1" || !strings.Contains(r.Body, `"code":"too_many_connections"`) {
			t.Errorf("answer = %d %v %s, want 503 too_many_connections with Retry-After: 1", r.Status, r.Header, r.Body)
		}
		if id := r.Header.Get("X-Request-Id"); !strings.HasPrefix(id, "req_") || len(id) != 30 || r.Header.Get("Request-Id") != id {
			t.Errorf("the request ids are %v", r.Header)
		}
		if rest, ok := c.WaitClosed(rig.WaitTimeout); !ok || rest != "" {
			t.Errorf("not closed, or more came: %q", rest)
		}
	}
	inside[0].Next()
	for _, s := range inside {
		s.Disconnect()
	}
	rig.WaitFor(t, rig.WaitTimeout, "there is room again", func() bool {
		status, err := sendForStatus(e.Dial(), e.RequestBytes(rig.Chat.Path, e.ChatRequest("")))
		return err == nil && status == 200
	})
}

// TestFault89_ConnectionsByTheThousand checks that a flood of short connections, and thousands of
// idle connections, do not affect other clients.
func TestFault89_ConnectionsByTheThousand(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Timeouts: "client_header: 10m"})
	e.SendRequest(rig.Chat, "").WantStatus(200)
	before := e.MemoryBytes("VmRSS")
	idle := 3000
	for range idle {
		c, err := net.Dial("tcp", e.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	rig.WaitFor(t, rig.WaitTimeout, "all are in", func() bool { return e.Metric("penstock_client_connections") >= float64(idle) })
	if each := (e.MemoryBytes("VmRSS") - before) / int64(idle); each > 16<<10 && !raced.Enabled {
		t.Errorf("an idle connection costs %d bytes", each)
	}
	var flood sync.WaitGroup
	for range 4 {
		flood.Go(func() {
			for range 1000 {
				c, err := net.Dial("tcp", e.Addr)
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.(*net.TCPConn).SetLinger(0)
				c.Close()
			}
		})
	}
	for _, w := range rig.TextRequestTypes {
		e.SendRequest(w, "").WantStatus(200).WantWithin(2 * time.Second)
	}
	flood.Wait()
}

// TestFault77_IdleAtTheAdminPort checks connections to the admin port that send nothing, or only
// part of a head. They must not affect clients, engines or the operator.
func TestFault77_IdleAtTheAdminPort(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"", "GET /-/ready HTTP/1.1\r\n"} {
		t.Run(strconv.Quote(said), func(t *testing.T) {
			t.Parallel()
			e := start(t, rig.Setup{Under: []string{"sh", "-c", `ulimit -n 100; exec "$@"`, "sh"}})
			address := strings.TrimPrefix(e.Admin, "http://")
			for range 200 {
				c, err := net.DialTimeout("tcp", address, rig.WaitTimeout)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				_, _ = io.WriteString(c, said) // the edge may already have closed the connection
			}
			if n := e.DescriptorCount(); n >= 90 {
				t.Errorf("%d descriptors, want fewer than 90", n)
			}
			// The edge does not close a connection with unread bytes, which may be a request. There
			// may therefore briefly be no connection that it can close.
			rig.WaitFor(t, rig.WaitTimeout, "the operator gets in", func() bool { return e.Fetch("GET", e.Admin+"/-/ready").Status == 200 })
			for range 5 { // each call needs a client connection and a connection to the engine
				if status, err := sendForStatus(e.Dial(), e.RequestBytes(rig.Chat.Path, e.ChatRequest(""))); err != nil || status != 200 {
					t.Errorf("a client gets %d, %v", status, err)
				}
			}
			if n := e.Metric("penstock_accept_errors_total"); n != 0 {
				t.Errorf("%v errors of accepting", n)
			}
			if n := e.Metric("penstock_admin_connections_dropped_total"); n == 0 {
				t.Error("none was dropped, or it was not counted")
			}
		})
	}
}
