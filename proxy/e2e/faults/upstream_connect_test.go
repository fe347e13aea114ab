package faults

import (
	"net"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
)

// Rows 1 to 4, 31 and 32: an engine that cannot be reached, and connections that are lost before an answer has begun.

func TestFault01_ConnectionRefused(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		inWays(t, everyWay, setup{upstream: quiet}, func(e *edge, w way) {
			e.retire(0)
			r := e.ask(w, "")
			r.wantRefused(w, unreachable)
			r.within(2 * time.Second) // that is the connect limit, and far less than the clock of an answer
			e.wantTold(w, unreachable, "upstream_fail", 1)
			e.wantResult("unreachable", 1)
			waitFor(e.t, patience, "no healthy route", func() bool {
				return e.ask(w, "").header.Get("Retry-After") != "" && e.status().Upstreams[0].State == "down"
			})
			e.ask(w, "").wantRefused(w, noRoute)
			e.wantTold(w, noRoute, "no_route", 0)
		})
	})
	t.Run("other", func(t *testing.T) {
		t.Parallel()
		inWays(t, everyWay, setup{engines: two(), upstream: quiet, model: turns}, func(e *edge, w way) {
			e.retire(0)
			e.wantElsewhere(w, 6)
			if n := e.metric("penstock_upstream_attempts_total", `upstream="up-0"`, `result="unreachable"`); n < 1 || n > 2 {
				e.t.Errorf("%v attempts at the dead engine", n)
			}
		})
	})
	t.Run("of four", func(t *testing.T) {
		t.Parallel()
		inWays(t, everyWay, setup{engines: append(two(), two()...), upstream: quiet}, func(e *edge, w way) {
			for i := range e.engines {
				e.retire(i)
			}
			e.ask(w, "").wantRefused(w, unreachable)
			e.wantTold(w, unreachable, "upstream_fail", 2)
		})
	})
}

func TestFault02_NameDoesNotResolve(t *testing.T) {
	t.Parallel()
	// Go answers for .onion by itself (RFC 7686), so that no resolver outside of this machine is asked.
	const dead = "http://engine.onion:8000"
	inWays(t, everyWay, setup{cold: true, fakes: []string{dead}}, func(e *edge, w way) {
		for range 3 {
			r := e.ask(w, "")
			r.within(2 * time.Second)
			if want := unreachable.in(w.dialect); r.status == want.status && strings.Contains(r.body, want.code) {
				r.wantRefused(w, unreachable)
			} else {
				r.wantRefused(w, noRoute)
			}
		}
	})
	t.Run("other", func(t *testing.T) {
		t.Parallel()
		inWays(t, everyWay, setup{cold: true, engines: two()[:1], fakes: []string{dead}, model: turns}, func(e *edge, w way) {
			e.wantElsewhere(w, 5)
		})
	})
	t.Run("watched", func(t *testing.T) { // `resolve`: the name is asked for in the background, and the start does not wait for it
		t.Parallel()
		inWays(t, everyWay, setup{cold: true, engines: two()[:1], fakes: []string{dead}, upstream: "resolve: 1s", model: turns}, func(e *edge, w way) {
			e.wantElsewhere(w, 3)
		})
	})
}

func TestFault03_AcceptsAndCloses(t *testing.T) {
	t.Parallel()
	t.Run("reset", func(t *testing.T) {
		t.Parallel()
		inWays(t, everyWay, setup{upstream: quiet}, func(e *edge, w way) {
			e.fault("refuse")
			e.engines[0].Drop(1, false)
			r := e.ask(w, "")
			r.wantRefused(w, unreachable)
			r.within(2 * time.Second)
			e.wantSent(0)
			e.wantTold(w, unreachable, "upstream_fail", 1)
		})
	})
	t.Run("other", func(t *testing.T) {
		t.Parallel()
		inWays(t, everyWay, setup{engines: two(), upstream: quiet, model: turns}, func(e *edge, w way) {
			e.engines[0].SetFault(sim.Fault{Spec: "refuse"})
			e.engines[0].Drop(1, false)
			e.wantElsewhere(w, 4)
		})
	})
	t.Run("close", func(t *testing.T) {
		t.Parallel()
		for _, w := range allWays {
			t.Run(w.String(), func(t *testing.T) {
				t.Parallel()
				url := listen(t, func(c net.Conn) { c.Close() })
				e := start(t, setup{fakes: []string{url}, cold: true})
				waitFor(t, patience, "no healthy route", func() bool { return strings.Contains(e.ask(w, "").body, "no_healthy_route") })
				e.ask(w, "").wantRefused(w, noRoute)
			})
		}
	})
}

