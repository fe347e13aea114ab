package fleet

import (
	"context"
	"errors"
	"time"

	"penstock/proxy/access/limit"
)

// flight is a message together with the calls that wait for its answer. The granted amount is set
// aside for these calls until each of them has taken its share or given it up. Until then, no
// report returns the amount, and no later call takes it.
type flight struct {
	done   chan struct{}
	err    error // set before done is closed
	wanted needs // sum of what the waiting calls need
}

func newFlight() *flight { return &flight{done: make(chan struct{})} }

// askStore sends a message to the store, and decides based on the answer. All waiting calls of the
// key share one message. The caller must hold mu, which is released while the message is in flight.
func (a *account) askStore(n needs, now time.Duration) limit.Decision {
	own := a.usage.needsOf(n)
	f, leads := a.join(own)
	// The context's timeout is shorter than the configured one, because timers fire late.
	ctx, cancel := context.WithTimeout(context.Background(), a.terms.timeout-a.terms.timeout/10)
	defer cancel()
	began := time.Now()
	a.terms.waiting.Add(1)
	defer a.terms.waiting.Add(-1)
	sent := leads && a.lead(ctx, f)
	if !leads {
		a.waitFor(ctx, f)
	}
	if !sent && !f.answered() {
		a.terms.store.Missed()
	}
	waited := time.Since(began)
	a.terms.metrics.waits.Update(waited.Seconds())
	return a.decide(f, n, own, now+waited)
}

// join adds a call to those waiting for the next message. The first of these calls sends the
// message.
func (a *account) join(own needs) (f *flight, leads bool) {
	if leads = a.next == nil; leads {
		a.next = newFlight()
	}
	for i := range own {
		a.next.wanted[i] += own[i]
	}
	return a.next, leads
}

// decide ends the wait of a call. The call either takes its share of the grant or gives it up. The
// caller must hold mu.
func (a *account) decide(f *flight, n, own needs, now time.Duration) limit.Decision {
	answered := f.answered()
	if answered {
		a.usage.unawait(own)
	}
	for i := range own {
		f.wanted[i] -= own[i]
	}
	if a.usage.lost || !answered {
		a.unanswered += int(n[requests])
		return a.takeAlone(n, now)
	}
	lacking := a.usage.lacking(n, true, now, a.terms.edges())
	if lacking < 0 {
		a.usage.hold(n)
		return allowed
	}
	return a.usage.refuse(lacking, n, now)
}

func (f *flight) answered() bool {
	select {
	case <-f.done:
		return f.err == nil
	default:
		return false
	}
}

// waitFor waits until a flight ends. The caller must hold mu, which is released during the wait.
func (a *account) waitFor(ctx context.Context, f *flight) {
	a.mu.Unlock()
	defer a.mu.Lock()
	select {
	case <-f.done:
	case <-ctx.Done():
	}
}

// lead sends the message of a flight once the previous message has been answered or has failed. If
// it could not send the message, it returns false. The caller must hold mu, which is released
// during the wait.
func (a *account) lead(ctx context.Context, f *flight) bool {
	for a.flying != nil && ctx.Err() == nil {
		a.waitFor(ctx, a.flying)
	}
	a.next = nil
	if a.flying != nil || !a.terms.store.Available() { // the previous message took too long
		f.err = context.DeadlineExceeded
		close(f.done)
		return false
	}
	a.send(ctx, f)
	return true
}

// send exchanges a message with the store. The caller must hold mu, which is released while the
// message is in flight.
func (a *account) send(ctx context.Context, f *flight) {
	a.flying = f
	a.sent = a.terms.now()
	m := a.message(a.sent)
	r, err := reply{}, errUnheard
	defer func() { a.land(&m, r, err) }()
	a.mu.Unlock()
	defer a.mu.Lock()
	r, err = a.terms.store.Exchange(ctx, a.id, &m)
}

// errUnheard is the error after a panic that prevented a message from being sent.
var errUnheard = errors.New("the message was not sent")

// message builds the next message. Until the answer arrives, the edge uses only the amounts that
// the message does not return. The caller must hold mu and must have set flying.
func (a *account) message(now time.Duration) message {
	a.number++
	m := message{edge: a.edge, number: a.number, born: a.born}
	a.usage.earn(now, a.terms)
	a.usage.fenceAfter(now - a.answered)
	for i := range a.usage.cells {
		c, target := &a.usage.cells[i], int64(0)
		c.catchUp(now)
		if now-a.active < c.keep() {
			target = spareTarget(a, c)
		}
		m.parts[i] = c.report(target, a.flying.wanted[i])
	}
	if a.turns != nil {
		a.turns.say(&m.parts[slots])
	}
	return m
}

// idleKept is how long the store keeps an account after its last message. It keeps the account of a
// budget longer.
const idleKept = 10 * time.Minute

// lostAt reports whether the birth id in an answer shows that the store has lost the account. If
// the account had no messages for the time idleKept, it has only expired, and no call has reserved
// amounts from it. The caller must hold mu.
func (a *account) lostAt(now time.Duration, birth string) bool {
	kept := now-a.answered < idleKept || a.usage.cells[tokens].kind == budget
	return kept && a.born != "" && a.born != birth
}

// land ends the flight of a message with its answer. The caller must hold mu.
func (a *account) land(m *message, r reply, err error) {
	f := a.flying
	if err != nil {
		a.terms.metrics.failed.Inc()
	} else {
		a.terms.metrics.sent.Inc()
		now := a.terms.now()
		jumped := a.terms.storeClock.setForward(r.clock, a.sent, now, a.answered)
		if jumped || a.lostAt(now, r.birth) {
			for i := range a.usage.cells {
				a.usage.cells[i].doubt(a.usage.lost, now, a.terms.edges())
				a.usage.cells[i].parted = jumped
			}
		}
		back := time.Duration(a.terms.back.Load())
		returns, alone := a.answered < back && now < back+untilAllTold, a.usage.lost
		a.born, a.answered, a.usage.lost, a.unheard, a.unanswered = r.birth, now, false, false, 0
		for i := range a.usage.cells {
			c := &a.usage.cells[i]
			c.granted(m.parts[i], r.grants[i], now)
			if returns && now >= c.doubtful {
				c.doubtReturn(alone, now, a.terms.edges())
			}
		}
		a.usage.await(f.wanted)
	}
	a.flying = nil
	f.err = err
	close(f.done)
}
