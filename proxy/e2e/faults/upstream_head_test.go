package faults

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests cover rows 5 to 8, 11, 24 and 25: malformed and missing heads.

func TestFault05_NotHTTP(t *testing.T) {
	t.Parallel()
	faults := []string{"head-cut", "head-cut;reset=1", "status-101", "status-999", "http09"}
	for _, kind := range strings.Fields("binary nocolon nostatus version space badlength negative nul encoding") {
		faults = append(faults, "garbage-head;kind="+kind)
	}
	for i, fault := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesForVariant(rig.RequestTypesWithAudio, i), rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				e.fault(fault)
				e.wantRefusedOnce(w, rig.RefusalBadResponse, "upstream_fail")
				e.wantResult("bad_response", 1)
				e.wantNewConnection(w)
			})
		})
	}
}

func TestFault06_Blackhole(t *testing.T) {
	t.Parallel()
	forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Timeouts: "first_event: 4s, answer: 4s"}, func(e *edge, w rig.RequestType) {
		e.fault("blackhole")
		r := e.SendRequest(w, "")
		r.WantRefused(w, rig.Refusal{Status: 504, Kind: "timeout_error", Code: "generation_timeout", After: "5"})
		r.WantWithin(10 * time.Second)
		e.wantSent(1) // the engine may be generating an answer
		e.wantAborted(1)
		e.wantAccessLine(w, rig.RefusalTooSlow, "timeout", 1)
		e.wantResult("timeout", 1)
	})
}

func TestFault07_EngineNeverReads(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 12 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Upstream: rig.QuietProbes, Timeouts: "first_event: 400ms, answer: 400ms"}, func(e *edge, w rig.RequestType) {
				e.fault("noread")
				e.Engines[0].DropConns(1, false)
				r := e.SendPrompt(w, rig.Prompt+strings.Repeat("x", size), "")
				r.WantRefused(w, rig.RefusalTooSlow)
				r.WantWithin(6 * time.Second)
				e.wantAccessLine(w, rig.RefusalTooSlow, "timeout", 1)
			})
		})
	}
}

// TestFault07_Closed checks that, after the answer, the connection to an engine that never reads is
// closed.
func TestFault07_Closed(t *testing.T) {
	t.Parallel()
	for _, w := range rig.TextRequestTypes {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			hung := make(chan net.Conn, 8)
			url := listen(t, func(c net.Conn) {
				method := make([]byte, 3)
				if _, err := io.ReadFull(c, method); err != nil || string(method) != "GET" {
					hung <- c
					return
				}
				_, _ = c.Read(make([]byte, 4096)) // reads a probe
				_ = reply200(c, "application/json\r\nConnection: close", `{"data":[{"id":"sim"}]}`)
				c.Close()
			})
			e := start(t, rig.Setup{Fakes: []string{url}, Upstream: rig.QuietProbes, Timeouts: "first_event: 1500ms, answer: 1500ms"})
			e.SendPrompt(w, rig.Prompt+strings.Repeat("x", 8<<20), "").WantRefused(w, rig.RefusalTooSlow)
			c := rig.Receive(t, rig.WaitTimeout, "the engine has the connection", hung)
			_ = c.SetDeadline(time.Now().Add(rig.WaitTimeout))
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection is still open")
			}
		})
	}
}

func TestFault08_HeaderDrips(t *testing.T) {
	t.Parallel()
	forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Upstream: rig.QuietProbes, Timeouts: "first_event: 1500ms, answer: 1500ms"}, func(e *edge, w rig.RequestType) {
		e.fault("slow-header;gap=50ms") // sends one byte at a time, for longer than a minute
		r := e.SendRequest(w, "")
		r.WantRefused(w, rig.RefusalTooSlow)
		r.WantWithin(4 * time.Second)
		e.wantSent(1)
		e.wantAborted(1)
		e.wantAccessLine(w, rig.RefusalTooSlow, "timeout", 1)
	})
}

