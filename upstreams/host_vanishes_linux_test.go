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
	"penstock/config/testkit/rawserver"
	"penstock/upstreams/http1"
)

// busyEngine is an engine with running calls. Half of the calls are waiting for the response head,
// and the other half for the rest of the body.
type busyEngine struct {
	up    *Upstream
	conns []*net.TCPConn // the engine's ends of the connections
	end   func()         // makes the engine complete every response
	lost  chan error     // receives the error of each call, or nil if the response was complete

	listener *net.TCPListener
}

const busyCalls = 8

func startBusyEngine(t *testing.T) *busyEngine {
	t.Helper()
	ending := make(chan bool)
	w := &busyEngine{end: sync.OnceFunc(func() { close(ending) }), lost: make(chan error, busyCalls)}
	var mu sync.Mutex
	begun := make(chan bool, busyCalls)
	s := rawserver.Serve(t, func(p *rawserver.Peer) {
		for {
			r, _, ok := p.ReadRequest()
			switch {
			case !ok:
				return
			case r.Method == "GET":
				p.Send(rawserver.SizedResponse(`{"data":[]}`))
				continue
			case r.URL.Path == "/body":
				p.Send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc")
			}
			mu.Lock()
			w.conns = append(w.conns, p.TCP)
			mu.Unlock()
			begun <- true
			<-ending
			if r.URL.Path == "/body" {
				p.Send("def")
				continue
			}
			p.Send(rawserver.SizedResponse("abcdef"))
		}
	})
	t.Cleanup(w.end)
	w.listener = s.Listener.(*net.TCPListener)
	set := newTestSet(t, Options{})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := set.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	w.up = apply(t, set, config.Upstream{Name: "a", URL: s.URL(), Engine: "openai", Probe: config.Probe{
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

// call sends a request and reads its whole response.
func (w *busyEngine) call(path string) error {
	l, ok := w.up.TryLease("", PoolText, 0, time.Now())
	if !ok {
		return errors.New("no lease")
	}
	defer l.Release(OutcomeOK)
	x := l.Exchange()
	defer x.Close()
	r := &http1.Request{Method: "POST", Path: path, ContentType: "application/json", Body: [][]byte{[]byte("{}")}, ConnectTimeout: 2 * time.Second, WriteTimeout: 2 * time.Second}
	if err := x.Send(r); err != nil {
		return err
	}
	if err := x.Await(time.Time{}); err != nil {
		return err
	}
	var body []byte
	for p := make([]byte, 10); ; {
		x.WaitReadable(time.Time{}) // the client reads slowly
		n, err := x.Read(p, time.Time{})
		switch body = append(body, p[:n]...); {
		case errors.Is(err, io.EOF) && string(body) == "abcdef":
			return nil
		case err != nil:
			return fmt.Errorf("after %q: %w", body, err)
		}
	}
}

// TestHostVanishes checks that the edge detects that a host has vanished even if the host had
// acknowledged all data. Only failed connection attempts and unanswered keep-alive probes can show
// this. The kernel alone would detect it after 35 s.
func TestHostVanishes(t *testing.T) {
	t.Parallel()
	w := startBusyEngine(t)
	// By now, all data is acknowledged, so only HostWatch can detect the loss.
	time.Sleep(100 * time.Millisecond)
	rawserver.DropAll(t, w.listener)
	for _, c := range w.conns {
		rawserver.DropAll(t, c)
	}
	begun := time.Now()
	for range busyCalls {
		select {
		case err := <-w.lost:
			f, ok := errors.AsType[*http1.Failure](err)
			if !ok {
				t.Fatalf("%v is no *Failure", err)
			}
			if !errors.Is(err, http1.ErrHostVanished) || !errors.Is(err, syscall.ETIMEDOUT) || f.Reason != http1.ReasonSilent || !f.Sent {
				t.Errorf("failure = %v, sent %v; want the host vanished after the request was sent", err, f.Sent)
			}
			if f.Kind != http1.KindUnreachable && f.Kind != http1.KindBadResponse {
				t.Errorf("kind = %v, want %v or %v", f.Kind, http1.KindUnreachable, http1.KindBadResponse)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("a call waits on")
		}
	}
	t.Logf("all have ended after %v", time.Since(begun))
	w.end()
}

// TestHostIsThere checks that running calls continue despite failed connection attempts if the host
// shows that it is alive.
func TestHostIsThere(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, *busyEngine){
		"an engine that drains refuses connects": func(_ *testing.T, w *busyEngine) { w.listener.Close() },
		"an engine whose accept queue is full":   func(t *testing.T, w *busyEngine) { rawserver.DropAll(t, w.listener) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startBusyEngine(t)
			change(t, w)
			eventually(t, "down", func() bool { return w.up.State() == StateDown })
			select {
			case err := <-w.lost:
				t.Errorf("a running call was ended: %v", err)
			case <-time.After(5 * time.Second): // enough for more than one keep-alive probe
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
