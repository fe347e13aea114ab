package bench

import (
	"cmp"
	"slices"
)

// group selects samples for a summary.
type group func(stage int, d *dialect, upstream string, target uint8) bool

// summary makes the summary of the samples of a group. Seconds is the wall time that rates are over.
func (r *run) summary(in group, seconds float64) Summary {
	out := Summary{Seconds: seconds, Latency: map[string]*Distribution{}, Errors: []ErrorCount{}, StreamFaults: map[string]int{}, Unmeasured: map[string]string{}}
	hists := map[string]*histogram{}
	for _, m := range Measures() {
		hists[m] = new(histogram)
	}
	var t tally
	errs := map[ErrorCount]*ErrorCount{}
	for i := range r.samples {
		s := &r.samples[i]
		if s.stage == warm || !in(s.stage, s.dialect, s.upstream, s.target) || s.err == ErrInterrupted {
			continue
		}
		out.Requests++
		for _, f := range s.faults.names() {
			out.StreamFaults[f]++
		}
		if v := s.latency(ScheduleDelay); v != none {
			hists[ScheduleDelay].record(v)
		}
		if v := s.connect; v != none {
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
			if e.Count++; r.expected(kind, s.end) {
				e.Expected++
			}
			continue
		}
		out.Completed++
		t.add(s)
		if s.good(r.s.objectives) {
			t.good++
		}
		for _, m := range []string{TTFT, TTFV, TTFTFromSchedule, TPOT, E2EL, E2ELFromSchedule, Queue} {
			if v := s.latency(m); v != none {
				hists[m].record(v)
			}
		}
	}
	for key, c := range r.cells {
		if key.stage != warm && in(key.stage, key.dialect, key.upstream, key.target) {
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
		out.Latency[m] = h.distribution(r.s.percents)
		if h.n == 0 {
			out.Unmeasured[m] = t.why(m, out.Completed)
		}
	}
	t.fillRates(&out, r.s.objectives)
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
	if s.in >= 0 {
		t.in += int64(s.in)
		t.inKnown++
	}
	if s.out >= 0 {
		t.out += int64(s.out)
		t.outKnown++
	}
	if s.cached >= 0 && s.in > 0 {
		t.cached += int64(s.cached)
		t.cachedOf += int64(s.in)
		t.cachedKnown++
	}
	if s.stream {
		t.streamed++
	}
	if s.out == 1 {
		t.single++
	}
	t.chunks += s.chunks
	t.coalesced += s.coalesced
	t.latency += float64(s.end-s.sent) / 1e9
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

// lostTokens marks streams with fewer token events than tokens, where nearly all others of the same target and dialect have
// one event for each token: then the difference is what got lost. Where engines put several tokens into an event it cannot
// be told.
func (r *run) lostTokens() {
	type key struct {
		d      *dialect
		target uint8
		model  int // of streams that ended the same way: some engines count the token that ends the text
	}
	gaps := map[key]map[int]int{}
	finishes := map[string]int{}
	of := func(s *sample) (key, bool) {
		if !s.stream || s.outSource != TokensFromUsage || s.chunks == 0 || s.left || s.err != "" {
			return key{}, false
		}
		if _, ok := finishes[s.finish]; !ok {
			finishes[s.finish] = len(finishes)
		}
		return key{s.dialect, s.target, finishes[s.finish]}, true
	}
	for i := range r.samples {
		if k, ok := of(&r.samples[i]); ok {
			if gaps[k] == nil {
				gaps[k] = map[int]int{}
			}
			gaps[k][r.samples[i].out-r.samples[i].chunks]++
		}
	}
	for k, counts := range gaps {
		total, usual, most := 0, 0, 0
		for gap, n := range counts {
			if total += n; n > most {
				usual, most = gap, n
			}
		}
		if total < 20 || float64(most) < 0.9*float64(total) {
			continue
		}
		for i := range r.samples {
			s := &r.samples[i]
			if same, ok := of(s); ok && same == k && s.out-s.chunks > usual {
				s.faults.add(FaultLost)
				s.err = ErrStream
			}
		}
	}
}
