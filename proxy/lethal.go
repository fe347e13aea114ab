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
)

// A request that kills its engine takes a second one with it, because it is tried again; and its client asks once more. So
// that it does not walk through the fleet, a body that has cost two engines is sent to no third while both are still down.
// An engine counts as lost to a body when its connection ended before its stream had begun or its answer was whole, and when
// its probes find it dead now: one that merely dropped a connection is back in the same moment, and a body that another engine
// has answered is cleared.

const (
	lethalFor = time.Minute // how long a loss is remembered
	maxLethal = 1024        // bodies that are remembered; in an outage of that size the breakers decide
)

// lethal remembers which engines were lost to which bodies: a hash of the body under a seed of this process, nothing of the
// body itself. Its methods may be called from any goroutine. As long as nothing is lost, asking costs one load.
type lethal struct {
	seed  maphash.Seed
	until atomic.Int64 // Unix nanoseconds of the end of the newest entry

	mu     sync.Mutex
	losses map[uint64]*losses
}

// losses are the engines that were lost to one body.
type losses struct {
	until   time.Time
	engines []*upstreams.Upstream
}

func newLethal() *lethal { return &lethal{seed: maphash.MakeSeed(), losses: map[uint64]*losses{}} }

// add notes that u was lost to body and returns what clear wants.
func (l *lethal) add(body []byte, u *upstreams.Upstream, now time.Time) (hash uint64) {
	hash = l.hash(body)
	until := now.Add(lethalFor)
	l.mu.Lock()
	defer l.mu.Unlock()
	for h, old := range l.losses {
		if !now.Before(old.until) {
			delete(l.losses, h)
		}
	}
	of := l.losses[hash]
	if of == nil {
		if len(l.losses) >= maxLethal {
			return hash
		}
		of = &losses{}
		l.losses[hash] = of
	}
	of.until = until
	if !slices.Contains(of.engines, u) {
		of.engines = append(of.engines, u)
	}
	l.until.Store(until.UnixNano())
	return hash
}

// hash returns a body's hash, never 0.
func (l *lethal) hash(body []byte) uint64 { return max(1, maphash.Bytes(l.seed, body)) }

// clear forgets a body that was answered.
func (l *lethal) clear(hash uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.losses, hash)
}

// holds reports whether two engines that were lost to body are still down.
func (l *lethal) holds(body []byte, now time.Time) bool {
	if now.UnixNano() >= l.until.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.losses[l.hash(body)]
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

// withheld refuses a call whose body has cost two engines.
func (c *Call) withheld(now time.Time) *failure {
	if c.body == nil || !c.edge.lethal.holds(*c.body, now) {
		return nil
	}
	return &failure{
		api:     apierr.New(502, apierr.CodeUpstreamFailed, "Two engines were lost while they worked on this very request, so it is not sent again for now."),
		outcome: upstreams.OutcomeClientGone, result: observe.UpstreamFail,
	}
}

// survived clears the body of a call that had cost an engine and was answered by another.
func (c *Call) survived() {
	if c.lethal != 0 && c.record.TTFT > 0 {
		c.edge.lethal.clear(c.lethal)
	}
}

// bodyHash tells bodies apart that fail; 0 when the body is gone and was not looked at, or is a form.
func (c *Call) bodyHash() uint64 {
	if c.body != nil {
		return c.edge.lethal.hash(*c.body)
	}
	return c.hashed
}

// lost notes an engine whose connection ended while it had the request.
func (c *Call) lost(f *failure, now time.Time) {
	var x *upstreams.Failure
	if c.body == nil || c.attempt.begun || !errors.As(f.api.Cause, &x) || !x.Sent {
		return
	}
	switch x.Reason {
	case upstreams.ReasonReset, upstreams.ReasonEOF, upstreams.ReasonTruncated:
		c.lethal = c.edge.lethal.add(*c.body, c.upstream, now)
	case upstreams.ReasonSilent:
		// A request that nobody acknowledged has harmed nobody. A host that took it and fell silent then is told by the system.
		if _, took := errors.AsType[syscall.Errno](x.Err); took {
			c.lethal = c.edge.lethal.add(*c.body, c.upstream, now)
		}
	}
}
