package sim

import (
	"math"
	"sync/atomic"
	"time"

	"penstock/bench/sim/textgen"
)

// slowdown can slow down or stall the whole engine.
type slowdown struct {
	stalled    atomic.Int64  // end of the stall in Unix nanoseconds, or 0
	slowFactor atomic.Uint64 // Float64bits of the factor that multiplies all times; 0 means a factor of 1
}

func (w *slowdown) clear() {
	w.stalled.Store(0)
	w.slowFactor.Store(0)
}

func (w *slowdown) stall(d time.Duration) { w.stalled.Store(time.Now().Add(d).UnixNano()) }

func (w *slowdown) scaleDuration(d time.Duration) time.Duration {
	bits := w.slowFactor.Load()
	if bits == 0 || d == 0 {
		return d
	}
	return time.Duration(float64(d) * math.Float64frombits(bits))
}

// stallLeft returns how long the engine will remain stalled.
func (w *slowdown) stallLeft() time.Duration {
	until := w.stalled.Load()
	if until == 0 {
		return 0
	}
	return max(0, time.Duration(until-time.Now().UnixNano()))
}

// stallPollInterval is the interval at which a stalled request checks whether the stall has ended.
const stallPollInterval = 50 * time.Millisecond

// waitStall waits until the stall has ended. It returns false if the client left.
func (w *slowdown) waitStall(out *bodyWriter) bool {
	for d := w.stallLeft(); d > 0; d = w.stallLeft() {
		// pause only briefly, because Reset may end the stall.
		if !out.flush() || !out.client.pause(min(d, stallPollInterval)) {
			return false
		}
	}
	return true
}

// prefillEnd returns the time at which the prefill of the given number of prompt tokens will be
// complete, and how long the engine takes to read these tokens.
func (a *answer) prefillEnd(tokens int) (due time.Time, read time.Duration) {
	e, now := a.e, time.Now()
	if a.x.knobs.TTFT >= 0 {
		return now.Add(time.Duration(a.x.knobs.TTFT)), 0
	}
	if e.o.PrefillRate > 0 {
		read = e.slowdown.scaleDuration(time.Duration(float64(tokens) / e.o.PrefillRate * float64(time.Second)))
	}
	wait := e.slowdown.scaleDuration(e.o.Latency)
	if !e.o.SharedPrefill {
		return now.Add(wait + read), 0
	}
	return e.prefillLine.Reserve(now, read).Add(wait), read
}

// tokenGap returns the time until the next token, given the current batch size and slowdown.
func (a *answer) tokenGap() time.Duration {
	if a.x.knobs.Gap >= 0 {
		return time.Duration(a.x.knobs.Gap)
	}
	o := &a.e.o
	var d time.Duration
	if o.TokenRate > 0 {
		d = time.Duration(float64(time.Second) / o.TokenRate)
	}
	if o.BatchCost > 0 {
		d += o.BatchCost * time.Duration(max(0, a.e.slots.Running()-1))
	}
	if o.Jitter > 0 {
		u := float64(textgen.MixHash(a.q.Prompt.Hash^o.Seed, uint64(a.state.Spoken)+7)>>11) / (1 << 52)
		d = time.Duration(float64(d) * (1 + o.Jitter*(u-1)))
	}
	return a.e.slowdown.scaleDuration(d)
}

// throughput returns the total number of tokens per second that the given number of running
// requests generate, or 0 if tokens take no time.
func throughput(e *Engine, running int) float64 {
	if running == 0 || e.o.TokenRate == 0 {
		return 0
	}
	gap := e.slowdown.scaleDuration(time.Duration(float64(time.Second)/e.o.TokenRate) + e.o.BatchCost*time.Duration(running-1))
	return float64(running) / gap.Seconds()
}

// waitStallOrPreemption waits while the engine is stalled, or while a preempted request has no
// slot. It adds the waiting time to tick, so that all later steps are delayed by the same time. It
// returns false if the client left.
func (a *answer) waitStallOrPreemption(tick *time.Time) bool {
	e, x := a.e, a.x
	if !a.slotHolder.WasPreempted() && e.slowdown.stallLeft() == 0 {
		return true
	}
	if !x.out.flush() {
		return false
	}
	if a.slotHolder.WasPreempted() {
		e.counters.preempted.Add(1)
		if err := e.slots.Requeue(a.slotHolder, x.client.stopSignal()); err != nil {
			a.slotHolder, x.client.lost = nil, true
			return false
		}
		due, read := a.prefillEnd(a.state.Prompt + a.state.Spoken - e.cache.Lookup(a.q.Prompt.Blocks, a.state.Prompt))
		if !x.client.pauseUntil(due) {
			e.prefillLine.ReturnUnusedTime(read, due)
			return false
		}
	}
	if !e.slowdown.waitStall(&x.out) {
		return false
	}
	if now := time.Now(); tick.Before(now) {
		*tick = now
	}
	return true
}

// A goroutine that generates an unstreamed response does not wake up for each token. It checks the
// batch size after this many tokens or after this much time.
const (
	strideTokens = 8
	strideTime   = 20 * time.Millisecond
)

// waitUnstreamed waits as long as an unstreamed response takes, and counts the tokens of the
// response. steps is the number of tokens in the longest choice. It returns false if the client
// left.
func (a *answer) waitUnstreamed(steps int) bool {
	tick := a.first
	for done := min(steps, 1); ; {
		a.addTokens(a.tokensAfterSteps(done) - a.state.Spoken)
		if done == steps {
			return true
		}
		gap := a.tokenGap()
		n := min(strideTokens, steps-done)
		if gap > 0 {
			n = min(n, max(1, int(strideTime/gap)))
		}
		if gap <= 0 && a.e.slowdown.stallLeft() == 0 && !a.slotHolder.WasPreempted() {
			done += n
			continue
		}
		tick = tick.Add(time.Duration(n) * gap)
		if !a.x.client.pauseUntil(tick) || !a.waitStallOrPreemption(&tick) {
			if a.slotHolder != nil && gap > 0 { // count the tokens that have been generated so far
				a.addTokens(a.tokensAfterSteps(done+max(0, n-1-int(time.Until(tick)/gap))) - a.state.Spoken)
			}
			return false
		}
		done += n
	}
}

func (a *answer) tokensAfterSteps(steps int) int {
	n := 0
	for i := range a.choices {
		n += min(a.choices[i].Total, steps)
	}
	return n
}
