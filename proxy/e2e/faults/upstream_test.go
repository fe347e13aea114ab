package faults

import (
	"os"
	"strconv"
	"strings"
	"time"

	"penstock/bench/sim"
)

// What the rows about engines share.

// quiet keeps probes out of what a test plays; the first one has passed when start returns.
const quiet = "probe: { interval: 1h, timeout: 15s }"

// taking turns makes sure that of two engines the one at fault is asked.
const turns = "policy: round_robin"

func two() []sim.Options { return []sim.Options{{}, {}} }

// fault makes every engine misbehave.
func (e *edge) fault(spec string) {
	for _, engine := range e.engines {
		engine.SetFault(sim.Fault{Spec: spec})
	}
}

// retire takes an engine away: new connections are refused, open ones get a FIN.
func (e *edge) retire(i int) {
	e.engines[i].Unlisten()
	e.engines[i].Drop(1, false)
}

// sent is how many requests all engines have read.
func (e *edge) sent() int64 {
	n := int64(0)
	for _, engine := range e.engines {
		n += engine.Stats().Requests
	}
	return n
}

// wantSent checks what the engines saw.
func (e *edge) wantSent(want int64) {
	e.t.Helper()
	if n := e.sent(); n != want {
		e.t.Errorf("%d requests at the engines, want %d", n, want)
	}
}

// wantAborted waits until the engines have seen so many requests end because the edge left.
func (e *edge) wantAborted(want int64) {
	e.t.Helper()
	waitFor(e.t, patience, "the engine's connection is closed", func() bool {
		n := int64(0)
		for _, engine := range e.engines {
			n += engine.Stats().Aborted
		}
		return n == want
	})
}

// wantTold checks the newest access line and the answer's refusal against it.
func (e *edge) wantTold(w way, want refusal, outcome string, attempts int) {
	e.t.Helper()
	want = want.in(w.dialect)
	if l := e.lastCall(); l.Status != want.status || l.Code != want.code || l.Outcome != outcome || l.Attempts != attempts || l.Dialect != w.dialect {
		e.t.Errorf("the log says %+v, want %d %s %s after %d attempts", l, want.status, want.code, outcome, attempts)
	}
}

// wantResult checks how the attempts at engines were counted.
func (e *edge) wantResult(result string, want float64) {
	e.t.Helper()
	if n := e.metric("penstock_upstream_attempts_total", `result="`+result+`"`); n != want {
		e.t.Errorf("%v attempts ended as %s, want %v", n, result, want)
	}
}

// wantElsewhere checks that n requests are answered well although one of the engines fails, each within two attempts.
func (e *edge) wantElsewhere(w way, n int) {
	e.t.Helper()
	for range n {
		e.ask(w, "").text(w)
	}
	e.rest()
	e.checkBooks()
	for _, l := range e.calls() {
		if l.Attempts > 2 {
			e.t.Errorf("%d attempts", l.Attempts)
		}
	}
}

// wantFresh checks that the next request is well answered, over a new connection of the only engine.
func (e *edge) wantFresh(w way) {
	e.t.Helper()
	engine := e.engines[0]
	engine.SetFault()
	accepted := engine.Stats().Accepted
	wantSecret(e.t, "the next answer", e.ask(w, "").text(w), e.key)
	if engine.Stats().Accepted == accepted {
		e.t.Error("the connection was used again")
	}
}

// within checks that an answer did not take longer than a limit that has failed the row long before patience ends.
func (r *reply) within(limit time.Duration) {
	r.t.Helper()
	if r.took > limit {
		r.t.Errorf("took %v", r.took)
	}
}

// peakMemory is the largest resident size that the program has had, in bytes; 0 where the system does not tell.
func (p *process) peakMemory() int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	n, _ := strconv.ParseInt(strings.TrimSpace(strings.SplitN(rest, "kB", 2)[0]), 10, 64)
	return n << 10
}

// wantMemory checks that the program has never been larger than limit bytes.
func (e *edge) wantMemory(limit int64) {
	e.t.Helper()
	if raceOn {
		return // the detector needs several times the memory
	}
	if n := e.peakMemory(); n > limit {
		e.t.Errorf("the program has grown to %d MiB", n>>20)
	}
}
