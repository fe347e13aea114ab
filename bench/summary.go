package bench

import (
	"cmp"
	"slices"
)

// findings are what was taken down of a run, and what is asked of it. It is read when nothing is under way.
type findings struct {
	s        *settings
	samples  []sample
	gaps     map[gapKey]*gapCell
	spans    []span
	happened []Event
}

// group selects samples for a summary.
type group func(gapKey) bool

// key is the finest group that a sample is in.
func (s *sample) key() gapKey { return gapKey{s.stage, s.dialect, s.edge.upstream, s.target} }

// summary makes the summary of the samples of a group. Seconds is the wall time that rates are over.
func (f *findings) summary(in group, seconds float64) Summary {
	out := Summary{Seconds: seconds, Latency: map[string]*Distribution{}, Errors: []ErrorCount{}, StreamFaults: map[string]int{}, Unmeasured: map[string]string{}}
	hists := map[string]*histogram{}
	for _, m := range Measures() {
		hists[m] = new(histogram)
	}
	var t tally
	errs := map[ErrorCount]*ErrorCount{}
	for i := range f.samples {
		s := &f.samples[i]
		if s.stage == warm || !in(s.key()) || s.err == ErrInterrupted {
			continue
		}
		out.Requests++
		for _, fault := range s.faults.names() {
			out.StreamFaults[fault]++
		}
		if v := s.latency(ScheduleDelay); v != none {
			hists[ScheduleDelay].record(v)
		}
		if v := s.at.connect; v != none {
			hists[Connect].record(v)
		}
		switch {
		case s.left:
			out.Left++
			continue
		case s.failed():
			out.Failed++
			kind := ErrorCount{Kind: s.err, Status: statusOf(s), Code: s.code}
			e := errs[kind]
			if e == nil {
				e = &ErrorCount{Kind: kind.Kind, Status: kind.Status, Code: kind.Code}
				errs[kind] = e
			}
			if e.Count++; f.expected(kind, s.at.end) {
				e.Expected++
			}
			continue
		}
		out.Completed++
		t.add(s)
		if s.good(f.s.objectives) {
			t.good++
		}
		for _, m := range []string{TTFT, TTFV, TTFTFromSchedule, TPOT, E2EL, E2ELFromSchedule, Queue} {
			if v := s.latency(m); v != none {
				hists[m].record(v)
			}
		}
	}
	for key, c := range f.gaps {
		if key.stage != warm && in(key) {
			c.mu.Lock()
			hists[ITL].merge(&c.h)
			c.mu.Unlock()
		}
	}
	for _, e := range errs {
		out.Errors = append(out.Errors, *e)
	}
	slices.SortFunc(out.Errors, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Label(), b.Label()))
	})
	for m, h := range hists {
		out.Latency[m] = h.distribution(f.s.percents)
		if h.n == 0 {
			out.Unmeasured[m] = t.why(m, out.Completed)
		}
	}
	t.fillRates(&out, f.s.objectives)
	return out
}

// statusOf is the status that explains a failure: of an answer that came with 200 it does not.
func statusOf(s *sample) int {
	if s.err == ErrStatus {
		return s.status
	}
	return 0
}

// tally adds up what is no latency.
type tally struct {
	good              int
	in, out           int64
	inKnown, outKnown int
	cached, cachedOf  int64
	cachedKnown       int
	chunks, coalesced int
	streamed, single  int
	latency           float64 // s
}

// add takes a completed request.
func (t *tally) add(s *sample) {
	if s.tokens.in >= 0 {
		t.in += int64(s.tokens.in)
		t.inKnown++
	}
	if s.tokens.out >= 0 {
		t.out += int64(s.tokens.out)
		t.outKnown++
	}
	if s.tokens.cached >= 0 && s.tokens.in > 0 {
		t.cached += int64(s.tokens.cached)
		t.cachedOf += int64(s.tokens.in)
		t.cachedKnown++
	}
	if s.stream {
		t.streamed++
	}
	if s.tokens.out == 1 {
		t.single++
	}
	t.chunks += s.flow.chunks
	t.coalesced += s.flow.coalesced
	t.latency += float64(s.at.end-s.at.sent) / 1e9
}

// why says why a measure has no sample.
func (t *tally) why(measure string, completed int) string {
	switch {
	case completed == 0 && measure != ScheduleDelay && measure != Connect:
		return "no request was answered"
	case measure == Queue:
		return "the target does not say it (an edge does with log.debug_headers)"
	case measure == Connect:
		return "no new connection was needed"
	case t.streamed == 0:
		return "no answer was a stream of tokens"
	case measure == TTFV && t.chunks > 0:
		return "no visible token came"
	case t.chunks == 0:
		return "no token came"
	case measure == TPOT && t.outKnown == 0:
		return "the number of output tokens is not known"
	}
	return "no answer had two tokens in different reads"
}

// fillRates fills the rates in.
func (t *tally) fillRates(out *Summary, objectives []Objective) {
	missing := func(reason string, names ...string) {
		for _, n := range names {
			out.Unmeasured[n] = reason
		}
	}
	rate := func(n float64) *float64 {
		if out.Seconds <= 0 {
			return nil
		}
		v := n / out.Seconds
		return &v
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
		share := float64(t.cached) / float64(t.cachedOf)
		out.CachedTokens, out.CachedShare = &t.cached, &share
	} else {
		missing("the target does not say how many tokens it found in its cache", "cached_tokens", "cached_share")
	}
	if t.chunks > 0 {
		share := float64(t.coalesced) / float64(t.chunks)
		out.CoalescedShare = &share
	} else {
		missing("no answer was a stream of tokens", "coalesced_share")
	}
	if n := out.Completed + out.Failed; n > 0 {
		share := float64(out.Failed) / float64(n)
		out.ErrorRate = &share
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
