package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"penstock/bench/load/client"
)

// load contains the calls of a key during the run.
type load struct {
	key, model string
	more       string // additional members of the request
	limit      int

	mu    sync.Mutex
	calls []call
}

// edgeChooser returns the edge that gets the call due at the given time. If it returns -1, the call
// is not sent. chance is a random number from 0 to 1.
type edgeChooser func(at time.Duration, chance float64) int

// distributions lists ways to distribute calls over the edges.
var distributions = []struct {
	name string
	to   edgeChooser
}{
	{"even", even},
	{"90/10", func(_ time.Duration, chance float64) int { return max(0, int((chance*10-9)*edges)) }},
	{"moving", func(at time.Duration, _ float64) int { return int(at/time.Second) % edges }},
	{"waves", func(at time.Duration, chance float64) int {
		if at%(2*time.Second) < time.Second {
			return -1
		}
		return even(at, chance)
	}},
}

func even(_ time.Duration, chance float64) int { return int(chance * edges) }

// sendModelCall sends a call and records it.
func (r *run) sendModelCall(ctx context.Context, l *load, edge int) call {
	c := r.sendCall(ctx, l, edge,
		fmt.Sprintf(`{"model":%q,"max_tokens":4,"messages":[{"role":"user","content":"Hello"}],%s}`, l.model,
			l.more))
	l.mu.Lock()
	l.calls = append(l.calls, c)
	l.mu.Unlock()
	return c
}

func (r *run) sendCall(ctx context.Context, l *load, edge int, body string) call {
	c := call{edge: edge, sent: time.Since(r.startedAt)}
	if t, err := client.NewTarget(r.world.edges[edge].url, false, client.Bearer(r.world.keys[l.key])); err == nil {
		if p, err := t.FetchWithoutTimeout(ctx, t.Path+"/v1/chat/completions", []byte(body), t.Headers); err == nil {
			c.status, c.upstream = p.Status, p.Upstream
		}
	}
	c.ended = time.Since(r.startedAt)
	return c
}

// sendRandomCalls sends calls at random times, at the given rate per second, for d or until ctx ends. It
// returns when all calls have ended.
func (r *run) sendRandomCalls(ctx context.Context, l *load, rate float64, to edgeChooser, d time.Duration) {
	var calls sync.WaitGroup
	chance := rand.New(rand.NewPCG(1, uint64(l.limit)))
	began := time.Now()
	for at := time.Duration(0); ctx.Err() == nil; {
		at += time.Duration(chance.ExpFloat64() / rate * float64(time.Second))
		if at >= d {
			break
		}
		time.Sleep(time.Until(began.Add(at)))
		if edge := to(at, chance.Float64()); edge >= 0 {
			calls.Go(func() { r.sendModelCall(context.WithoutCancel(ctx), l, edge) })
		}
	}
	calls.Wait()
}

// sendBursts sends bursts of 1 to maxBurst concurrent calls to an edge, for d or until ctx ends. Each
// burst starts when the calls of the previous one have ended.
func (r *run) sendBursts(ctx context.Context, l *load, d time.Duration) {
	chance := rand.New(rand.NewPCG(2, uint64(l.limit)))
	for began := time.Now(); ctx.Err() == nil && time.Since(began) < d; {
		var calls sync.WaitGroup
		edge := chance.IntN(edges)
		for range 1 + chance.IntN(maxBurst) {
			calls.Go(func() { r.sendModelCall(context.WithoutCancel(ctx), l, edge) })
		}
		calls.Wait()
		time.Sleep(time.Duration(chance.IntN(150)) * time.Millisecond)
	}
}

// exhaustLimits sends each call as soon as the previous one is answered, until every edge refuses the
// key.
func (r *run) exhaustLimits(ctx context.Context, l *load) {
	var callers sync.WaitGroup
	for i := range 4 * edges {
		callers.Go(func() {
			for ctx.Err() == nil && r.sendModelCall(ctx, l, i%edges).status == 200 {
			}
		})
	}
	callers.Wait()
}

func (l *load) allCalls() []call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]call(nil), l.calls...)
}
