package upstreams

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"penstock/upstreams/http1"
)

// TestVerdict checks the verdict on a probe, depending on whether the engine has calls and whether
// these make progress.
func TestVerdict(t *testing.T) {
	failed := func(k http1.FailureKind, reason, clock string) error {
		return &http1.Failure{Kind: k, Reason: reason, Clock: clock}
	}
	late := failed(http1.KindTimeout, http1.ReasonTimeout, http1.TimeoutAnswer)
	unaccepted := failed(http1.KindTimeout, http1.ReasonTimeout, http1.TimeoutConnect)
	for name, c := range map[string]struct {
		r    probeResult
		want probeVerdict
	}{
		"good":                           {probeResult{isHealthy: true}, verdictGood},
		"good beside work":               {probeResult{isHealthy: true, hasCalls: true, hasProgressed: true}, verdictGood},
		"another status":                 {probeResult{status: 503, hasCalls: true}, verdictBad},
		"late, idle":                     {probeResult{err: late}, verdictBad},
		"late beside work":               {probeResult{err: late, hasCalls: true}, verdictBusy},
		"late beside answers":            {probeResult{err: late, hasCalls: true, hasProgressed: true}, verdictProgress},
		"late after the last answer":     {probeResult{err: late, hasProgressed: true}, verdictProgress},
		"not accepted":                   {probeResult{err: unaccepted, hasCalls: true, hasProgressed: true}, verdictBad},
		"not accepted by a living host":  {probeResult{err: unaccepted, hasCalls: true, hostResponds: true}, verdictBusy},
		"refused beside work":            {probeResult{err: errRefused, hasCalls: true, hasProgressed: true}, verdictUnreachable},
		"reset":                          {probeResult{err: failed(http1.KindUnreachable, http1.ReasonReset, "")}, verdictUnreachable},
		"closed before an answer":        {probeResult{err: failed(http1.KindUnreachable, http1.ReasonEOF, "")}, verdictUnreachable},
		"a name that does not resolve":   {probeResult{err: failed(http1.KindUnreachable, http1.ReasonDNS, ""), hasCalls: true}, verdictBad},
		"asleep":                         {probeResult{err: errAsleep, hasCalls: true}, verdictBad},
		"no HTTP":                        {probeResult{err: failed(http1.KindBadResponse, http1.ReasonInvalid, ""), hasCalls: true}, verdictBad},
		"a page that is too large":       {probeResult{err: http1.ErrPageTooLarge, hasCalls: true}, verdictBad},
		"another error, whatever it was": {probeResult{err: errors.New("other"), hasCalls: true}, verdictBad},
	} {
		if got := c.r.verdict(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestBusyEnd checks which facts about a busy upstream make it leave the busy state.
func TestBusyEnd(t *testing.T) {
	for name, c := range map[string]struct {
		f    busyProgress
		want busyVerdict
	}{
		"at first":                        {busyProgress{}, busyVerdictContinue},
		"nothing for less than a minute":  {busyProgress{silentFor: time.Minute - 1}, busyVerdictContinue},
		"for a minute":                    {busyProgress{silentFor: time.Minute}, busyVerdictDown},
		"its answers take 10 s":           {busyProgress{silentFor: time.Minute, longestWaitedResponse: 10 * time.Second}, busyVerdictDown},
		"its answers take 30 s":           {busyProgress{silentFor: time.Minute, longestWaitedResponse: 30 * time.Second}, busyVerdictContinue},
		"for longer than three of them":   {busyProgress{silentFor: 90 * time.Second, longestWaitedResponse: 30 * time.Second}, busyVerdictDown},
		"something came":                  {busyProgress{hasProgressed: true, silentFor: time.Hour}, busyVerdictUp},
		"its counters stand":              {busyProgress{countersStuck: true, silentFor: 20 * time.Second}, busyVerdictStalled},
		"for longer than it may be still": {busyProgress{countersStuck: true, silentFor: time.Minute}, busyVerdictDown},
	} {
		if got := c.f.verdict(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestBusyUnheard checks that the calls of a silent busy upstream are retried elsewhere after half
// a minute, and that the upstream is suspected after ten seconds. If responses are usually slow,
// both times are longer.
func TestBusyUnheard(t *testing.T) {
	for _, c := range []struct {
		still, longest time.Duration
		want           bool
	}{
		{30*time.Second - 1, 0, false},
		{30 * time.Second, 0, true},
		{30 * time.Second, 20 * time.Second, true},
		{59 * time.Second, 40 * time.Second, false},
		{60 * time.Second, 40 * time.Second, true},
	} {
		if got := (busyProgress{silentFor: c.still, longestWaitedResponse: c.longest}).shouldRetryElsewhere(); got != c.want {
			t.Errorf("%v of silence, answers of %v: %t", c.still, c.longest, got)
		}
	}
	for _, c := range []struct {
		still, longest time.Duration
		want           bool
	}{
		{10*time.Second - 1, 0, false},
		{10 * time.Second, 0, true},
		{40 * time.Second, 30 * time.Second, false}, // responses from this engine are usually slow
		{45 * time.Second, 30 * time.Second, true},
	} {
		if got := (busyProgress{silentFor: c.still, longestResponse: c.longest}).isSuspect(); got != c.want {
			t.Errorf("%v of silence, answers of %v: suspect is %t", c.still, c.longest, got)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.WarnLevel)
		r := busyRig(t, Options{Log: zap.New(core)}, 1)
		r.waitForState(t, StateBusy)
		r.markWaiting(t)
		suspected := func() int { return lines.FilterField(zap.String("event", "upstream_suspect")).Len() }
		sleepAndSettle(4 * time.Second)
		if s := r.Status(time.Now()); s.Unheard != 0 || suspected() != 0 {
			t.Errorf("suspected after %v s, %d warnings", s.Unheard, suspected())
		}
		sleepAndSettle(9 * time.Second)
		if s := r.Status(time.Now()); s.State != "busy" || s.Unheard < 9 || s.Unheard > 20 || suspected() != 1 {
			t.Errorf("%s, nothing for %v s, %d warnings", s.State, s.Unheard, suspected())
		}
		sleepAndSettle(7 * time.Second)
		if r.Health.ShouldRetryElsewhere() {
			t.Error("calls leave it within half a minute")
		}
		sleepAndSettle(15 * time.Second)
		if s := r.Status(time.Now()); !r.Health.ShouldRetryElsewhere() || s.State != "busy" || s.Unheard < 30 || s.Unheard > 40 {
			t.Errorf("%s, nothing for %v s", s.State, s.Unheard)
		}
		if n := lines.FilterMessageSnippet("does not answer its probes").Len(); n != 1 {
			t.Errorf("%d warnings about unanswered probes, want 1", n)
		}
		r.played.set(http.StatusOK, 0)
		if r.waitForState(t, StateUp); r.Health.ShouldRetryElsewhere() {
			t.Error("doubtful while up")
		}
	})
}

// busyRig returns an upstream with running calls, whose engine no longer answers probes and
// scrapes.
func busyRig(t *testing.T, o Options, calls int) *stallRig {
	r := newStallRig(t, o, "vllm", calls)
	r.played.set(http.StatusOK, time.Hour)
	return r
}

// waitForState waits for the upstream to reach a state, and returns the elapsed time.
func (r *stallRig) waitForState(t *testing.T, s State) time.Duration {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < 10*time.Minute; sleepAndSettle(100 * time.Millisecond) {
		if r.State() == s {
			return time.Since(begun)
		}
	}
	t.Fatalf("%v, want %v", r.State(), s)
	return 0
}

func (r *stallRig) markWaiting(t *testing.T) {
	for _, l := range r.leases {
		l.model = r.Models.FindModel("m")
		l.AddWaiting(1)
		t.Cleanup(func() { l.AddWaiting(-1) })
	}
}

// TestBusy checks that an engine that does not answer its probes during a call stays in service but
// gets no other calls. It comes up as soon as it answers a probe.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.InfoLevel)
		r := busyRig(t, Options{Log: zap.New(core)}, 1)
		if at := r.waitForState(t, StateBusy); at > 4*time.Second {
			t.Errorf("busy after %v", at)
		}
		r.markWaiting(t)
		sleepAndSettle(45 * time.Second)
		if _, ok := r.TryLease("", PoolText, 1, time.Now()); ok || r.State() != StateBusy {
			t.Fatalf("state %v, a lease: %t; want busy without a lease", r.State(), ok)
		}
		if l := r.Load(PoolText, time.Now()); l.Taken < l.Limit || l.Active != 1 {
			t.Errorf("%d taken, %d active of %d", l.Taken, l.Active, l.Limit)
		}
		r.played.set(http.StatusOK, 0)
		if at := r.waitForState(t, StateUp); at > 12*time.Second {
			t.Errorf("up after %v", at)
		}
		if _, ok := r.TryLease("", PoolText, 1, time.Now()); !ok {
			t.Error("no lease")
		}
		var logged []any
		for _, l := range lines.FilterMessage("upstream changed state").All() {
			logged = append(logged, l.ContextMap()["event"])
		}
		if want := []any{"upstream_up", "upstream_busy", "upstream_up"}; !slices.Equal(logged, want) {
			t.Errorf("logged %v, want %v", logged, want)
		}
	})
}

// TestBusyFirstCheck checks that the first check of a busy upstream does not end the busy state.
// That check may still include progress from before the state began. The next check can end the
// state.
func TestBusyFirstCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := busyRig(t, Options{}, 1)
		r.waitForState(t, StateBusy)
		now := time.Now().Add(time.Millisecond)
		l := progressChecker{progress: progressTracker{progressedAt: now}}
		r.probeControl.prober.judgeBusy(&l, now)
		if s := r.State(); s != StateBusy {
			t.Errorf("%v after the first look", s)
		}
		l.progress.progressedAt = now.Add(progressCheckInterval)
		r.probeControl.prober.judgeBusy(&l, l.progress.progressedAt)
		if s := r.State(); s != StateUp {
			t.Errorf("%v after a sign of work", s)
		}
	})
}

