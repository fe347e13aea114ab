//go:build !race

package http1

import (
	"errors"
	"testing"
	"time"

	"penstock/config/testkit/rawserver"
)

// TestExchangeAllocs checks that an exchange on a warm connection allocates only itself, and that a
// streamed token allocates nothing.
func TestExchangeAllocs(t *testing.T) {
	checkLeaks(t)
	reply := []byte(rawserver.SizedResponse("0123456789"))
	s := rawserver.Serve(t, func(p *rawserver.Peer) { // must not allocate, because its allocations would count
		b := make([]byte, 4096)
		for {
			if _, err := p.TCP.Read(b); err != nil {
				return
			}
			_, _ = p.TCP.Write(reply)
		}
	})
	tr := transportTo(t, s.URL())
	r, p, until := post("question"), make([]byte, 4096), time.Now().Add(time.Hour)
	exchange := func() {
		x := tr.NewExchange()
		if err := errors.Join(x.Send(r), x.Await(until)); err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := x.Read(p, until); err != nil {
				break
			}
		}
		x.Close()
	}
	exchange()
	if n := testing.AllocsPerRun(200, exchange); n > 2 {
		t.Errorf("an exchange allocates %v times, want at most 2", n)
	}
}

func TestStreamAllocs(t *testing.T) {
	checkLeaks(t)
	chunk := []byte("f\r\ndata: {\"a\": 1}\n\r\n")
	next := make(chan bool)
	s := rawserver.Serve(t, func(p *rawserver.Peer) {
		_, _, _ = p.ReadRequest()
		p.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for <-next {
			_, _ = p.TCP.Write(chunk)
		}
	})
	defer close(next)
	x := transportTo(t, s.URL()).NewExchange()
	defer x.Close()
	if err := errors.Join(x.Send(post("q")), x.Await(inThirtySeconds())); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 4096)
	if n := testing.AllocsPerRun(200, func() {
		next <- true
		x.WaitReadable(time.Now().Add(time.Minute))
		if n, err := x.Read(p, time.Now().Add(time.Minute)); n == 0 || err != nil {
			t.Fatal(n, err)
		}
	}); n > 0 {
		t.Errorf("an event of a stream allocates %v times, want none", n)
	}
}
