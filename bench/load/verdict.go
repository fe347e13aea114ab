package load

import (
	"fmt"
	"strings"

	"penstock/bench/result"
)

// Limits that the verdict checks.
const (
	maxClientCPUShare    = 0.90 // fraction of the CPU time available to the client
	maxWakeDelayP99Ms    = 10.0 // delay of the client's timers in ms
	MaxErrorShare        = 0.01
	minAchievedRateShare = 0.95 // fraction of the requested rate
	maxCachedTokenShare  = 0.05 // fraction of input tokens that may be cached if all prompts start with unique marks
	maxTemplateTokens    = 64   // cached tokens per request that are always allowed, because a chat template may be cached
	maxCoalescedShare    = 0.05
	minSamples           = 20
)

// judgeResult decides whether the result is trustworthy. It reads nothing except the finished
// result and the settings.
func judgeResult(r *result.Result, s *settings) result.Verdict {
	p := r.Penstock
	v := result.Verdict{Valid: true, Reasons: []result.Reason{}}
	add := func(invalidates bool, code, format string, args ...any) {
		v.Reasons = append(v.Reasons, result.Reason{Code: code, Text: fmt.Sprintf(format, args...), Invalidates: invalidates})
		v.Valid = v.Valid && !invalidates
	}
	total := &p.Total
	if p.Interrupted {
		add(true, "interrupted", "the run was stopped before its end")
	}
	if total.Completed == 0 {
		add(true, "nothing_completed", "no measured request was answered")
		return v
	}
	judgeClient(p, add)
	judgeDelivery(p, s, add)
	judgeFailures(p, add)
	for _, e := range p.Events {
		if e.Error != "" && e.EndS > 0 { // the event took place
			add(true, "event_failed", "the event %q failed: %s", e.Action, e.Error)
		}
	}
	if n := total.Completed; n < minSamples {
		add(true, "few_samples", "%d requests are too few for any percentile (at least %d)", n, minSamples)
	} else if need := result.MinSamples(99); n < need {
		add(false, "few_samples", "p99 of %d requests is the chance of the few slowest ones (it takes %d, p95 %d, a median %d)", n, need,
			result.MinSamples(95), result.MinSamples(50))
	}
	if c := total.CachedShare; c != nil && *c > maxCachedTokenShare &&
		*total.CachedTokens > maxTemplateTokens*int64(total.Completed) && p.Nonce != "" && s.PrefixLen == 0 &&
		s.NumTurns == 1 && s.DatasetName != "trace" {
		add(true, "cache_effects", "the target found %.0f %% of the input in its cache, though every prompt began with its own mark", *c*100)
	} else if c != nil && *c > maxCachedTokenShare && p.Nonce == "" {
		add(false, "cache_effects", "%.0f %% of the input came from the target's cache", *c*100)
	}
	if c := total.CoalescedShare; c != nil && *c > maxCoalescedShare {
		add(false, "coalesced_frames", "%.0f %% of the token events came in one read with an earlier one: ITL is the time between reads, not between tokens", *c*100)
	}
	if list := p.Load.Unstreamed; len(list) > 0 {
		add(false, "not_streamed", "the target does not stream answers of %s: they were asked for whole, and have no time to a first token", strings.Join(list, ", "))
	}
	judgeTokenCounts(p, add)
	judgeFaults(total, add)
	if p.Leave != nil && p.Leave.Verified != nil && !*p.Leave.Verified {
		add(true, "leak", "after clients had left, %s stayed too high", p.Leave.Source)
	}
	return v
}

type addReasonFunc func(invalidates bool, code, format string, args ...any)

func judgeClient(p *result.Penstock, add addReasonFunc) {
	c := &p.Client
	switch waited := c.CPUShare != nil && c.CPUWaitShare != nil; {
	case c.CPUShare != nil && *c.CPUShare > maxClientCPUShare:
		add(true, "client_saturated", "the client used %.0f %% of its processor time (bound %.0f %%): it measured itself; use more cores, or less load", *c.CPUShare*100, maxClientCPUShare*100)
	case waited && *c.CPUShare+*c.CPUWaitShare > maxClientCPUShare:
		add(true, "client_saturated", "the client used %.0f %% of its processor time, and for %.0f %% more it waited while other programs ran (bound %.0f %%): it measured itself; leave it more of the machine, or use less load", *c.CPUShare*100, *c.CPUWaitShare*100, maxClientCPUShare*100)
	case c.CPUMaxShare != nil && *c.CPUMaxShare > maxClientCPUShare:
		add(false, "client_busy", "in its busiest second the client used %.0f %% of its processor time", *c.CPUMaxShare*100)
	}
	if late := c.WakeDelay; late != nil && late.Percentiles["99"] > maxWakeDelayP99Ms {
		add(true, "client_late", "the client's timers were %.1f ms late at p99 (bound %.0f ms): the processor had too much else to do", late.Percentiles["99"], maxWakeDelayP99Ms)
	}
	if f, ttft := p.Floor, p.Total.Latency[result.TTFT]; f != nil && ttft != nil &&
		f.TTFT.Percentiles["50"] > ttft.Percentiles["50"]/4 {
		add(false, "near_floor", "the median TTFT of %.3g ms is less than four times what the client measures of a server that does nothing (%.3g ms)", ttft.Percentiles["50"], f.TTFT.Percentiles["50"])
	}
}

