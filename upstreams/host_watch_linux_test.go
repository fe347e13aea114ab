package upstreams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"penstock/config"
)

// busyEngine is an engine with running calls: half of them wait for the head of the reply, half for
// more of a body.
type busyEngine struct {
	up    *Upstream
	conns []*net.TCPConn // the engine's side of the calls
	end   func()         // makes the engine end every reply
	lost  chan error     // of every call: its failure, or nil when its reply was whole

	listener *net.TCPListener
}

const busyCalls = 8

func occupy(t *testing.T) *busyEngine {
	t.Helper()
	ending := make(chan bool)
	w := &busyEngine{end: sync.OnceFunc(func() { close(ending) }), lost: make(chan error, busyCalls)}
	var mu sync.Mutex
	begun := make(chan bool, busyCalls)
	s := serveRaw(t, func(p *peer) {
		for {
			r, _, ok := p.request()
			switch {
			case !ok:
				return
			case r.Method == "GET":
				p.send(sized(`{"data":[]}`))
				continue
			case r.URL.Path == "/body":
				p.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc")
			}
			mu.Lock()
			w.conns = append(w.conns, p.tcp)
			mu.Unlock()
			begun <- true
			<-ending
			if r.URL.Path == "/body" {
				p.send("def")
				continue
			}
			p.send(sized("abcdef"))
		}
	})
	t.Cleanup(w.end)
	w.listener = s.ln.(*net.TCPListener)
	set := newTestSet(t, Options{})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := set.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	w.up = apply(t, set, config.Upstream{Name: "a", URL: s.url(), Engine: "openai", Probe: config.Probe{
		Interval: config.Duration(200 * time.Millisecond), Timeout: config.Duration(300 * time.Millisecond), Fall: 2,
	}}).Upstream("a")[0]
	if w.up.State() != StateUp {
		t.Fatal("the engine is not up")
	}
	for i := range busyCalls {
		path := "/head"
		if i%2 == 0 {
			path = "/body"
		}
		go func() { w.lost <- w.call(path) }()
	}
	for range busyCalls {
		<-begun
	}
	return w
}

// call is one call to the end of its reply.
func (w *busyEngine) call(path string) error {
	l, ok := w.up.TryLease(PoolText, 0, time.Now())
	if !ok {
		return errors.New("no lease")
	}
	defer l.Release(OutcomeOK)
	x := l.Exchange()
	defer x.Close()
	r := post("{}")
	r.Path = path
	if err := x.Send(r); err != nil {
		return err
	}
	if err := x.Await(time.Time{}); err != nil {
		return err
	}
	var body []byte
	for p := make([]byte, 10); ; {
		x.Wait(time.Time{}) // as a stream that rests
		n, err := x.Read(p, time.Time{})
		switch body = append(body, p[:n]...); {
		case errors.Is(err, io.EOF) && string(body) == "abcdef":
			return nil
		case err != nil:
			return fmt.Errorf("after %q: %w", body, err)
		}
	}
}

// TestHostVanishes: everything was acknowledged when the host went away, so only the connects that
// fail and the questions that nobody answers tell. The system would tell after 35 s.
func TestHostVanishes(t *testing.T) {
	t.Parallel()
	w := occupy(t)
	time.Sleep(100 * time.Millisecond) // what was sent is acknowledged by then, and nothing but this rule tells
	dropAll(t, w.listener)
	for _, c := range w.conns {
		dropAll(t, c)
	}
	begun := time.Now()
	for range busyCalls {
		select {
		case err := <-w.lost:
			f, ok := errors.AsType[*Failure](err)
			if !ok {
				t.Fatalf("%v is no *Failure", err)
			}
			if !errors.Is(err, ErrHostVanished) || !errors.Is(err, syscall.ETIMEDOUT) || f.Reason != ReasonSilent || !f.Sent {
				t.Errorf("%v, sent %v", err, f.Sent)
			}
			if f.Kind != Unreachable && f.Kind != BadResponse {
				t.Errorf("kind %v", f.Kind)
			}
		case <-time.After(15 * time.Second):
			t.Fatal("a call waits on")
		}
	}
	t.Logf("all have ended after %v", time.Since(begun))
	w.end()
}