// TestBusyToDown checks that a busy engine that shows no sign of work goes down after a minute or,
// if that is longer, after three times its longest response. If the engine refuses its probe, it
// goes down immediately.
func TestBusyToDown(t *testing.T) {
	for name, c := range map[string]struct {
		longest     time.Duration
		then        func(*stallRig)
		least, most time.Duration
	}{
		"a minute":             {0, nil, 56 * time.Second, 61 * time.Second},
		"answers of 10 s":      {10 * time.Second, nil, 56 * time.Second, 61 * time.Second},
		"answers of 40 s":      {40 * time.Second, nil, 116 * time.Second, 121 * time.Second},
		"refused":              {0, func(r *stallRig) { r.played.set(0, 0) }, 0, 12 * time.Second},
		"its calls have left":  {0, func(r *stallRig) { r.endAs(OutcomeClientGone) }, 0, 20 * time.Second},
		"one of two has left":  {0, func(r *stallRig) { r.leases[0].Release(OutcomeClientGone); r.leases = r.leases[1:] }, 56 * time.Second, 61 * time.Second},
		"some answers in vain": {0, func(r *stallRig) { r.client.answerWatch.RecordBytes(http.StatusServiceUnavailable, []byte("x")) }, 56 * time.Second, 61 * time.Second},
		"a generation probe":   {0, func(r *stallRig) { r.endAs(OutcomeTimeout) }, 0, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, lines := observer.New(zap.WarnLevel)
				r := busyRig(t, Options{Log: zap.New(core)}, 2)
				r.Models.FindModel("m").responses.record(c.longest, MomentOf(time.Now()))
				r.waitForState(t, StateBusy)
				if c.then == nil || c.least > 0 {
					r.markWaiting(t)
				}
				if c.then != nil {
					c.then(r)
				}
				if at := r.waitForState(t, StateDown); at < c.least || at > c.most {
					t.Errorf("down after %v, want %v to %v", at, c.least, c.most)
				}
				if told := lines.FilterMessageSnippet("for too long").FilterFieldKey("remedy").Len(); told != min(1, int(c.least)) {
					t.Errorf("%d lines say what to do about the silence", told)
				}
				if silent := c.least > 0; r.Health.IsSilent() != silent {
					t.Errorf("silent: %t, want %t", !silent, silent)
				}
				r.played.set(http.StatusOK, 0)
				if r.waitForState(t, StateUp); r.Health.IsSilent() {
					t.Error("silent while up")
				}
			})
		})
	}
}

