package faults

import (
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// This file contains helpers for the rows about engines.

// roundRobinPolicy makes two engines receive calls alternately, so that the faulty engine receives
// some calls.
const roundRobinPolicy = "policy: round_robin"

func (e *edge) fault(spec string) {
	for _, engine := range e.Engines {
		engine.SetFault(sim.Fault{Spec: spec})
	}
}

// stopEngine stops an engine: new connections are refused, and open connections are closed with a FIN.
func (e *edge) stopEngine(i int) {
	e.Engines[i].Unlisten()
	e.Engines[i].DropConns(1, false)
}

// sent returns how many requests the engines have read in total. It does not count the edge's
// generation probes.
func (e *edge) sent() int64 {
	n := int64(0)
	for _, engine := range e.Engines {
		s := engine.Stats()
		n += s.Requests - s.Tests
	}
	return n
}

func (e *edge) wantSent(want int64) {
	e.T.Helper()
	if n := e.sent(); n != want {
		e.T.Errorf("%d requests at the engines, want %d", n, want)
	}
}

// wantAborted waits until the engines have counted the given number of requests that ended because
// the edge closed the connection.
func (e *edge) wantAborted(want int64) {
	e.T.Helper()
	rig.WaitFor(e.T, rig.WaitTimeout, "the engine's connection is closed", func() bool {
		n := int64(0)
		for _, engine := range e.Engines {
			n += engine.Stats().Aborted
		}
		return n == want
	})
}

// wantRefusedOnce checks that a request is refused as expected, without a second attempt, and that
// the log shows the same refusal.
func (e *edge) wantRefusedOnce(w rig.RequestType, want rig.Refusal, outcome string) {
	e.T.Helper()
	e.SendRequest(w, "").WantRefused(w, want)
	e.wantSent(1)
	e.wantAccessLine(w, want, outcome, 1)
}

// wantAccessLine checks that the newest access line shows the expected refusal, outcome and attempts.
func (e *edge) wantAccessLine(w rig.RequestType, want rig.Refusal, outcome string, attempts int) {
	e.T.Helper()
	want = want.InDialect(w.Dialect)
	if l := e.LastAccessLine(); l.Status != want.Status || l.Code != want.Code || l.Outcome != outcome || l.Attempts != attempts || l.Dialect != w.Dialect {
		e.T.Errorf("the log says %+v, want %d %s %s after %d attempts", l, want.Status, want.Code, outcome, attempts)
	}
}

// wantResult checks how the attempts at engines were counted.
func (e *edge) wantResult(result string, want float64) {
	e.T.Helper()
	if n := e.Metric("penstock_upstream_attempts_total", `result="`+result+`"`); n != want {
		e.T.Errorf("%v attempts ended as %s, want %v", n, result, want)
	}
}

// wantRetried checks that n requests are answered even though one engine fails. Each request may
// fail at only one engine. That engine may receive the request twice if the first attempt was on a
// dead keep-alive connection.
func (e *edge) wantRetried(w rig.RequestType, n int) {
	e.T.Helper()
	for range n {
		e.SendRequest(w, "").VisibleText(w)
	}
	e.wantFewAttempts()
}

func (e *edge) wantFewAttempts() {
	e.T.Helper()
	for _, l := range e.AccessLinesWhenIdle() {
		if l.Attempts > 3 || len(l.Failed) > 1 {
			e.T.Errorf("%d attempts, failed: %v", l.Attempts, l.Failed)
		}
	}
}

// resendWithin is a time limit. If a keep-alive connection ends within this time after a request,
// the edge sends the request again.
const resendWithin = time.Second

// askOnEndingConnection sends a request for which the edge uses a keep-alive connection that the
// only engine then closes. The edge must send the request again without the client noticing. If a
// busy machine delays the engine for longer than resendWithin, the engine may have processed the
// request, so the edge must refuse it. In that case, askOnEndingConnection returns false.
func (e *edge) askOnEndingConnection(w rig.RequestType) (resent bool) {
	e.T.Helper()
	r := e.SendRequest(w, "")
	if r.Status != 200 && r.Took >= resendWithin {
		r.WantRefused(w, rig.RefusalUnreachable)
		return false
	}
	r.VisibleText(w)
	return true
}

// wantNewConnection checks that the next request is answered over a new connection to the only engine.
func (e *edge) wantNewConnection(w rig.RequestType) {
	e.T.Helper()
	engine := e.Engines[0]
	engine.SetFault()
	accepted := engine.Stats().Accepted
	rig.WantNoLeak(e.T, "the next answer", e.SendRequest(w, "").VisibleText(w), e.Key)
	if engine.Stats().Accepted == accepted {
		e.T.Error("the connection was used again")
	}
}
