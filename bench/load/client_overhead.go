package load

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"penstock/bench/load/client"
	"penstock/bench/result"
)

// Sizes of the two floor measurements.
const (
	overheadRequestCount = 300 // short requests, one after another
	overheadStreamCount  = 16  // concurrent streams
	overheadStreamTokens = 50  // tokens per stream
	overheadTokenGap     = 10 * time.Millisecond
)

// measureClientOverhead measures the client's latencies against a server in this process that
// responds immediately. It first sends single requests, and then opens streams whose tokens arrive
// 10 ms apart. The measurement takes about a second.
func measureClientOverhead(ctx context.Context) (*result.Floor, error) {
	server, err := startNoopServer(1, 0)
	if err != nil {
		return nil, fmt.Errorf("measure the client's floor: %w", err)
	}
	defer server.close()
	short, _, err := measureNoop(ctx, server, 1, overheadRequestCount, 1, 0)
	if err != nil {
		return nil, err
	}
	streams, cpu, err := measureNoop(ctx, server, overheadStreamCount, 1, overheadStreamTokens, overheadTokenGap)
	if err != nil {
		return nil, err
	}
	var ttft, e2el, gaps result.Histogram
	for i := range short {
		ttft.Record(short[i].Latency(result.TTFT))
		e2el.Record(short[i].Latency(result.E2EL))
	}
	tokens := 0
	for i := range streams {
		tokens += streams[i].Flow.Chunks
		for _, g := range streams[i].Flow.Gaps {
			d := g - int64(overheadTokenGap)
			gaps.Record(max(d, -d))
		}
	}
	out := &result.Floor{
		Requests: len(short) + len(streams), TTFT: ttft.Distribution(), E2EL: e2el.Distribution(),
		ITLError: gaps.Distribution(),
	}
	if tokens > 0 && !math.IsNaN(cpu) {
		out.CPUPerTokenUs = new(cpu * 1e6 / float64(tokens))
	}
	return out, nil
}

// measureNoop runs side concurrent clients, which send rounds requests each.
func measureNoop(ctx context.Context, server *noopServer, side, rounds, tokens int,
	gap time.Duration,
) (samples []client.Sample, cpuSeconds float64, err error) {
	o := Options{BaseURL: server.url(), RequestTimeout: PositiveDuration(5 * time.Second), Header: []string{
		fmt.Sprintf("X-Null-Tokens: %d", tokens), "X-Null-Gap: " + gap.String(),
	}}
	s, err := o.Validate()
	if err != nil {
		return nil, 0, err
	}
	r, err := newRun(s)
	if err != nil {
		return nil, 0, err
	}
	defer r.send.Targets[0].Close()
	r.send.Gaps = true
	d, cpu := r.newDriver(), cpuSpan{}
	cpu.begin()
	var all sync.WaitGroup
	for range side {
		all.Go(func() {
			for range rounds {
				q := &client.Request{
					D: s.work.Mix[0].D, Model: "null", Stream: true, OutWanted: tokens,
					Messages: []client.Message{{Role: "user", Text: []byte("Hello")}},
				}
				j := newPendingRequest(q, 0)
				d.runSession(ctx, j, r.send.Clock.Now(), nil)
			}
		})
	}
	all.Wait()
	cpu.finish()
	for i := range r.rec.samples {
		if !r.rec.samples[i].Completed() {
			return nil, 0, fmt.Errorf("measure the client's floor: %s", r.rec.samples[i].Err)
		}
	}
	return r.rec.samples, cpu.cpu, nil
}
