package faults

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"penstock/proxy/auth"
)

// Rows 75 to 77, 79, 81 and 89: the clock, the log, descriptors, a hard end, two edges, and connections in masses.

// TestFault75_ExpiryByTheWallClock: a key ends at its time in a running program, also in the middle of a connection, and
// a stream that it has begun goes on. (A step of the clock cannot be made here; that limits and delays are measured by the
// monotonic one is what the tests of proxy/limit and upstreams hold, which pass the time in.)
func TestFault75_ExpiryByTheWallClock(t *testing.T) {
	t.Parallel()
	short, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	ends := time.Now().Add(4 * time.Second).UTC()
	e := start(t, setup{keys: `- { id: short, hash: "` + hash + `", expires: ` + ends.Format(time.RFC3339Nano) + ` }`})
	bearer := "Authorization: Bearer " + short
	stream := e.openStream(chatStream.path, chatStream.body("sim", prompt, `"tokens":60,"delay_ms":100`), bearer)
	if time.Now().Before(ends.Add(-time.Second)) {
		e.post(chat.path, e.chat(""), bearer).wantStatus(200)
	}
	waitFor(t, patience, "the key has ended", func() bool { return e.post(chat.path, e.chat(""), bearer).status == 401 })
	if early := time.Until(ends); early > 0 {
		t.Errorf("it ended %v early", early)
	}
	e.post(chat.path, e.chat(""), bearer).wantRefused(chat, refusal{401, "authentication_error", "invalid_api_key", ""})
	events := 0
	for ev, ok := stream.next(); ok; ev, ok = stream.next() {
		events++
		if isError(ev) {
			t.Errorf("the stream of a key that has ended was ended: %v", ev)
		}
	}
	if events < 50 {
		t.Errorf("%d events", events)
	}
}

// TestFault76_LogIsFull: a log that takes nothing, or whose reader has died, or that hangs, costs lines and no request; and
// it does not keep the program from ending.
func TestFault76_LogIsFull(t *testing.T) {
	t.Parallel()
	serveAll := func(e *edge) {
		for _, w := range allWays {
			e.ask(w, "").text(w)
		}
	}
	t.Run("disk full", func(t *testing.T) {
		t.Parallel()
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		e := start(t, setup{stderr: full})
		serveAll(e)
		waitFor(t, patience, "the lost lines are counted", func() bool { return e.metric("penstock_log_dropped_total") >= 6 })
	})
	t.Run("reader has died", func(t *testing.T) {
		t.Parallel()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		e := start(t, setup{stderr: w})
		serveAll(e)
		r.Close()
		w.Close()
		serveAll(e)
		waitFor(t, patience, "the lost lines are counted", func() bool { return e.metric("penstock_log_dropped_total") >= 6 })
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
		e := start(t, setup{stderr: w})
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for range 1500 { // some 3 MB of lines, the buffer's share and the pipe's included
					if r := e.ask(chat, `"tokens":1`); r.status != 200 {
						t.Errorf("status %d", r.status)
						return
					}
				}
			})
		}
		clients.Wait()
		if n := e.metric("penstock_log_dropped_total"); n == 0 {
			t.Error("no line was dropped, or it was not counted")
		}
	})
}

// TestFault77_OutOfDescriptors: with few descriptors the program takes fewer clients, so that those inside are served and
// their engines reached; it neither spins nor dies, and says so at the start.
func TestFault77_OutOfDescriptors(t *testing.T) {
	t.Parallel()
	e := start(t, setup{under: []string{"sh", "-c", `ulimit -n 80; exec "$@"`, "sh"}})
	if !strings.Contains(e.log.String(), "raise the process's limit on open files") {
		t.Errorf("it does not say that it takes fewer clients:\n%s", e.log)
	}
	s := e.openStream(chatStream.path, chatStream.body("sim", prompt, `"tokens":40,"delay_ms":50`))
	var crowd []net.Conn
	for range 150 {
		c, err := net.DialTimeout("tcp", e.addr, patience)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		crowd = append(crowd, c)
	}
	turnedAway := 0
	for _, c := range crowd {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		buf := make([]byte, 1024)
		n, err := c.Read(buf)
		switch text := string(buf[:n]); {
		case strings.HasPrefix(text, "HTTP/1.1 503 ") && strings.Contains(text, "Retry-After: "), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
			turnedAway++
		case n > 0:
			t.Errorf("%q", text)
		}
	}
	if turnedAway < 100 {
		t.Errorf("%d of 150 were turned away", turnedAway)
	}
	if n := e.descriptors(); n >= 80 {
		t.Errorf("%d descriptors", n)
	}
	// One that is inside is served, whatever is going on outside.
	inside := crowd[0]
	_ = inside.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(inside, e.request(chat.path, e.chat(""))); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 12)
	if _, err := io.ReadFull(inside, answer); err != nil || string(answer) != "HTTP/1.1 200" {
		t.Errorf("a client inside gets %q, %v", answer, err)
	}
	used := e.processorTime()
	time.Sleep(500 * time.Millisecond) // what it would spin in
	if used = e.processorTime() - used; used > 300*time.Millisecond {
		t.Errorf("it worked for %v of half a second", used)
	}
	events := 0
	for _, ok := s.next(); ok; _, ok = s.next() {
		events++
	}
	if events < 40 {
		t.Errorf("the stream that was there has %d events", events)
	}
	for _, c := range crowd {
		c.Close()
	}
	waitFor(t, patience, "there is room again", func() bool {
		r, err := e.dial().orStatus(e.request(chat.path, e.chat("")))
		return err == nil && r == 200
	})
	for _, u := range e.status().Upstreams {
		if u.LastFailure != nil {
			t.Errorf("the engine is blamed for it: %+v", u.LastFailure)
		}
	}
}