func (r *stallRig) endAs(o Outcome) {
	for _, l := range r.leases {
		l.Release(o)
	}
	r.leases = nil
}

// TestBusyWorks checks that each sign of progress brings a busy upstream up, and restarts the time
// for which it may be silent.
func TestBusyWorks(t *testing.T) {
	for name, sign := range map[string]func(*stallRig){
		"an answer is read": func(r *stallRig) { r.client.answerWatch.RecordBytes(http.StatusOK, []byte("x")) },
		"a call has ended":  func(r *stallRig) { r.leases[0].Release(OutcomeOK); r.leases = r.leases[1:] },
		"one was refused":   func(r *stallRig) { r.leases[0].Release(OutcomeRejected); r.leases = r.leases[1:] },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := busyRig(t, Options{}, 2)
				r.waitForState(t, StateBusy)
				r.markWaiting(t)
				sleepAndSettle(50 * time.Second)
				sign(r)
				if at := r.waitForState(t, StateUp); at > 2*time.Second {
					t.Errorf("up after %v", at)
				}
				r.waitForState(t, StateBusy)
				sleepAndSettle(40 * time.Second)
				if r.State() != StateBusy {
					t.Errorf("%v 90 s after the first call", r.State())
				}
			})
		})
	}
}

// TestBusyCounts checks that readable counters decide how long a busy upstream stays busy. While
// the counters change, there is no limit. If the counters no longer change, the upstream stalls.
func TestBusyCounts(t *testing.T) {
	for _, moves := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newStallRig(t, Options{}, "vllm", 2)
			r.counts(100)
			r.answers(20)
			quiet := time.Now()
			r.played.mu.Lock()
			r.played.well = time.Hour
			r.played.mu.Unlock()
			r.waitForState(t, StateBusy)
			r.markWaiting(t)
			for i := range 300 {
				if moves {
					r.counts(101 + i)
				}
				sleepAndSettle(time.Second)
				if s := r.State(); s == StateDown || moves && s == StateStalled {
					t.Fatalf("counters move: %t, %v after %d s", moves, s, i)
				} else if s == StateStalled {
					if d := time.Since(quiet); d < 9*time.Second || d > 25*time.Second {
						t.Errorf("stalled after %v", d)
					}
					return
				}
			}
			if !moves {
				t.Error("not stalled")
			}
		})
	}
}

