package load

import (
	"cmp"
	"slices"

	"penstock/bench/load/client"
	"penstock/bench/result"
)

// findings contains the records of a run and evaluates them. The records must not be read while a
// request is in flight.
type findings struct {
	s        *settings
	samples  []client.Sample
	gaps     map[gapKey]*client.GapHistogram
	stages   []completedStage
	happened []result.Event
}

// sampleFilter selects samples for a summary.
type sampleFilter func(gapKey) bool

// sampleGroupKey returns the smallest group to which a sample belongs.
func sampleGroupKey(s *client.Sample) gapKey {
	return gapKey{s.Stage, s.Dialect, s.Edge.Upstream, s.Target}
}

// summary summarises the samples of a group. seconds is the wall time by which counts are divided
// to get rates.
func (f *findings) summary(in sampleFilter, seconds float64) result.Summary {
	out := result.Summary{
		Seconds: seconds, Latency: map[string]*result.Distribution{}, Errors: []result.ErrorCount{},
		StreamFaults: map[string]int{}, Unmeasured: map[string]string{},
	}
	hists := map[string]*result.Histogram{}
	for _, m := range result.AllMeasures() {
		hists[m] = new(result.Histogram)
	}
	var t nonLatencySums
	errs := map[result.ErrorCount]*result.ErrorCount{}
	for i := range f.samples {
		s := &f.samples[i]
		if s.Stage == warmupStage || !in(sampleGroupKey(s)) || s.Err == result.ErrInterrupted {
			continue
		}
		out.Requests++
		for _, fault := range s.Faults.Names() {
			out.StreamFaults[fault]++
		}
		if v := s.Latency(result.ScheduleDelay); v != client.MissingValue {
			hists[result.ScheduleDelay].Record(v)
		}
		if v := s.At.Connect; v != client.MissingValue {
			hists[result.Connect].Record(v)
		}
		switch {
		case s.Left:
			out.Left++
			continue
		case s.Failed():
			out.Failed++
			kind := result.ErrorCount{Kind: s.Err, Status: failureStatus(s), Code: s.Code}
			e := errs[kind]
			if e == nil {
				e = &result.ErrorCount{Kind: kind.Kind, Status: kind.Status, Code: kind.Code}
				errs[kind] = e
			}
			if e.Count++; f.isExpected(kind, s.At.End) {
				e.Expected++
			}
			continue
		}
		out.Completed++
		t.addSample(s)
		if s.MeetsObjectives(f.s.objectives) {
			t.good++
		}
		for _, m := range []string{
			result.TTFT, result.TTFV, result.TTFTFromSchedule, result.TPOT, result.E2EL,
			result.E2ELFromSchedule, result.Queue,
		} {
			if v := s.Latency(m); v != client.MissingValue {
				hists[m].Record(v)
			}
		}
	}
	for key, c := range f.gaps {
		if key.stage != warmupStage && in(key) {
			c.Mu.Lock()
			hists[result.ITL].Merge(&c.H)
			c.Mu.Unlock()
		}
	}
	for _, e := range errs {
		out.Errors = append(out.Errors, *e)
	}
	slices.SortFunc(out.Errors, func(a, b result.ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Label(), b.Label()))
	})
	for m, h := range hists {
		out.Latency[m] = h.Distribution()
		if h.N == 0 {
			out.Unmeasured[m] = t.missingReason(m, out.Completed)
		}
	}
	t.fillRates(&out, f.s.objectives)
	return out
}

// failureStatus returns the HTTP status of a failed request, or 0 if the status is 200.
func failureStatus(s *client.Sample) int {
	if s.Err == result.ErrStatus {
		return s.Status
	}
	return 0
}

// nonLatencySums contains the sums of all values other than latencies.
type nonLatencySums struct {
	good                    int
	in, out                 int64
	inKnown, outKnown       int
	cached, cacheableTokens int64
	cachedKnown             int
	chunks, coalesced       int
	streamed, single        int
	latency                 float64 // sum of the latencies in seconds
}

func (t *nonLatencySums) addSample(s *client.Sample) {
	if s.Tokens.In >= 0 {
		t.in += int64(s.Tokens.In)
		t.inKnown++
	}
	if s.Tokens.Out >= 0 {
		t.out += int64(s.Tokens.Out)
		t.outKnown++
	}
	if s.Tokens.Cached >= 0 && s.Tokens.In > 0 {
		t.cached += int64(s.Tokens.Cached)
		t.cacheableTokens += int64(s.Tokens.In)
		t.cachedKnown++
	}
	if s.Stream {
		t.streamed++
	}
	if s.Tokens.Out == 1 {
		t.single++
	}
	t.chunks += s.Flow.Chunks
	t.coalesced += s.Flow.Coalesced
	t.latency += float64(s.At.End-s.At.Sent) / 1e9
}

func (t *nonLatencySums) missingReason(measure string, completed int) string {
	switch {
	case completed == 0 && measure != result.ScheduleDelay && measure != result.Connect:
		return "no request was answered"
	case measure == result.Queue:
		return "the target does not say it (an edge does with log.debug_headers)"
	case measure == result.Connect:
		return "no new connection was needed"
	case t.streamed == 0:
		return "no answer was a stream of tokens"
	case measure == result.TTFV && t.chunks > 0:
		return "no visible token came"
	case t.chunks == 0:
		return "no token came"
	case measure == result.TPOT && t.outKnown == 0:
		return "the number of output tokens is not known"
	}
	return "no answer had two tokens in different reads"
}

func (t *nonLatencySums) fillRates(out *result.Summary, objectives []result.Objective) {
	missing := func(reason string, names ...string) {
		for _, n := range names {
			out.Unmeasured[n] = reason
		}
	}
	rate := func(n float64) *float64 {
		if out.Seconds <= 0 {
			return nil
		}
		return new(n / out.Seconds)
	}
	out.RequestThroughput = rate(float64(out.Completed))
	out.MeanConcurrency = rate(t.latency)
	if t.inKnown > 0 {
		out.InputTokens, out.InputThroughput = &t.in, rate(float64(t.in))
	} else {
		missing("the number of input tokens is not known", "input_tokens", "input_throughput")
	}
	if t.outKnown > 0 {
		out.OutputTokens, out.OutputThroughput = &t.out, rate(float64(t.out))
	} else {
		missing("the number of output tokens is not known", "output_tokens", "output_throughput")
	}
	if t.cachedKnown > 0 {
		share := float64(t.cached) / float64(t.cacheableTokens)
		out.CachedTokens, out.CachedShare = &t.cached, &share
	} else {
		missing("the target does not say how many tokens it found in its cache", "cached_tokens", "cached_share")
	}
	if t.chunks > 0 {
		out.CoalescedShare = new(float64(t.coalesced) / float64(t.chunks))
	} else {
		missing("no answer was a stream of tokens", "coalesced_share")
	}
	if n := out.Completed + out.Failed; n > 0 {
		out.ErrorRate = new(float64(out.Failed) / float64(n))
		if len(objectives) > 0 {
			good := float64(t.good) / float64(n)
			out.GoodShare, out.Goodput = &good, rate(float64(t.good))
		}
	} else {
		missing("no request was sent", "error_rate")
	}
	if len(objectives) == 0 {
		missing("no objectives were given (--goodput)", "goodput", "good_share")
	}
	if out.Seconds <= 0 {
		missing("nothing was measured", "request_throughput", "mean_concurrency")
	}
}
