package bench

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Sizes of the floor's two parts.
const (
	floorRounds  = 300 // short requests, one after the other
	floorStreams = 16  // side by side
	floorTokens  = 50  // of each
	floorGap     = 10 * time.Millisecond
)

// measureClientOverhead measures a server in this process that answers at once: first requests one by one, then streams whose tokens come
// 10 ms apart. It takes about a second.
func measureClientOverhead(ctx context.Context) (*Floor, error) {
	server, err := startNoopServer()
	if err != nil {
		return nil, fmt.Errorf("measure the client's floor: %w", err)
	}
	defer server.close()
	short, _, _, err := probeNull(ctx, server, 1, floorRounds, 1, 0)
	if err != nil {
		return nil, err
	}
	streams, cpu, known, err := probeNull(ctx, server, floorStreams, 1, floorTokens, floorGap)
	if err != nil {
		return nil, err
	}
	var ttft, e2el, gaps histogram
	for i := range short {
		ttft.record(short[i].latency(TTFT))
		e2el.record(short[i].latency(E2EL))
	}
	tokens := 0
	for i := range streams {
		tokens += streams[i].flow.chunks
		for _, g := range streams[i].flow.gaps {
			d := g - int64(floorGap)
			gaps.record(max(d, -d))
		}
	}
	out := &Floor{Requests: len(short) + len(streams), TTFT: ttft.distribution(nil), E2EL: e2el.distribution(nil), ITLError: gaps.distribution(nil)}
	if known && tokens > 0 {
		us := float64(cpu.Microseconds()) / float64(tokens)
		out.CPUPerTokenUs = &us
	}
	return out, nil
}

// probeNull sends a number of requests side by side, and as many rounds of them.
func probeNull(ctx context.Context, server *noopServer, side, rounds, tokens int, gap time.Duration) ([]sample, time.Duration, bool, error) {
	o := Options{BaseURL: server.url(), SaveDetailed: true, RequestTimeout: Span(5 * time.Second), Header: []string{
		fmt.Sprintf("X-Null-Tokens: %d", tokens), "X-Null-Gap: " + gap.String(),
	}}
	s, err := o.validate()
	if err != nil {
		return nil, 0, false, err
	}
	r, err := newRun(s)
	if err != nil {
		return nil, 0, false, err
	}
	defer r.send.targets[0].close()
	d, cpu := r.driver(tokenCounter{}), cpuSpan{}
	cpu.begin()
	var all sync.WaitGroup
	for range side {
		all.Go(func() {
			for range rounds {
				q := &request{d: s.work.mix[0].d, model: "null", stream: true, outWanted: tokens, messages: []message{{role: "user", text: []byte("Hello")}}}
				j := newPendingRequest(q, 0)
				d.perform(ctx, j, r.send.clock.now(), nil)
			}
		})
	}
	all.Wait()
	cpu.finish()
	for i := range r.rec.samples {
		if !r.rec.samples[i].completed() {
			return nil, 0, false, fmt.Errorf("measure the client's floor: %s", r.rec.samples[i].err)
		}
	}
	return r.rec.samples, cpu.cpu, cpu.known, nil
}
