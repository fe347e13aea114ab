package http1

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/config/testkit/rawserver"
)

// TestCatchUp checks that a response that has arrived in time is returned even if the edge reads
// it after the deadline. The edge may be late because its process was stopped or got no CPU.
func TestCatchUp(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 8000\r\n\r\n"
	body := strings.Repeat("a", 8000)
	passed := func() time.Time { return time.Now().Add(-time.Minute) }
	for name, serve := range map[string]func(*testing.T, func(*rawserver.Peer)) *rawserver.Server{
		"plain": func(t *testing.T, f func(*rawserver.Peer)) *rawserver.Server { return rawserver.Serve(t, f) },
		"TLS":   func(t *testing.T, f func(*rawserver.Peer)) *rawserver.Server { return rawserver.ServeTLS(t, f) },
	} {
		t.Run(name, func(t *testing.T) {
			if !canPeek {
				t.Skip("this system has no look at a socket")
			}
			checkLeaks(t)
			next := make(chan struct{})
			goOn := sync.OnceFunc(func() { close(next) })
			s := serve(t, func(p *rawserver.Peer) {
				_, _, _ = p.ReadRequest()
				p.Send(answer)
				<-next
				p.Send(body)
			})
			x := transportTo(t, s.URL()).NewExchange()
			defer x.Close()
			defer goOn()
			if err := x.Send(post("q")); err != nil {
				t.Fatal(err)
			}
			comes := func(what string, look func() error) {
				t.Helper()
				waitFor(t, what, func() bool {
					err := look()
					if err != nil && !errors.Is(err, ErrNoBytesYet) {
						t.Fatalf("%s: %v, want %v at most", what, err, ErrNoBytesYet)
					}
					return err == nil
				})
			}
			comes("the head", func() error { return x.Await(passed()) })
			p := make([]byte, 10)
			if n, err := x.Read(p, passed()); !errors.Is(err, ErrNoBytesYet) {
				t.Fatalf("before the body is sent: %d bytes, %v", n, err)
			}
			if !x.delivery.c.isTLS && x.WaitReadable(passed()) {
				t.Error("before the body is sent Wait says that something has come")
			}
			goOn()
			waitFor(t, "Wait sees the body", func() bool { return x.WaitReadable(passed()) })
			comes("the body", func() error { _, err := x.Read(p, passed()); return err })
		})
	}
}

// TestCatchUpEnds checks that late reads are allowed only for a short time, even if an engine sends
// continuously.
func TestCatchUpEnds(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	var c lateReadLimit
	for _, step := range []struct {
		until, now time.Time
		want       bool
	}{
		{time.Time{}, begin, false},
		{begin.Add(time.Second), begin, false},
		{begin, begin.Add(time.Hour), true},
		{begin, begin.Add(time.Hour + maxLateReadTime - 1), true},
		{begin, begin.Add(time.Hour + maxLateReadTime), false},
		{begin.Add(time.Minute), begin.Add(2 * time.Hour), true}, // a different deadline
	} {
		c.deadline = step.until
		if got := c.allowsRead(step.now); got != step.want {
			t.Errorf("until %s, now %s: %t", step.until.Sub(begin), step.now.Sub(begin), got)
		}
	}
}
