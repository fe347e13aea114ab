package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"penstock/bench/load/client"
)

// keyLoad contains the calls of a key during the run.
type keyLoad struct {
	key, model string
	more       string // additional members of the request
	limit      int

	mu    sync.Mutex
	calls []clientCall
}

// edgeChooser returns the edge that gets the call due at the given time. If it returns -1, the call
// is not sent. chance is a random number from 0 to 1.
type edgeChooser func(at time.Duration, chance float64) int

// edgeDistributions lists ways to distribute calls over the edges.
var edgeDistributions = []struct {
	name string
	to   edgeChooser
}{
	{"even", evenDistribution},
	{"90/10", func(_ time.Duration, chance float64) int { return max(0, int((chance*10-9)*edgeCount)) }},
	{"moving", func(at time.Duration, _ float64) int { return int(at/time.Second) % edgeCount }},
	{"waves", func(at time.Duration, chance float64) int {
		if at%(2*time.Second) < time.Second {
			return -1
		}
		return evenDistribution(at, chance)
	}},
}

func evenDistribution(_ time.Duration, chance float64) int { return int(chance * edgeCount) }

// sendModelCall sends a call and records it.
func (r *run) sendModelCall(ctx context.Context, l *keyLoad, edge int) clientCall {
	c := r.sendCall(ctx, l, edge,
		fmt.Sprintf(`{"model":%q,"max_tokens":4,"messages":[{"role":"user","content":"Hello"}],%s}`, l.model,
			l.more))
	l.mu.Lock()
	l.calls = append(l.calls, c)
	l.mu.Unlock()
	return c
}

func (r *run) sendCall(ctx context.Context, l *keyLoad, edge int, body string) clientCall {
	c := clientCall{edge: edge, sent: time.Since(r.startedAt)}
	if t, err := client.NewTarget(r.world.edges[edge].url, false, client.BearerHeader(r.world.keys[l.key])); err == nil {
		if p, err := t.FetchWithoutTimeout(ctx, t.Path+"/v1/chat/completions", []byte(body), t.Headers); err == nil {
			c.status, c.upstream = p.Status, p.Upstream
		}
	}
	c.ended = time.Since(r.startedAt)
	return c
}

// sendRandomCalls sends calls at random times, at the given rate per second, for d or until ctx
// ends. It returns when all calls have ended.
func (r *run) sendRandomCalls(ctx context.Context, l *keyLoad, rate float64, to edgeChooser, d time.Duration) {
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

// sendBursts sends bursts of 1 to maxBurstCalls concurrent calls to an edge, for d or until ctx
// ends. Each burst starts when the calls of the previous one have ended.
func (r *run) sendBursts(ctx context.Context, l *keyLoad, d time.Duration) {
	chance := rand.New(rand.NewPCG(2, uint64(l.limit)))
	for began := time.Now(); ctx.Err() == nil && time.Since(began) < d; {
		var calls sync.WaitGroup
		edge := chance.IntN(edgeCount)
		for range 1 + chance.IntN(maxBurstCalls) {
			calls.Go(func() { r.sendModelCall(context.WithoutCancel(ctx), l, edge) })
		}
		calls.Wait()
		time.Sleep(time.Duration(chance.IntN(150)) * time.Millisecond)
	}
}

// exhaustLimits sends each call as soon as the previous one is answered, until every edge refuses
// the key.
func (r *run) exhaustLimits(ctx context.Context, l *keyLoad) {
	var callers sync.WaitGroup
	for i := range 4 * edgeCount {
		callers.Go(func() {
			for ctx.Err() == nil && r.sendModelCall(ctx, l, i%edgeCount).status == 200 {
			}
		})
	}
	callers.Wait()
}

func (l *keyLoad) allCalls() []clientCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]clientCall(nil), l.calls...)
}