// TestHostIsThere: connects fail, and what runs goes on, because the host shows in another way that
// it is there.
func TestHostIsThere(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, *busyEngine){
		"an engine that drains refuses connects": func(_ *testing.T, w *busyEngine) { w.listener.Close() },
		"an engine whose accept queue is full":   func(t *testing.T, w *busyEngine) { dropAll(t, w.listener) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := occupy(t)
			change(t, w)
			eventually(t, "down", func() bool { return w.up.State() == StateDown })
			select {
			case err := <-w.lost:
				t.Errorf("a running call was ended: %v", err)
			case <-time.After(5 * time.Second): // several questions and probes
			}
			w.end()
			for range busyCalls {
				if err := <-w.lost; err != nil {
					t.Errorf("a running call was lost: %v", err)
				}
			}
		})
	}
}

// TestHostWatch is the rule: which connects tell that a host is silent, and which connections are
// ended then.
func TestHostWatch(t *testing.T) {
	t.Parallel()
	timeout := &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	var rows sync.WaitGroup
	defer rows.Wait()
	for _, c := range []struct {
		name  string
		fails []error // of connects, before the host vanishes; nil: one succeeds
		late  bool    // the connection brings a byte after them
		ends  int
	}{
		{name: "time ran out", fails: []error{timeout}, ends: 1},
		{name: "the system's time ran out", fails: []error{syscall.ETIMEDOUT}, ends: 1},
		{name: "no route to the host", fails: []error{syscall.EHOSTUNREACH}, ends: 1},
		{name: "no route to the network", fails: []error{syscall.ENETUNREACH}, ends: 1},
		{name: "no connect failed"},
		{name: "refused", fails: []error{refused}},
		{name: "reset", fails: []error{syscall.ECONNRESET}},
		{name: "given up from this side", fails: []error{context.Canceled}},
		{name: "no descriptor", fails: []error{syscall.EMFILE}},
		{name: "no local address", fails: []error{syscall.EADDRNOTAVAIL}},
		{name: "refused after time ran out", fails: []error{timeout, refused}},
		{name: "connected after time ran out", fails: []error{timeout, nil}},
		{name: "time ran out after a refusal", fails: []error{refused, timeout}, ends: 1},
		{name: "a byte came since", fails: []error{timeout}, late: true},
	} {
		far, vanish := make(chan *peer, 1), make(chan bool)
		tr := transportTo(t, serveRaw(t, func(p *peer) {
			far <- p
			<-vanish
		}).url())
		t.Cleanup(func() { close(vanish) })
		dial := func() (*conn, *peer) {
			c, f := tr.dial(t.Context())
			if f != nil {
				t.Fatal(f)
			}
			return c, <-far
		}
		conn, p := dial()
		for _, err := range c.fails {
			if err == nil {
				other, _ := dial()
				other.close()
				continue
			}
			tr.hosts.refused(conn.addr, err, time.Now())
		}
		rows.Go(func() { // all at the same time: an answer is owed after two seconds
			if c.late {
				time.Sleep(50 * time.Millisecond) // longer than the tick of the system's clock
				p.send("x")
			}
			p.vanish()
			ended, patience := 0, 4*time.Second
			if c.ends > 0 { // on a busy machine an answer is owed later
				patience = 30 * time.Second
			}
			for end := time.Now().Add(patience); ended == 0 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				ended = tr.hosts.endVanished()
			}
			if ended != c.ends {
				t.Errorf("%s: %d connections were ended, want %d", c.name, ended, c.ends)
			}
			conn.close()
			if len(tr.hosts.hosts) != 0 || tr.hosts.doubted.Load() {
				t.Errorf("%s: %d hosts are left without a connection", c.name, len(tr.hosts.hosts))
			}
		})
	}
}