// orStatus sends a request and returns the answer's status.
func (c *raw) orStatus(text string) (int, error) {
	defer c.Close()
	if err := c.send(text); err != nil {
		return 0, err
	}
	r, err := c.tryReply("POST")
	if err != nil {
		return 0, err
	}
	return r.status, nil
}

// TestFault79_KilledAndRestarted: after a kill -9 the next start serves its first request, without waiting for a probe and
// on the same port, and nothing of the one before is in the way.
func TestFault79_KilledAndRestarted(t *testing.T) {
	t.Parallel()
	e := start(t, setup{untidy: true})
	s := e.openStream(chatStream.path, chatStream.body("sim", prompt, `"tokens":1000,"delay_ms":50`))
	s.next()
	e.signal(syscall.SIGKILL)
	<-e.done
	waitFor(t, patience, "the engine is free", func() bool { return e.engines[0].Stats().Running == 0 })
	e.setup.cold = true // no waiting for probes
	begun := time.Now()
	e.relaunch()
	e.ask(chat, "").wantStatus(200)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the first answer came after %v", took)
	}
	for _, w := range allWays {
		e.ask(w, "").text(w)
	}
	left, err := filepath.Glob(filepath.Join(e.dir, "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("files beside the configuration: %v, %v", left, err)
	}
	e.setup.untidy = false
}

// TestFault81_TwoEdges: limits are each edge's own; two in front of one engine admit twice as much, and the engine's word
// counts: its 429 is passed on as one.
func TestFault81_TwoEdges(t *testing.T) {
	t.Parallel()
	e := start(t, setup{upstream: "concurrency: 2"})
	other := start(t, setup{fakes: []string{e.engines[0].URL()}, upstream: "concurrency: 2"})
	var streams []*stream
	for _, edge := range []*edge{e, other} {
		for range 2 {
			s := edge.openStream(chatStream.path, chatStream.body("sim", prompt, `"tokens":1000,"delay_ms":50`))
			s.next()
			streams = append(streams, s)
		}
		edge.ask(chat, "").wantRefused(chat, capacityFull)
	}
	if n := e.engines[0].Stats().Running; n != 4 {
		t.Errorf("%d at the engine, want 4", n)
	}
	for _, s := range streams {
		s.leave()
	}
}

// TestFault89_TooManyConnections: the one beyond the bound is told so, those inside are served, and a place that is left is
// taken again.
func TestFault89_TooManyConnections(t *testing.T) {
	t.Parallel()
	e := start(t, setup{limits: "connections: 50", timeouts: "client_header: 30s"})
	var inside []*raw
	waitFor(t, patience, "all places are taken", func() bool {
		inside = append(inside, e.dial())
		return e.metric("penstock_client_connections_rejected_total") > 0
	})
	for range 5 {
		c := e.dial()
		_ = c.send(e.request(chat.path, e.chat("")))
		r := c.reply("POST")
		if r.status != 503 || r.header.Get("Retry-After") != "1" || !strings.Contains(r.body, `"code":"too_many_connections"`) {
			t.Errorf("%d %v %s", r.status, r.header, r.body)
		}
		if id := r.header.Get("X-Request-Id"); !strings.HasPrefix(id, "req_") || len(id) != 30 || r.header.Get("Request-Id") != id {
			t.Errorf("the request ids are %v", r.header)
		}
		if rest, ok := c.closed(patience); !ok || rest != "" {
			t.Errorf("not closed, or more came: %q", rest)
		}
	}
	_ = inside[0].send(e.request(chat.path, e.chat("")))
	inside[0].reply("POST").wantStatus(200)
	for _, c := range inside {
		c.Close()
	}
	waitFor(t, patience, "there is room again", func() bool {
		status, err := e.dial().orStatus(e.request(chat.path, e.chat("")))
		return err == nil && status == 200
	})
}

// TestFault89_ConnectionsByTheThousand: a flood of connections that come and go, and thousands that sit there, are not
// noticed by others, and cost little.
func TestFault89_ConnectionsByTheThousand(t *testing.T) {
	t.Parallel()
	e := start(t, setup{timeouts: "client_header: 60s"})
	e.ask(chat, "").wantStatus(200)
	before := e.memory("VmRSS")
	idle := 3000
	for range idle {
		c, err := net.Dial("tcp", e.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	waitFor(t, patience, "all are in", func() bool { return e.metric("penstock_client_connections") >= float64(idle) })
	if each := (e.memory("VmRSS") - before) / int64(idle); each > 16<<10 && !raceOn {
		t.Errorf("an idle connection costs %d bytes", each)
	}
	var flood sync.WaitGroup
	for range 4 {
		flood.Go(func() {
			for range 1000 {
				c, err := net.Dial("tcp", e.addr)
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.(*net.TCPConn).SetLinger(0)
				c.Close()
			}
		})
	}
	for _, w := range allWays {
		if r := e.ask(w, "").wantStatus(200); r.took > 2*time.Second {
			t.Errorf("a good client waited %v", r.took)
		}
	}
	flood.Wait()
}

// processorTime is what the program has worked so far.
func (e *edge) processorTime() time.Duration {
	e.t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(e.cmd.Process.Pid) + "/stat")
	if err != nil {
		e.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // behind the name, which may hold anything
	fields := strings.Fields(rest)
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err := errors.Join(err1, err2); err != nil {
		e.t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}
