package faults

import (
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
	"penstock/upstreams/progress"
)

// These tests cover rows 12 to 17: engine faults after the client has received a stream's first
// bytes. These bytes must be followed by an error in the dialect, and the call must not be sent
// again.

// broken injects a fault into a stream of every dialect. It checks what the client and the engines
// receive, and it checks the log and the metrics.
func broken(t *testing.T, spec, code string, s rig.Setup) {
	t.Run(spec, func(t *testing.T) {
		t.Parallel()
		s.Upstream = rig.QuietProbes
		s.Engines = rig.TwoEngines() // the second engine must not receive the call
		forEachRequestType(t, rig.StreamRequestTypes, s, func(e *edge, w rig.RequestType) {
			e.fault(spec)
			e.SendRequest(w, `"tokens":12`).WantBrokenStream(w, code)
			l := e.LastAccessLine()
			if l.Outcome != "stream_broken" && l.Outcome != "timeout" || l.Status != 200 || l.Code != code || l.Attempts != 1 {
				e.T.Errorf("the log says %+v", l)
			}
			e.wantSent(1)
		})
	})
}

func TestFault12_ResetMidStream(t *testing.T) {
	t.Parallel()
	broken(t, "reset-after=3", "upstream_bad_response", rig.Setup{})
	broken(t, "reset-after=2", "upstream_bad_response", rig.Setup{})
}

func TestFault13_StreamCut(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{
		"chunk-cut=3", "cut-after=3", "close-delimited+cut-after=3", "close-delimited+no-finish",
		"bad-chunk=3;kind=size", "bad-chunk=3;kind=negative", "bad-chunk=3;kind=huge", "bad-chunk=3;kind=nocrlf", "bad-chunk=3;kind=empty",
	} {
		broken(t, spec, "upstream_bad_response", rig.Setup{})
	}
	t.Run("close-delimited and whole", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.TextRequestTypes, rig.Setup{}, func(e *edge, w rig.RequestType) {
			e.fault("close-delimited")
			e.SendRequest(w, "").VisibleText(w)
		})
	})
}

func TestFault14_NoDone(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"no-done", "no-done+close-delimited", "open-end"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.StreamRequestTypes, rig.Setup{}, func(e *edge, w rig.RequestType) {
				e.fault(spec)
				r := e.SendRequest(w, "")
				r.VisibleText(w)
				r.WantWithin(4 * time.Second) // the edge must not wait for the missing end
				if strings.Contains(r.Body, `"error":{`) {
					e.T.Errorf("an error in a whole stream: %s", r.Body)
				}
			})
		})
	}
	// After the last event, the engine neither ends the body nor closes the connection.
	t.Run("held open", func(t *testing.T) {
		t.Parallel()
		for _, w := range rig.StreamRequestTypes {
			t.Run(w.String(), func(t *testing.T) {
				t.Parallel()
				f := startFakeEngine(t, func(c *fakeCall) {
					c.head("text/event-stream", -1)
					for _, data := range streamAnswer {
						c.chunk("data: " + data + "\n\n")
						// each event arrives while the edge is waiting for it
						time.Sleep(50 * time.Millisecond)
					}
					c.waitClosed()
				})
				e := start(t, rig.Setup{Fakes: []string{f.url}, Timeouts: "idle: 60s"})
				r := e.SendRequest(w, "")
				if text := r.VisibleText(w); text != "Good." {
					t.Errorf("the answer is %q", text)
				}
				// The edge waits two seconds for usage and [DONE], which is less than the time
				// until it would check a silent engine.
				if r.Took >= progress.WaitingAfter {
					t.Errorf("took %v", r.Took)
				}
				rig.WaitFor(t, rig.WaitTimeout, "the engine's connection is closed", func() bool { _, closed := f.callCounts(); return closed == 1 })
			})
		}
	})
}

func TestFault15_NoFinish(t *testing.T) {
	t.Parallel()
	broken(t, "no-finish", "upstream_bad_response", rig.Setup{})
	broken(t, "no-finish;done=1", "upstream_bad_response", rig.Setup{})
	broken(t, "no-finish;ghost=1", "upstream_bad_response", rig.Setup{})
}

func TestFault16_Silence(t *testing.T) {
	t.Parallel()
	broken(t, "stall-after=3", "generation_timeout", rig.Setup{Timeouts: "idle: 300ms"})
	t.Run("engine is let go", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.StreamRequestTypes, rig.Setup{Timeouts: "idle: 300ms"}, func(e *edge, w rig.RequestType) {
			e.fault("stall-after=3")
			r := e.SendRequest(w, "")
			r.WantBrokenStream(w, "generation_timeout")
			r.WantWithin(4 * time.Second)
			e.wantAborted(1)
		})
	})
	t.Run("slow is not silent", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.StreamRequestTypes, rig.Setup{Timeouts: "idle: 2s"}, func(e *edge, w rig.RequestType) {
			e.fault("pause-after=3;for=1s")
			// Takes longer than the limit, but is never silent for that long.
			e.SendRequest(w, `"tokens":12,"delay_ms":200`).VisibleText(w)
		})
	})
	t.Run("comments are life", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.StreamRequestTypes, rig.Setup{Timeouts: "idle: 3s"}, func(e *edge, w rig.RequestType) {
			e.fault("stall-after=3;ping=100ms")
			s := e.OpenStream(w.Path, w.RequestBody("sim", rig.Prompt, ""))
			s.Next()
			// more than twice the idle limit, which must not have any effect
			time.Sleep(7 * time.Second)
			if n := e.Engines[0].Stats().Running; n != 1 {
				e.T.Errorf("%d running: a stream with signs of life was cut", n)
			}
			s.Disconnect()
			e.wantAborted(1)
		})
	})
}

func TestFault17_ErrorInStream(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"error-in-stream", "error-in-stream;done=1", "error-in-stream;done=0"} {
		broken(t, spec, "upstream_failed", rig.Setup{})
	}
	broken(t, "error-in-stream;code=503", "no_healthy_route", rig.Setup{})
	broken(t, "error-in-stream;code=429", "capacity_full", rig.Setup{})
	broken(t, "error-in-stream;message=worker at "+sim.LeakedHost+" died in "+sim.LeakedPath, "upstream_failed", rig.Setup{})
}
