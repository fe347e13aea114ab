package faults

import (
	"net"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests cover rows 1 to 4, 31 and 32: unreachable engines, and connections that are lost
// before the answer has started.

func TestFault01_ConnectionRefused(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
			e.stopEngine(0)
			r := e.SendRequest(w, "")
			r.WantRefused(w, rig.RefusalUnreachable)
			r.WantWithin(2 * time.Second) // far less than the answer timeout
			e.wantAccessLine(w, rig.RefusalUnreachable, "upstream_fail", 1)
			e.wantResult("unreachable", 1)
			rig.WaitFor(e.T, rig.WaitTimeout, "no healthy route", func() bool {
				return e.SendRequest(w, "").Header.Get("Retry-After") != "" && e.Status().Upstreams[0].State == "down"
			})
			e.SendRequest(w, "").WantRefused(w, rig.RefusalNoRoute)
			e.wantAccessLine(w, rig.RefusalNoRoute, "no_route", 0)
		})
	})
	t.Run("other", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Model: roundRobinPolicy}, func(e *edge, w rig.RequestType) {
			e.stopEngine(0)
			e.wantRetried(w, 6)
			if n := e.Metric("penstock_upstream_attempts_total", `upstream="up-0"`, `result="unreachable"`); n < 1 || n > 2 {
				e.T.Errorf("%v attempts at the dead engine", n)
			}
		})
	})
	t.Run("of four", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Engines: append(rig.TwoEngines(), rig.TwoEngines()...), Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
			for i := range e.Engines {
				e.stopEngine(i)
			}
			e.SendRequest(w, "").WantRefused(w, rig.RefusalUnreachable)
			e.wantAccessLine(w, rig.RefusalUnreachable, "upstream_fail", 2)
		})
	})
}

func TestFault02_NameDoesNotResolve(t *testing.T) {
	t.Parallel()
	// Go's resolver rejects .onion (RFC 7686), so the name does not reach a resolver outside this
	// machine.
	const dead = "http://engine.onion:8000"
	forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Cold: true, Fakes: []string{dead}}, func(e *edge, w rig.RequestType) {
		for range 3 {
			r := e.SendRequest(w, "")
			r.WantWithin(2 * time.Second)
			if want := rig.RefusalUnreachable.InDialect(w.Dialect); r.Status == want.Status && strings.Contains(r.Body, want.Code) {
				r.WantRefused(w, rig.RefusalUnreachable)
			} else {
				r.WantRefused(w, rig.RefusalNoRoute)
			}
		}
	})
	t.Run("other", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Cold: true, Engines: rig.TwoEngines()[:1], Fakes: []string{dead}, Model: roundRobinPolicy}, func(e *edge, w rig.RequestType) {
			e.wantRetried(w, 5)
		})
	})
	// `resolve`: the edge starts without waiting for the background lookup.
	t.Run("watched", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Cold: true, Engines: rig.TwoEngines()[:1], Fakes: []string{dead}, Upstream: "resolve: 1s", Model: roundRobinPolicy}, func(e *edge, w rig.RequestType) {
			e.wantRetried(w, 3)
		})
	})
}

func TestFault03_AcceptsAndCloses(t *testing.T) {
	t.Parallel()
	t.Run("reset", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
			e.fault("refuse")
			e.Engines[0].DropConns(1, false)
			r := e.SendRequest(w, "")
			r.WantRefused(w, rig.RefusalUnreachable)
			r.WantWithin(2 * time.Second)
			e.wantSent(0)
			e.wantAccessLine(w, rig.RefusalUnreachable, "upstream_fail", 1)
		})
	})
	t.Run("other", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Model: roundRobinPolicy}, func(e *edge, w rig.RequestType) {
			e.Engines[0].SetFault(sim.Fault{Spec: "refuse"})
			e.Engines[0].DropConns(1, false)
			e.wantRetried(w, 4)
		})
	})
	t.Run("close", func(t *testing.T) {
		t.Parallel()
		for _, w := range rig.TextRequestTypes {
			t.Run(w.String(), func(t *testing.T) {
				t.Parallel()
				url := listen(t, func(c net.Conn) { c.Close() })
				e := start(t, rig.Setup{Fakes: []string{url}, Cold: true})
				rig.WaitFor(t, rig.WaitTimeout, "no healthy route", func() bool { return strings.Contains(e.SendRequest(w, "").Body, "no_healthy_route") })
				e.SendRequest(w, "").WantRefused(w, rig.RefusalNoRoute)
			})
		}
	})
}

