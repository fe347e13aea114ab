package load

import (
	"slices"
	"testing"

	"penstock/bench/benchtest"
	"penstock/bench/result"
)

func TestVerdict(t *testing.T) {
	num := func(v float64) *float64 { return &v }
	for name, c := range map[string]struct {
		change  func(*result.Penstock, *settings)
		code    string
		invalid bool
	}{
		"good":                     {func(*result.Penstock, *settings) {}, "", false},
		"interrupted":              {func(p *result.Penstock, _ *settings) { p.Interrupted = true }, "interrupted", true},
		"nothing":                  {func(p *result.Penstock, _ *settings) { p.Total.Completed = 0 }, "nothing_completed", true},
		"client":                   {func(p *result.Penstock, _ *settings) { p.Client.CPUShare = num(0.97) }, "client_saturated", true},
		"client with others":       {func(p *result.Penstock, _ *settings) { p.Client.CPUShare, p.Client.CPUWaitShare = num(0.6), num(0.35) }, "client_saturated", true},
		"client that waits little": {func(p *result.Penstock, _ *settings) { p.Client.CPUShare, p.Client.CPUWaitShare = num(0.4), num(0.35) }, "", false},
		"busy second":              {func(p *result.Penstock, _ *settings) { p.Client.CPUMaxShare = num(0.97) }, "client_busy", false},
		"late timers":              {func(p *result.Penstock, _ *settings) { p.Client.WakeDelay = benchtest.EqualLatencies(100, 30) }, "client_late", true},
		"floor":                    {func(p *result.Penstock, _ *settings) { p.Floor.TTFT = benchtest.EqualLatencies(10, 20) }, "near_floor", false},
		"schedule": {func(p *result.Penstock, _ *settings) {
			p.Total.Latency[result.ScheduleDelay] = benchtest.EqualLatencies(100, 80)
		}, "schedule_missed", true},
		"closed": {func(p *result.Penstock, s *settings) {
			p.Total.Latency[result.ScheduleDelay] = benchtest.EqualLatencies(100, 80)
			s.closed = true
		}, "", false},
		"places": {func(p *result.Penstock, s *settings) {
			p.Total.Latency[result.ScheduleDelay] = benchtest.EqualLatencies(100, 80)
			s.MaxConcurrency = []int{4}
		}, "queued_in_client", false},
		"a schedule that holds fewer by chance": {func(p *result.Penstock, _ *settings) {
			p.Stages[0].Scheduled, p.Stages[0].AchievedRate, p.Stages[0].SendS = new(int), num(8), 10
			*p.Stages[0].Scheduled = 80
		}, "arrivals_scatter", false},
		"less sent than its schedule holds": {func(p *result.Penstock, _ *settings) {
			p.Stages[0].Scheduled, p.Stages[0].AchievedRate, p.Stages[0].SendS = new(int), num(10), 10
			*p.Stages[0].Scheduled = 120
		}, "schedule_missed", true},
		"rate": {func(p *result.Penstock, _ *settings) { p.Stages[0].AchievedRate = num(7) }, "schedule_missed", true},
		"errors": {func(p *result.Penstock, _ *settings) {
			p.Total.ErrorRate = num(0.02)
			p.Total.Failed = 20
			p.Total.Errors = []result.ErrorCount{{Kind: result.ErrStatus, Status: 503, Count: 20}}
		}, "target_errors", true},
		"errors as expected": {func(p *result.Penstock, _ *settings) {
			p.Total.Failed, p.ExpectErrors = 500, []string{"429"}
			p.Total.Errors = []result.ErrorCount{{Kind: result.ErrStatus, Status: 429, Count: 500, Expected: 500}}
		}, "expected_errors", false},
		"errors beside expected ones": {func(p *result.Penstock, _ *settings) {
			p.Total.Failed, p.ExpectErrors = 520, []string{"429"}
			p.Total.Errors = []result.ErrorCount{{Kind: result.ErrStatus, Status: 429, Count: 500, Expected: 500}, {Kind: result.ErrClosed, Count: 20}}
		}, "target_errors", true},
		"no error though expected": {func(p *result.Penstock, _ *settings) { p.ExpectErrors = []string{"429"} }, "expected_errors", false},
		"one error": {func(p *result.Penstock, _ *settings) {
			p.Total.ErrorRate = num(0.001)
			p.Total.Failed = 1
			p.Total.Errors = []result.ErrorCount{{Kind: result.ErrStatus, Status: 503, Count: 1}}
		}, "target_errors", false},
		"few":           {func(p *result.Penstock, _ *settings) { p.Total.Completed = 5 }, "few_samples", true},
		"few for p99":   {func(p *result.Penstock, _ *settings) { p.Total.Completed = 90 }, "few_samples", false},
		"cache":         {func(p *result.Penstock, _ *settings) { p.Total.CachedShare = num(0.4); *p.Total.CachedTokens = 400_000 }, "cache_effects", true},
		"template":      {func(p *result.Penstock, _ *settings) { p.Total.CachedShare = num(0.4) }, "", false},
		"cache allowed": {func(p *result.Penstock, _ *settings) { p.Total.CachedShare = num(0.4); p.Nonce = "" }, "cache_effects", false},
		"prefix":        {func(p *result.Penstock, s *settings) { p.Total.CachedShare = num(0.4); s.PrefixLen = 100 }, "", false},
		"coalesced":     {func(p *result.Penstock, _ *settings) { p.Total.CoalescedShare = num(0.3) }, "coalesced_frames", false},
		"estimate":      {func(p *result.Penstock, _ *settings) { p.Tokens.Output[result.TokensEstimated] = 3 }, "counts_estimated", false},
		"faults":        {func(p *result.Penstock, _ *settings) { p.Total.StreamFaults[result.FaultNoDone] = 3 }, "stream_faults", false},
		"leak":          {func(p *result.Penstock, _ *settings) { p.Leave = &result.Leaving{Source: "g", Verified: new(bool)} }, "leak", true},
	} {
		r := benchtest.SampleResult()
		p := r.Penstock
		p.Nonce, p.Total.CachedTokens = "x", new(int64)
		p.Total.Completed, p.Total.Requests = 1000, 1000
		p.Total.Latency = map[string]*result.Distribution{result.TTFT: benchtest.EqualLatencies(1000, 50), result.ScheduleDelay: benchtest.EqualLatencies(1000, 0.1)}
		p.Stages[0].Rate, p.Stages[0].AchievedRate, p.Stages[0].Requests = num(10), num(10), 1000
		p.Client = result.Client{CPUShare: num(0.2), CPUMaxShare: num(0.3), WakeDelay: benchtest.EqualLatencies(100, 1)}
		p.Floor = &result.Floor{TTFT: benchtest.EqualLatencies(10, 0.1)}
		s := &settings{}
		s.NumTurns = 1
		c.change(p, s)
		v := judgeResult(r, s)
		if v.Valid == c.invalid {
			t.Errorf("%s: valid = %v, want %v: %v", name, v.Valid, !c.invalid, v.Reasons)
		}
		found := slices.ContainsFunc(v.Reasons, func(r result.Reason) bool { return r.Code == c.code && r.Invalidates == c.invalid })
		if found != (c.code != "") || c.code == "" && len(v.Reasons) > 0 {
			t.Errorf("%s: reasons %v, want %q", name, v.Reasons, c.code)
		}
	}
}
