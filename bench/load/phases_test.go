package load

import (
	"math"
	"testing"
	"time"

	"penstock/bench/load/client"
	"penstock/bench/result"
)

// TestPhases checks the load, the queues and the cache hits that each phase reports for three
// engines.
func TestPhases(t *testing.T) {
	const second = int64(time.Second)
	at := func(due, end int64, engine string, cached int) client.Sample {
		s := client.NewSample(&client.Request{Pair: -1, D: client.FindDialect("chat")}, 0, due*second)
		s.At.Sent, s.At.FirstToken, s.At.End = due*second, due*second+second/2, end*second
		s.Tokens.In, s.Tokens.Out, s.Tokens.Cached, s.Edge.Upstream = 100, 10, cached, engine
		return s
	}
	late := at(14, 15, "a", 100)
	late.At.FirstToken = 15 * second
	failed := at(6, 7, "", 0)
	failed.Err = result.ErrStatus
	early := at(0, 20, "c", 0)
	early.Stage = warmupStage
	f := &findings{
		s: &settings{Options: Options{DatasetName: "trace"}}, stages: []completedStage{{sendEnd: 15 * second, end: 20 * second}},
		samples: []client.Sample{early, at(0, 2, "a", 0), at(1, 3, "a", 50), failed, at(5, 10, "b", 0), late},
	}
	for i := range 60 {
		f.samples = append(f.samples, at(10, 10, "b", i%2*100))
	}
	f.stages[0].sendEnd = 60 * second // twelve phases of 5 s
	two := 2.0
	all := f.tracePhases([]result.Telemetry{
		{Source: "edge", TS: []float64{1}, Metrics: map[string][]*float64{"vllm:num_requests_waiting": {&two}}},
		{Source: "engine a", TS: []float64{1, 6, 7}, Metrics: map[string][]*float64{"vllm:num_requests_waiting": {&two, new(4.0), nil}}},
		{Source: "engine b", TS: []float64{2}, Metrics: map[string][]*float64{"llamacpp:requests_deferred": {&two}}},
	})
	if len(all) != 12 || all[11].EndS != 60 {
		t.Fatalf("%d phases, want 12 that end at 60 s: %+v", len(all), all)
	}
	p := all[:3]
	if p[0].Requests != 2 || p[1].Requests != 2 || p[1].Failed != 1 || p[2].Requests != 61 || all[3].Requests != 0 {
		t.Errorf("requests: %d, %d (%d failed), %d, %d", p[0].Requests, p[1].Requests, p[1].Failed, p[2].Requests, all[3].Requests)
	}
	if *p[0].CachedShare != 0.25 || *p[1].CachedShare != 0 || p[0].InputTokens != 200 || all[3].CachedShare != nil {
		t.Errorf("cached %v, %v of %d, %v", *p[0].CachedShare, *p[1].CachedShare, p[0].InputTokens, all[3].CachedShare)
	}
	// The warm-up call at engine c also counts as in flight.
	if e := p[0].Engines; math.Abs(e["a"]-0.8) > 1e-9 || e["b"] != 0 || e["c"] != 1 || math.Abs(*p[0].Imbalance-1/0.6) > 1e-9 {
		t.Errorf("engines %v, imbalance %v", e, *p[0].Imbalance)
	}
	if p[0].TTFT.Max != 500 || p[2].TTFT.Max != 1000 || p[0].Queue != nil {
		t.Errorf("TTFT %v and %v, queue %v", p[0].TTFT.Max, p[2].TTFT.Max, p[0].Queue)
	}
	if *p[0].Waiting != 4 || *p[1].Waiting != 4 || p[2].Waiting != nil {
		t.Errorf("waiting = %v, %v, %v; want 4, 4 and nothing", *p[0].Waiting, *p[1].Waiting, p[2].Waiting)
	}
	// phases of 2 s; the third phase starts 4 s after the start
	f.stages[0].sendEnd = 12*second + second/3
	if all = f.tracePhases(nil); len(all) != 6 || all[5].EndS < 12.3 {
		t.Errorf("phases of 12.3 s = %+v, want 6 that end after that", all)
	}
	f.s.DatasetName = "random"
	if got := f.tracePhases(nil); got == nil || len(got) != 0 {
		t.Errorf("without a trace: %+v", got)
	}
}

func TestPhaseLength(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		time.Millisecond: time.Second, 12 * time.Second: time.Second, 150 * time.Second: 15 * time.Second,
		time.Hour: 5 * time.Minute, 24 * time.Hour: 2 * time.Hour, 366 * 24 * time.Hour: 732 * time.Hour,
	} {
		if got := choosePhaseLength(d); got != want || d > maxPhases*got {
			t.Errorf("%v: %v, want %v", d, got, want)
		}
	}
}