func TestFault04_ClosedBeforeAByte(t *testing.T) {
	t.Parallel()
	for i, fault := range []string{"reset-before", "eof-before"} {
		t.Run(fault+"/fresh", func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesForVariant(rig.RequestTypesWithAudio, i), rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				e.Engines[0].DropConns(1, false) // drops the probe's connection
				e.fault(fault)
				e.wantRefusedOnce(w, rig.RefusalUnreachable, "upstream_fail")
			})
		})
		t.Run(fault+"/reused", func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesForVariant(rig.RequestTypesWithAudio, i), rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				sent := int64(0)
				for resent := false; !resent; {
					e.SendRequest(w, "").VisibleText(w)
					e.Engines[0].SetFault(sim.Fault{Spec: fault, Count: 1})
					sent = e.sent()
					resent = e.askOnEndingConnection(w)
				}
				e.wantSent(sent + 2)
				if l := e.LastAccessLine(); l.Attempts != 2 || l.Outcome != "ok" {
					e.T.Errorf("the log says %+v", l)
				}
				e.fault(fault)
				r := e.SendRequest(w, "")
				r.WantRefused(w, rig.RefusalUnreachable)
				if r.Took < resendWithin {
					e.wantSent(sent + 4)
				}
			})
		})
		t.Run(fault+"/other", func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesForVariant(rig.RequestTypesWithAudio, i), rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Model: roundRobinPolicy}, func(e *edge, w rig.RequestType) {
				e.Engines[0].SetFault(sim.Fault{Spec: fault})
				e.wantRetried(w, 4)
			})
		})
		t.Run(fault+"/reused, then other", func(t *testing.T) { // the replay does not count as an attempt
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesForVariant(rig.RequestTypesWithAudio, i), rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Model: roundRobinPolicy}, func(e *edge, w rig.RequestType) {
				e.wantRetried(w, 4)
				e.Engines[0].SetFault(sim.Fault{Spec: fault})
				begun := time.Now()
				e.wantRetried(w, 4)
				most := 0
				for _, l := range e.AccessLinesWhenIdle() {
					most = max(most, l.Attempts)
				}
				// three attempts: on an idle and on a new connection to the failing engine, and at
				// the other engine
				if most != 3 && time.Since(begun) < resendWithin {
					e.T.Errorf("%d attempts at most, want 3", most)
				}
			})
		})
		t.Run(fault+"/both", func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesForVariant(rig.RequestTypesWithAudio, i), rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				e.fault(fault)
				e.SendRequest(w, "").WantRefused(w, rig.RefusalUnreachable)
				e.wantSent(2)
				e.wantAccessLine(w, rig.RefusalUnreachable, "upstream_fail", 2)
			})
		})
	}
}

func TestFault31_PooledConnectionIsStale(t *testing.T) {
	t.Parallel()
	for i, fault := range strings.Fields("keepalive-close;when=now keepalive-close;when=next keepalive-close;when=next-reset keepalive-close;when=now;after=20ms") {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesForVariant(rig.RequestTypesWithAudio, i), rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				e.fault(fault)
				for range 12 {
					e.askOnEndingConnection(w)
				}
				e.wantFewAttempts()
			})
		})
	}
}

func TestFault32_EngineRestarts(t *testing.T) {
	t.Parallel()
	forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Engines: rig.TwoEngines(), Upstream: "probe: { interval: 500ms, rise: 1 }"}, func(e *edge, w rig.RequestType) {
		e.wantRetried(w, 8)
		// Half of the connections are dropped, but the engine stays up, so clients must not notice.
		for range 5 {
			e.Engines[0].DropConns(.5, true)
			e.wantRetried(w, 4)
		}
		// The engine goes down and recovers. In the meantime, requests go to the other engine.
		e.Engines[0].Unlisten()
		e.Engines[0].DropConns(1, true)
		e.wantRetried(w, 20)
		rig.WaitFor(e.T, rig.WaitTimeout, "the dead engine is down", func() bool { return e.Metric("penstock_upstream_up", `up-0`) == 0 })
		asked := e.Metric("penstock_upstream_attempts_total", "up-0")
		e.wantRetried(w, 20)
		if n := e.Metric("penstock_upstream_attempts_total", "up-0"); n != asked {
			e.T.Errorf("%v calls were tried on an engine that is down", n-asked)
		}
		if err := e.Engines[0].Relisten(); err != nil {
			e.T.Fatal(err)
		}
		rig.WaitFor(e.T, rig.WaitTimeout, "the engine is up again", func() bool { return e.Metric("penstock_upstream_up", `up-0`) == 1 })
		e.Engines[1].Unlisten()
		e.Engines[1].DropConns(1, true)
		e.wantRetried(w, 4)
	})
	t.Run("one trial", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
			e.fault("status=500")
			// Once the breaker is open, the test must not send a call, because on a slow machine
			// the call would be a trial.
			rig.WaitFor(e.T, rig.WaitTimeout, "the breaker is open", func() bool {
				if e.Status().Upstreams[0].Breaker == "closed" {
					e.SendRequest(w, "")
				}
				return e.Status().Upstreams[0].Breaker != "closed"
			})
			e.Engines[0].Reset()
			// The delay is long enough for the engine to receive all calls during the trial.
			e.fault("status=500;delay=3s")
			rig.WaitFor(e.T, rig.WaitTimeout, "the breaker is half-open", func() bool { return e.Status().Upstreams[0].Breaker == "half-open" })
			bodies := make(chan *rig.Reply, 12)
			for range cap(bodies) {
				go func() { bodies <- e.SendRequest(w, "") }()
			}
			failed := 0
			for range cap(bodies) {
				if r := rig.Receive(e.T, rig.WaitTimeout, "every call is answered", bodies); strings.Contains(r.Body, "upstream_failed") {
					failed++
				} else {
					r.WantRefused(w, rig.RefusalNoRoute)
				}
			}
			if n := e.sent(); n != 1 || failed != 1 {
				e.T.Errorf("%d trials at once, %d answers of an engine", n, failed)
			}
		})
	})
}
