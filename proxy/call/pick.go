package call

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"penstock/proxy/limit"
	"penstock/routing"
	"penstock/upstreams"
)

// picker picks the target of a call's attempt.
type picker struct{ call *Call }

// acquire picks a target, and waits for one where the model has a queue. A reload may have retired
// every target of the snapshot that this call began with; then the newest one is asked in the same
// way, so that no reload causes a refusal.
func (p picker) acquire(now time.Time) (*upstreams.Lease, *routing.Target, error) {
	m := p.call.config.model
	q := routing.Query{
		Pool: p.call.tries.pool, Key: p.call.record.Key, Tokens: p.call.tokens.prompt, Prefix: p.prefixBlocks(),
		Exclude: p.call.tries.excluded, Now: now, Rand: rand.Uint64(),
	}
	if m.Crowded() {
		return p.waitForSlot(&q, m.Route.Full(&q))
	}
	lease, target, err := m.Route.Acquire(&q)
	if err == nil {
		return lease, target, nil
	}
	var full *routing.FullError
	switch {
	case errors.As(err, &full):
		return p.waitForSlot(&q, err)
	case errors.Is(err, routing.ErrStarting):
		m.Route.Wake(&q)
		return p.waitForSlot(&q, err)
	case !errors.Is(err, routing.ErrNoUpstream), !p.call.config.follow(p.call.shared.Current()):
		return nil, nil, err
	}
	return p.acquire(now)
}

// waitForSlot waits in the model's queue for a slot, when it has one. It returns what acquire
// would. limit.Queues, to which the upstreams report every change, wakes the call.
func (p picker) waitForSlot(q *routing.Query, full error) (lease *upstreams.Lease, target *routing.Target, err error) {
	m := p.call.config.model
	if m.Queue == nil {
		return nil, nil, full
	}
	left, ok := p.call.abort.Wait()
	if !ok {
		return nil, nil, full // the dispatcher looks at the cause before anything else
	}
	p.call.setPhase(&phaseQueued)
	need := limit.Need{Pool: q.Pool, Tried: q.Exclude}
	if p.call.rates.key != nil {
		need.Key = p.call.rates.key.ID
	}
	begun := time.Now()
	q.Now = begun
	quit := m.Route.Wait(q)
	defer quit()
	waited := m.Queue.Wait(left, &need, begun.Add(m.Config.Queue.Wait.D()), func() bool {
		q.Now = time.Now()
		p.call.config.follow(p.call.shared.Current()) // a reload may have given the model other engines
		route := p.call.config.model.Route
		lease, target, err = route.Acquire(q)
		if errors.Is(err, routing.ErrStarting) {
			route.Wake(q)
			return false
		}
		var stillFull *routing.FullError
		return !errors.As(err, &stillFull)
	})
	p.call.record.Queue += time.Since(begun)
	if waited == nil {
		p.call.setPhase(&phaseWaiting)
	} else {
		q.Now = time.Now()
		err = p.call.config.model.Route.Full(q)
	}
	return lease, target, err
}

// prefixBlocks hashes the beginning of the prompt for a route that picks by what an engine has
// cached.
func (p picker) prefixBlocks() []uint64 {
	m, t := p.call.config.model, &p.call.tries
	if !m.Route.WantsPrefix() {
		return nil
	}
	if len(t.prefix) == 0 {
		tools, messages := p.call.request.Prefix()
		if messages == nil {
			return nil
		}
		seed := routing.Seed(m.Config.ID, cacheOwner(p.call.rates.key, m), tools)
		t.prefix = routing.HashBlocks(t.prefix, seed, messages)
	}
	return t.prefix
}

// otherTarget reports whether an engine beside the one that was asked may take the call now.
func (p picker) otherTarget() bool {
	t, route := &p.call.tries, p.call.config.model.Route
	q := routing.Query{
		Pool: t.pool, Key: p.call.record.Key, Now: time.Now(),
		Exclude: append(t.excluded[:len(t.excluded):len(t.excluded)], t.upstream.ID()),
	}
	hasRoom := func(to routing.Target) bool { return route.Room(to.Upstream, &q).Slots > 0 }
	return slices.ContainsFunc(route.Targets(), hasRoom)
}
