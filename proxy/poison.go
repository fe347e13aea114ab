package proxy

import (
	"errors"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"penstock/proxy/observe"
	"penstock/translate/apierr"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// A poison request kills its engine. The retry would kill a second engine, and the client's own
// retry more of them. So a body that has cost two engines is not sent to a third while both are
// still down. An engine counts as lost to a body when its connection ended before its stream had
// begun or its answer was complete, and its probes find it down now. An engine that only dropped a
// connection is up again at once. A body that another engine has answered is cleared.

const (
	poisonMemory = time.Minute // how long a loss is remembered
	maxPoison    = 1024        // bodies that are remembered; in a larger outage the breakers decide
)

// poisonRequests remembers which engines were lost to which bodies. It keeps a hash of the body
// under a seed of this process and nothing of the body itself. Its methods may be called from any
// goroutine. As long as no engine is lost, blocks costs one atomic load.
type poisonRequests struct {
	seed  maphash.Seed
	until atomic.Int64 // Unix nanoseconds of the end of the newest entry

	mu     sync.Mutex
	bodies map[uint64]*lostEngines
}

// lostEngines are the engines that were lost to one body.
type lostEngines struct {
	until   time.Time
	engines []*upstreams.Upstream
}

func newPoisonRequests() *poisonRequests {
	return &poisonRequests{seed: maphash.MakeSeed(), bodies: map[uint64]*lostEngines{}}
}

// record notes that u was lost to body. It returns the hash that clear takes.
func (l *poisonRequests) record(body []byte, u *upstreams.Upstream, now time.Time) (hash uint64) {
	hash = l.hash(body)
	until := now.Add(poisonMemory)
	l.mu.Lock()
	defer l.mu.Unlock()
	for h, old := range l.bodies {
		if !now.Before(old.until) {
			delete(l.bodies, h)
		}
	}
	of := l.bodies[hash]
	if of == nil {
		if len(l.bodies) >= maxPoison {
			return hash
		}
		of = &lostEngines{}
		l.bodies[hash] = of
	}
	of.until = until
	if !slices.Contains(of.engines, u) {
		of.engines = append(of.engines, u)
	}
	l.until.Store(until.UnixNano())
	return hash
}

// hash returns a body's hash, never 0.
func (l *poisonRequests) hash(body []byte) uint64 { return max(1, maphash.Bytes(l.seed, body)) }

// clear forgets a body that was answered.
func (l *poisonRequests) clear(hash uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.bodies, hash)
}

// blocks reports whether two engines that were lost to body are still down.
func (l *poisonRequests) blocks(body []byte, now time.Time) bool {
	if now.UnixNano() >= l.until.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.bodies[l.hash(body)]
	if of == nil || !now.Before(of.until) {
		return false
	}
	down := 0
	for _, u := range of.engines {
		if u.State() == upstreams.StateDown {
			down++
		}
	}
	return down >= 2
}

// blocked refuses a call whose body has cost two engines.
func (c *Call) blocked(now time.Time) *failure {
	if c.body == nil || !c.shared.poison.blocks(*c.body, now) {
		return nil
	}
	return &failure{
		api:     apierr.New(502, apierr.CodeUpstreamFailed, "Two engines were lost while they worked on this very request, so it is not sent again for now."),
		outcome: upstreams.OutcomeClientGone, result: observe.UpstreamFail,
	}
}

// clearPoison clears the body of a call that had cost an engine and that another engine answered.
func (c *Call) clearPoison() {
	if c.poisonHash != 0 && c.record.TTFT > 0 {
		c.shared.poison.clear(c.poisonHash)
	}
}

// bodyHash identifies a body that failed. It is 0 for a form, and for a body that was released
// unhashed.
func (c *Call) bodyHash() uint64 {
	if c.body != nil {
		return c.shared.poison.hash(*c.body)
	}
	return c.releasedHash
}

// recordLoss records an engine whose connection ended while it had the request.
func (c *Call) recordLoss(f *failure, now time.Time) {
	var x *http1.Failure
	if c.body == nil || c.attempt.begun || !errors.As(f.api.Cause, &x) || !x.Sent {
		return
	}
	switch x.Reason {
	case http1.ReasonReset, http1.ReasonEOF, http1.ReasonTruncated:
		c.poisonHash = c.shared.poison.record(*c.body, c.upstream, now)
	case http1.ReasonSilent:
		// Unacknowledged data cannot have crashed the engine. An errno means that the host took it
		// first.
		if _, took := errors.AsType[syscall.Errno](x.Err); took {
			c.poisonHash = c.shared.poison.record(*c.body, c.upstream, now)
		}
	}
}