func TestFault04_ClosedBeforeAByte(t *testing.T) {
	t.Parallel()
	for i, fault := range []string{"reset-before", "eof-before"} {
		t.Run(fault+"/fresh", func(t *testing.T) {
			t.Parallel()
			inWays(t, variants(everyWay, i), setup{upstream: quiet}, func(e *edge, w way) {
				e.engines[0].Drop(1, false) // the connection of the probe
				e.fault(fault)
				e.ask(w, "").wantRefused(w, unreachable)
				e.wantSent(1)
				e.wantTold(w, unreachable, "upstream_fail", 1)
			})
		})
		t.Run(fault+"/reused", func(t *testing.T) {
			t.Parallel()
			inWays(t, variants(everyWay, i), setup{upstream: quiet}, func(e *edge, w way) {
				e.ask(w, "").text(w)
				e.engines[0].SetFault(sim.Fault{Spec: fault, Count: 1})
				e.ask(w, "").text(w) // once more on a fresh one, and nobody notices
				e.wantSent(3)
				if l := e.lastCall(); l.Attempts != 2 || l.Outcome != "ok" {
					e.t.Errorf("the log says %+v", l)
				}
				e.fault(fault)
				e.ask(w, "").wantRefused(w, unreachable)
				e.wantSent(5)
			})
		})
		t.Run(fault+"/other", func(t *testing.T) {
			t.Parallel()
			inWays(t, variants(everyWay, i), setup{engines: two(), upstream: quiet, model: turns}, func(e *edge, w way) {
				e.engines[0].SetFault(sim.Fault{Spec: fault})
				e.wantElsewhere(w, 4)
			})
		})
		t.Run(fault+"/both", func(t *testing.T) {
			t.Parallel()
			inWays(t, variants(everyWay, i), setup{engines: two(), upstream: quiet}, func(e *edge, w way) {
				e.fault(fault)
				e.ask(w, "").wantRefused(w, unreachable)
				e.wantSent(2)
				e.wantTold(w, unreachable, "upstream_fail", 2)
			})
		})
	}
}

func TestFault31_PooledConnectionIsStale(t *testing.T) {
	t.Parallel()
	for i, fault := range strings.Fields("keepalive-close;when=now keepalive-close;when=next keepalive-close;when=next-reset keepalive-close;when=now;after=20ms") {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			inWays(t, variants(everyWay, i), setup{upstream: quiet}, func(e *edge, w way) {
				e.fault(fault)
				e.wantElsewhere(w, 12)
			})
		})
	}
}

func TestFault32_EngineRestarts(t *testing.T) {
	t.Parallel()
	inWays(t, everyWay, setup{engines: two(), upstream: "probe: { interval: 200ms, rise: 1 }"}, func(e *edge, w way) {
		e.wantElsewhere(w, 8)
		for range 5 { // half of the connections go, the engine stays: nobody notices
			e.engines[0].Drop(.5, true)
			e.wantElsewhere(w, 4)
		}
		// It goes away and comes back: requests go on elsewhere.
		e.engines[0].Unlisten()
		e.engines[0].Drop(1, true)
		e.wantElsewhere(w, 20)
		waitFor(e.t, patience, "the dead engine is down", func() bool { return e.metric("penstock_upstream_up", `up-0`) == 0 })
		asked := e.metric("penstock_upstream_attempts_total", "up-0")
		e.wantElsewhere(w, 20)
		if n := e.metric("penstock_upstream_attempts_total", "up-0"); n != asked {
			e.t.Errorf("%v calls were tried on an engine that is down", n-asked)
		}
		if err := e.engines[0].Relisten(); err != nil {
			e.t.Fatal(err)
		}
		waitFor(e.t, patience, "the engine is up again", func() bool { return e.metric("penstock_upstream_up", `up-0`) == 1 })
		e.engines[1].Unlisten()
		e.engines[1].Drop(1, true)
		e.wantElsewhere(w, 4)
	})
	t.Run("one trial", func(t *testing.T) {
		t.Parallel()
		inWays(t, everyWay, setup{upstream: quiet}, func(e *edge, w way) {
			e.fault("status=500")
			waitFor(e.t, patience, "the breaker is open", func() bool { e.ask(w, ""); return e.status().Upstreams[0].Breaker == "open" })
			e.ask(w, "").wantRefused(w, noRoute)
			e.engines[0].Reset()
			e.fault("status=500;delay=1s") // long enough for all of them to come while the trial runs
			waitFor(e.t, patience, "the breaker is half-open", func() bool { return e.status().Upstreams[0].Breaker == "half-open" })
			bodies := make(chan *reply, 12)
			for range cap(bodies) {
				go func() { bodies <- e.ask(w, "") }()
			}
			failed := 0
			for range cap(bodies) {
				if r := <-bodies; strings.Contains(r.body, "upstream_failed") {
					failed++
				} else {
					r.wantRefused(w, noRoute)
				}
			}
			if n := e.sent(); n != 1 || failed != 1 {
				e.t.Errorf("%d trials at once, %d answers of an engine", n, failed)
			}
		})
	})
}
