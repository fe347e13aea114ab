package faults

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
)

// Rows 5 to 8, 11, 24 and 25: what an engine says, or does not say, instead of a good head.

func TestFault05_NotHTTP(t *testing.T) {
	t.Parallel()
	faults := []string{"head-cut", "head-cut;reset=1", "status-101", "status-999", "http09"}
	for _, kind := range strings.Fields("binary nocolon nostatus version space badlength negative nul encoding") {
		faults = append(faults, "garbage-head;kind="+kind)
	}
	for i, fault := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			inWays(t, variants(everyWay, i), setup{upstream: quiet}, func(e *edge, w way) {
				e.fault(fault)
				e.ask(w, "").wantRefused(w, badResponse)
				e.wantSent(1)
				e.wantTold(w, badResponse, "upstream_fail", 1)
				e.wantResult("bad_response", 1)
				e.wantFresh(w)
			})
		})
	}
}

func TestFault06_Blackhole(t *testing.T) {
	t.Parallel()
	inWays(t, everyWay, setup{engines: two(), upstream: quiet, timeouts: "first_event: 300ms, answer: 300ms"}, func(e *edge, w way) {
		e.fault("blackhole")
		r := e.ask(w, "")
		r.wantRefused(w, refusal{504, "timeout_error", "generation_timeout", "5"})
		r.within(3 * time.Second)
		e.wantSent(1) // it may be generating
		e.wantAborted(1)
		e.wantTold(w, tooSlow, "timeout", 1)
		e.wantResult("timeout", 1)
	})
}

func TestFault07_EngineNeverReads(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 12 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			inWays(t, everyWay, setup{upstream: quiet, timeouts: "first_event: 400ms, answer: 400ms"}, func(e *edge, w way) {
				e.fault("noread")
				e.engines[0].Drop(1, false)
				r := e.say(w, prompt+strings.Repeat("x", size), "")
				r.wantRefused(w, tooSlow)
				r.within(6 * time.Second)
				e.wantTold(w, tooSlow, "timeout", 1)
			})
		})
	}
}

// TestFault07_Closed: the connection of an engine that never reads is closed with the answer, not kept.
func TestFault07_Closed(t *testing.T) {
	t.Parallel()
	for _, w := range allWays {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			hung := make(chan net.Conn, 8)
			url := listen(t, func(c net.Conn) {
				method := make([]byte, 3)
				if _, err := io.ReadFull(c, method); err != nil || string(method) != "GET" {
					hung <- c
					return
				}
				_, _ = c.Read(make([]byte, 4096)) // a probe
				_ = reply200(c, "application/json\r\nConnection: close", `{"data":[{"id":"sim"}]}`)
				c.Close()
			})
			e := start(t, setup{fakes: []string{url}, upstream: quiet, timeouts: "first_event: 400ms, answer: 400ms"})
			e.say(w, prompt+strings.Repeat("x", 8<<20), "").wantRefused(w, tooSlow)
			c := <-hung
			_ = c.SetDeadline(time.Now().Add(patience))
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection is still open")
			}
		})
	}
}

func TestFault08_HeaderDrips(t *testing.T) {
	t.Parallel()
	inWays(t, everyWay, setup{upstream: quiet, timeouts: "first_event: 400ms, answer: 400ms"}, func(e *edge, w way) {
		e.fault("slow-header;gap=50ms") // a byte at a time, for longer than a minute
		r := e.ask(w, "")
		r.wantRefused(w, tooSlow)
		r.within(4 * time.Second)
		e.wantSent(1)
		e.wantAborted(1)
		e.wantTold(w, tooSlow, "timeout", 1)
	})
}

func TestFault11_Surplus(t *testing.T) {
	t.Parallel()
	for i, fault := range []string{"surplus", "surplus;kind=bytes", "two-content-length", "two-content-length;same=1", "te-and-cl"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			inWays(t, variants(everyWay, i), setup{upstream: quiet}, func(e *edge, w way) {
				e.fault(fault)
				r := e.ask(w, "")
				if r.status != 200 {
					r.wantRefused(w, badResponse)
				}
				wantSecret(e.t, "the answer", r.body, e.key)
				e.wantSent(1)
				if fault == "two-content-length;same=1" && w == speech { // the simulator makes a length up, and does not fill it
					if r.err == nil {
						e.t.Errorf("%d bytes of audio look whole", len(r.body))
					}
					return
				}
				if fault == "two-content-length;same=1" { // two that agree are harmless
					r.text(w)
					return
				}
				e.wantFresh(w)
			})
		})
	}
	t.Run("late", func(t *testing.T) { // the forgery comes when the connection already lies in the pool
		t.Parallel()
		for _, w := range allWays {
			t.Run(w.String(), func(t *testing.T) {
				t.Parallel()
				written := make(chan struct{})
				f := fake(t, func(c *fakeCall) {
					c.answer()
					if c.number == 1 {
						time.Sleep(50 * time.Millisecond) // behind the answer's last byte, in a segment of its own
						_ = reply200(c.Conn, "application/json", strings.Replace(plainAnswer, "Good.", sim.ForgedText, 1))
						close(written)
					}
				})
				e := start(t, setup{fakes: []string{f.url}, upstream: quiet})
				e.ask(w, "").text(w)
				<-written
				for range 3 {
					if text := e.ask(w, "").text(w); text != "Good." {
						t.Errorf("the next client was told %q", text)
					}
				}
			})
		}
	})
}

func TestFault24_InterimAnswers(t *testing.T) {
	t.Parallel()
	for i, fault := range strings.Fields("interim=1;code=100 interim=1;code=102 interim=3;code=103 interim=8;code=103") {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			inWays(t, variants(everyWay, i), setup{upstream: quiet}, func(e *edge, w way) {
				e.fault(fault)
				c := e.dial()
				_ = c.send(e.request(w.path, w.body("sim", prompt, ""), w.contentType()))
				line, err := c.in.Peek(len("HTTP/1.1 200"))
				if err != nil || string(line) != "HTTP/1.1 200" {
					e.t.Errorf("the client got %q first, %v", line, err)
				}
				c.reply("POST").text(w)
				e.wantSent(1)
			})
		})
	}
	t.Run("endless", func(t *testing.T) {
		t.Parallel()
		inWays(t, everyWay, setup{upstream: quiet}, func(e *edge, w way) {
			e.fault("interim=50")
			e.ask(w, "").wantRefused(w, badResponse)
			e.wantSent(1)
			e.wantFresh(w)
		})
	})
}

func TestFault25_Redirect(t *testing.T) {
	t.Parallel()
	for i, code := range []int{301, 302, 303, 304, 307, 308} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			inWays(t, variants(everyWay, i), setup{engines: []sim.Options{{APIKey: "engine-key"}}, upstream: quiet + `, api_key: "engine-key"`}, func(e *edge, w way) {
				e.fault(fmt.Sprintf("redirect=%d", code))
				r := e.ask(w, "")
				r.wantRefused(w, badResponse)
				if r.header.Get("Location") != "" {
					e.t.Error("the redirect reached the client")
				}
				if e.engines[0].Stats().Followed != 0 {
					e.t.Error("the redirect was followed: the prompt went elsewhere")
				}
				e.wantSent(1)
				e.wantTold(w, badResponse, "upstream_fail", 1)
			})
		})
	}
}
