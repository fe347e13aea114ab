package benchtest

import (
	"testing"

	"penstock/bench/result"
)

// FullResult returns a result that has a value for everything that the report shows.
func FullResult(t testing.TB) *result.Result {
	r := SyntheticResult{
		Seed: 1, Requests: 2400, Seconds: 240, TTFT: 100, ITL: 20, Failed: 24,
		Stages: []string{"rate 10", "rate 20", "rate 30", "rate 40"},
	}.Build(t)
	r.ModelID = `demo </script><script>alert("x")</script>`
	p := r.Penstock
	p.Events = []result.Event{{AtS: 60, StartS: 61, EndS: 61.2, Action: "reload", Lost: 3, RecoveryS: floatPtr(2)}}
	p.ByUpstream = map[string]*result.Summary{"gpu-a": &p.Stages[0].Summary, "gpu-b": &p.Stages[1].Summary}
	p.Total.StreamFaults = map[string]int{result.FaultNoEnd: 4}
	p.Command = []string{"penstock", "bench", "run", "--request-rate", "10,20,30,40"}
	p.Assertions = []result.Assertion{
		{Text: "p99_ttft_ms<500", OK: true},
		{Text: "error_rate<0.5%", Reason: "error_rate is 1.00 %"},
	}
	p.Environment = result.Environment{Version: "v1", Go: "go1.26", OS: "linux", Arch: "amd64", CPUs: 2, CPU: "Example"}
	p.Tokens.Output = map[string]int{result.TokensFromUsage: 2376}
	p.Floor = &result.Floor{
		TTFT: p.Total.Latency[result.Connect], ITLError: p.Total.Latency[result.Connect],
		E2EL: p.Total.Latency[result.Connect],
	}
	p.Compare = &result.Comparison{
		Target: result.Target{BaseURL: "http://127.0.0.1:8000"}, Pairs: 1200, Total: p.Stages[0].Summary,
		Differences: []result.Difference{{
			Measure: result.TTFT, Statistic: "median", First: 100, Second: 99, Delta: 1,
			Low: 0.5, High: 1.5, Confidence: 0.95, Significant: true,
		}},
	}
	running := []*float64{floatPtr(1), nil, floatPtr(3)}
	p.Scenario = &result.Scenario{
		Name: "failover", Text: "An engine is killed, and comes back.",
		Explain: "Three engines under a load.\n\nLook at: the events table.",
	}
	p.Load.RetryWaitS = 4
	p.Phases = []result.Phase{{
		EndS: 120, Requests: 1200, InputTokens: 614400, OutputTokens: 120000, CachedShare: floatPtr(0.31),
		TTFT: p.Stages[0].Latency[result.TTFT], Waiting: floatPtr(1.5),
		Engines: map[string]float64{"gpu-a": 6, "gpu-b": 2}, Imbalance: floatPtr(1.5),
	}, {StartS: 120, EndS: 240, Requests: 1200, Failed: 24, Engines: map[string]float64{}}}
	p.Telemetry = []result.Telemetry{{
		Source: "engine", URL: "http://127.0.0.1:8000/metrics", TS: []float64{1, 2, 3},
		Metrics: map[string][]*float64{"vllm:num_requests_running": running, "vllm:kv_cache_usage_perc": running},
	}}
	yes := true
	p.Leave = &result.Leaving{
		Share: 0.1, Phase: "tokens=5", Left: 240, Source: "vllm:num_requests_running",
		Verified: &yes, Freed: p.Total.Latency[result.Connect],
	}
	best, rate := 1, 20.0
	p.Search = &result.Search{Profile: "search", Best: &best, Rate: &rate, Missed: []string{}}
	return r
}

func floatPtr(v float64) *float64 { return &v }