// TestFault11_SecondReply checks an engine that sends a second reply after some of its replies.
// Once the edge has received such a second reply, it must disable keep-alive for the engine, so
// that hardly any client receives another client's answer.
func TestFault11_SecondReply(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Upstream: "concurrency: 100, " + rig.QuietProbes})
	e.Engines[0].SetFault(sim.Fault{Spec: "second-reply;within=500us", Share: .25})
	var left, wrong atomic.Int64
	left.Store(4000)
	var clients sync.WaitGroup
	for range 64 {
		clients.Go(func() {
			for left.Add(-1) >= 0 {
				r := e.SendRequest(rig.Chat, `"tokens":1`)
				switch {
				case r.Status != 200:
					t.Errorf("%d %s", r.Status, r.Body)
				case strings.Contains(r.Body, sim.ForgedText):
					wrong.Add(1)
				}
			}
		})
	}
	clients.Wait()
	if n := wrong.Load(); n > 8 {
		t.Errorf("%d clients got the second reply", n)
	}
	if e.Metric("penstock_upstream_surplus_total") == 0 {
		t.Error("it is not counted")
	}
	t.Logf("%d of 4000 got the second reply", wrong.Load())
}

func TestFault11_Surplus(t *testing.T) {
	t.Parallel()
	for i, fault := range []string{"surplus", "surplus;kind=bytes", "two-content-length", "two-content-length;same=1", "te-and-cl"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesForVariant(rig.RequestTypesWithAudio, i), rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				e.fault(fault)
				r := e.SendRequest(w, "")
				if r.Status != 200 {
					r.WantRefused(w, rig.RefusalBadResponse)
				}
				rig.WantNoLeak(e.T, "the answer", r.Body, e.Key)
				e.wantSent(1)
				// The simulator announces a wrong length and sends fewer bytes.
				if fault == "two-content-length;same=1" && w == rig.Speech {
					if r.Err == nil {
						e.T.Errorf("%d bytes of audio look whole", len(r.Body))
					}
					return
				}
				if fault == "two-content-length;same=1" { // two equal lengths are harmless
					r.VisibleText(w)
					return
				}
				e.wantNewConnection(w)
			})
		})
	}
	t.Run("late", func(t *testing.T) { // the second reply is sent once the connection is in the pool
		t.Parallel()
		for _, w := range rig.TextRequestTypes {
			t.Run(w.String(), func(t *testing.T) {
				t.Parallel()
				written := make(chan struct{})
				f := startFakeEngine(t, func(c *fakeCall) {
					c.answer()
					if c.number == 1 {
						// After the last byte of the answer, in a separate segment.
						time.Sleep(50 * time.Millisecond)
						_ = reply200(c.Conn, "application/json", strings.Replace(plainAnswer, "Good.", sim.ForgedText, 1))
						close(written)
					}
				})
				e := start(t, rig.Setup{Fakes: []string{f.url}, Upstream: rig.QuietProbes})
				e.SendRequest(w, "").VisibleText(w)
				rig.Receive(t, rig.WaitTimeout, "the forgery is written", written)
				for range 3 {
					if text := e.SendRequest(w, "").VisibleText(w); text != "Good." {
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
			forEachRequestType(t, rig.RequestTypesForVariant(rig.RequestTypesWithAudio, i), rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				e.fault(fault)
				c := e.Dial()
				_ = c.Send(e.RequestBytes(w.Path, w.RequestBody("sim", rig.Prompt, ""), w.ContentType()))
				line, err := c.In.Peek(len("HTTP/1.1 200"))
				if err != nil || string(line) != "HTTP/1.1 200" {
					e.T.Errorf("the client got %q first, %v", line, err)
				}
				c.ReadReply("POST").VisibleText(w)
				e.wantSent(1)
			})
		})
	}
	t.Run("endless", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
			e.fault("interim=50")
			e.SendRequest(w, "").WantRefused(w, rig.RefusalBadResponse)
			e.wantSent(1)
			e.wantNewConnection(w)
		})
	})
}

func TestFault25_Redirect(t *testing.T) {
	t.Parallel()
	for i, code := range []int{301, 302, 303, 304, 307, 308} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesForVariant(rig.RequestTypesWithAudio, i), rig.Setup{Engines: []sim.Options{{APIKey: "engine-key"}}, Upstream: rig.QuietProbes + `, api_key: "engine-key"`}, func(e *edge, w rig.RequestType) {
				e.fault(fmt.Sprintf("redirect=%d", code))
				r := e.SendRequest(w, "")
				r.WantRefused(w, rig.RefusalBadResponse)
				if r.Header.Get("Location") != "" {
					e.T.Error("the redirect reached the client")
				}
				if e.Engines[0].Stats().Followed != 0 {
					e.T.Error("the redirect was followed: the prompt went elsewhere")
				}
				e.wantSent(1)
				e.wantAccessLine(w, rig.RefusalBadResponse, "upstream_fail", 1)
			})
		})
	}
}