// TestStoppedAfterStall checks that a stalled engine that no longer answers probes goes down,
// instead of becoming busy.
func TestStoppedAfterStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStallRig(t, Options{}, "vllm", 2)
		r.counts(100)
		r.answers(20)
		r.markWaiting(t)
		r.waitForState(t, StateStalled)
		r.played.set(http.StatusOK, time.Hour)
		if at := r.waitForState(t, StateDown); at > 12*time.Second {
			t.Errorf("down after %v", at)
		}
		if !r.Health.IsSilent() {
			t.Error("its calls are not told")
		}
	})
}

// TestAnswerTimes checks that the longest response no longer counts after some time.
func TestAnswerTimes(t *testing.T) {
	var a responseTimes
	now := Moment(0)
	for _, c := range []struct{ after, took, want time.Duration }{
		{0, time.Second, time.Second},
		{time.Minute, 40 * time.Second, 40 * time.Second},
		{time.Minute, time.Second, 40 * time.Second},
		{longestResponseAge, 2 * time.Second, 2 * time.Second},
	} {
		now += Moment(c.after)
		if a.record(c.took, now); a.longest.Load() != int64(c.want) {
			t.Errorf("after %v: %v, want %v", c.took, time.Duration(a.longest.Load()), c.want)
		}
	}
}