// judgeDelivery judges whether the delivered load matches the schedule. It does not use the nominal
// rate, because a random number of arrivals deviates from the expected number by about the square
// root of that number.
func judgeDelivery(p *result.Penstock, s *settings, add addReasonFunc) {
	for i := range p.Stages {
		st := &p.Stages[i]
		if st.Rate == nil || st.AchievedRate == nil || st.Requests < minSamples || st.Concurrency != nil {
			continue
		}
		due := *st.Rate
		if st.Scheduled != nil && st.SendS > 0 {
			due = float64(*st.Scheduled) / st.SendS
		}
		if *st.AchievedRate < minAchievedRateShare*due {
			add(true, "schedule_missed", "stage %q sent %.4g requests per second of the %.4g scheduled", st.Name, *st.AchievedRate, due)
		} else if due < minAchievedRateShare**st.Rate || due*minAchievedRateShare > *st.Rate {
			add(false, "arrivals_scatter", "the random arrivals of stage %q came at %.4g per second, %.4g was asked for: a longer stage scatters less", st.Name, due, *st.Rate)
		}
	}
	delay := p.Total.Latency[result.ScheduleDelay]
	if delay == nil || s.closed && s.Profile == "" {
		return
	}
	bounded := len(s.MaxConcurrency) > 0
	if late := delay.Percentiles["99"]; late > 2*maxWakeDelayP99Ms && !bounded {
		add(true, "schedule_missed", "requests were sent %.1f ms behind their schedule at p99", late)
	} else if late > 2*maxWakeDelayP99Ms {
		add(false, "queued_in_client", "requests waited %.0f ms at p99 for one of the --max-concurrency places: read the latencies from schedule", late)
	}
}

// judgeFailures judges the failed requests, ignoring those that were expected.
func judgeFailures(p *result.Penstock, add addReasonFunc) {
	total := &p.Total
	failed, expected, most := total.Failed, 0, result.ErrorCount{}
	for _, e := range total.Errors {
		expected += e.Expected
		if e.Count -= e.Expected; e.Count > most.Count {
			most = e
		}
	}
	failed -= expected
	if share := float64(failed) / float64(max(1, total.Completed+total.Failed)); share > MaxErrorShare {
		add(true, "target_errors", "%.1f %% of the requests failed (bound %.0f %%), most often: %s", share*100, MaxErrorShare*100, most.Label())
	} else if failed > 0 {
		add(false, "target_errors", "%d requests failed, most often: %s", failed, most.Label())
	}
	if expected > 0 {
		add(false, "expected_errors", "%d requests failed as the test intends (%s)", expected,
			strings.Join(p.ExpectErrors, ", "))
	} else if len(p.ExpectErrors) > 0 {
		add(false, "expected_errors", "no request failed as the test intends (%s)",
			strings.Join(p.ExpectErrors, ", "))
	}
}

func judgeTokenCounts(p *result.Penstock, add addReasonFunc) {
	for _, c := range []struct {
		what   string
		counts map[string]int
	}{{"input", p.Tokens.Input}, {"output", p.Tokens.Output}} {
		all := 0
		for _, n := range c.counts {
			all += n
		}
		if n := c.counts[result.TokensEstimated]; n > 0 {
			add(false, "counts_estimated", "the %s tokens of %d of %d requests are an estimate: the target sends no usage", c.what, n, all)
		}
	}
}

func judgeFaults(total *result.Summary, add addReasonFunc) {
	var list []string
	for _, f := range result.StreamFaults() {
		if n := total.StreamFaults[f]; n > 0 && f != result.FaultNoUsage {
			list = append(list, fmt.Sprintf("%s %d", f, n))
		}
	}
	if len(list) > 0 {
		add(false, "stream_faults", "streams did not follow their dialect: %s", strings.Join(list, ", "))
	}
}
