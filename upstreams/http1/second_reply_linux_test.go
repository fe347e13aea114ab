package http1

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"penstock/config/testkit/fastset"
	"penstock/config/testkit/raced"
	"penstock/config/testkit/rawserver"
	"penstock/upstreams/http1/socket"
)

// secondReplies is an engine that sends a second, forged response within half a millisecond after
// every fourth response. Every second response is chunked. Each response ends with its number. For
// each response, the engine records whether it was sent before the next request arrived.
type secondReplies struct {
	sent  atomic.Int64
	early sync.Map // maps a response's number to whether it was sent before the next request
}

func (s *secondReplies) serve(p *rawserver.Peer) {
	for {
		_, body, ok := p.ReadRequest()
		if !ok {
			return
		}
		s.reply(p, body)
		if rand.IntN(4) > 0 {
			continue
		}
		for end := time.Now().Add(time.Duration(rand.Int64N(int64(500 * time.Microsecond)))); time.Now().Before(end); {
			time.Sleep(10 * time.Microsecond)
		}
		s.reply(p, "forged")
	}
}

func (s *secondReplies) reply(p *rawserver.Peer, text string) {
	n := s.sent.Add(1)
	wire := rawserver.SizedResponse
	if n%2 == 0 {
		wire = wholeInChunks
	}
	p.Send(wire(text + " " + strconv.FormatInt(n, 10)))
	s.early.Store(n, p.Reader.Buffered() == 0 && !requested(p))
}

// requested reports whether a byte of a request has reached the engine's host.
func requested(p *rawserver.Peer) (yes bool) {
	raw, err := p.TCP.SyscallConn()
	if err != nil {
		return true
	}
	_ = raw.Control(func(fd uintptr) {
		_, err := socket.Peek(fd, make([]byte, 1))
		yes = err != syscall.EAGAIN
	})
	return yes
}

func wholeInChunks(body string) string { return chunkedHead + chunk(body) + "0\r\n\r\n" }

// TestFollowedReply checks that a response on a keep-alive connection is rejected if another
// response arrives together with it.
func TestFollowedReply(t *testing.T) {
	for name, wire := range map[string]func(body string) string{"sized": rawserver.SizedResponse, "chunked": wholeInChunks} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			tr := transportTo(t, rawserver.Serve(t, func(p *rawserver.Peer) {
				for n := 0; ; n++ {
					_, body, ok := p.ReadRequest()
					if !ok {
						return
					}
					if p.N == 0 && n > 0 {
						p.Send(wire("forged") + wire(body))
						continue
					}
					p.Send(wire(body))
				}
			}).URL())
			mustEcho(t, tr, "first")
			if x := mustEcho(t, tr, "second"); x.SendCount() != 2 {
				t.Errorf("%d sends, want a second one on a new connection", x.SendCount())
			}
		})
	}
}

// TestSecondReply checks that bytes that arrived before a request are never mistaken for its
// response. It sends 20,000 calls, 64 at a time.
func TestSecondReply(t *testing.T) {
	fastset.SkipIfShort(t, "replies that nobody asked for")
	for _, c := range []struct {
		name  string
		reuse bool // reuse connections despite unsolicited bytes
		size  int
		calls int
	}{
		{"small", true, 10, 20_000},
		{"large", true, maxSmallBody + 10, 4_000},
		{"as it is", false, 10, 20_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkLeaks(t)
			var s secondReplies
			tr := transportTo(t, rawserver.Serve(t, s.serve).URL())
			if c.reuse {
				tr.hosts.noReuseFor = 0
			}
			var calls, reused atomic.Int64
			var wrong sync.Map // numbers of the wrong responses
			var all sync.WaitGroup
			for range 64 {
				all.Go(func() {
					for n := calls.Add(1); n <= int64(c.calls); n = calls.Add(1) {
						sent := fmt.Sprintf("%0*d", c.size, n)
						_, got, x, err := roundTrip(tr, post(sent))
						if x.delivery.reusedConn {
							reused.Add(1)
						}
						text, number, _ := strings.Cut(got, " ")
						switch {
						case err != nil:
							t.Error(err)
						case text != sent:
							wrong.Store(number, true)
						}
					}
				})
			}
			all.Wait()
			early, late := 0, 0
			for number := range wrong.Range {
				n, err := strconv.ParseInt(number.(string), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				if v, ok := s.early.Load(n); ok && v.(bool) {
					early++
				} else {
					late++
				}
			}
			t.Logf("%d calls, %d on kept connections; %d replies to something else were taken that came when the request was there already", c.calls, reused.Load(), late)
			unseen := 0
			// Allow for forged responses that arrive between the last peek and the acknowledgement.
			if raced.Enabled && c.size > maxSmallBody {
				unseen = c.calls / 2000
			}
			if early > unseen {
				t.Errorf("%d replies were taken that had come before the request began", early)
			}
			if c.reuse && reused.Load() < int64(c.calls)/20 {
				t.Error("too few connections were used again to tell anything")
			}
			// If responses that arrive together were accepted, this would be a tenth of the calls.
			if c.reuse && late > c.calls/50 {
				t.Errorf("%d replies to something else were taken", late)
			}
			if !c.reuse && late > 64 {
				t.Error("connections are used again after bytes that nobody asked for")
			}
		})
	}
}
