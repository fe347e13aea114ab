package proxy

import (
	"time"

	"penstock/proxy/listen"
	"penstock/proxy/observe"
	"penstock/proxy/status"
)

// What a call shows of itself while it runs: shown is written before the connection knows of the call and not touched
// again, and what changes later is atomic, so the status page may look at any time.

// shown is the part that does not change.
type shown struct {
	id                        observe.ID
	start                     time.Time
	key, dialect, model, pool string
	stream                    bool
}

// The phases by address, so that entering one is a store and nothing else.
var (
	phaseQueued    = observe.PhaseQueued
	phaseWaiting   = observe.PhaseWaiting
	phaseStreaming = observe.PhaseStreaming
)

// show fills in shown. Call it before the connection is told of the call.
func (c *Call) show() {
	copy(c.shown.id[:], c.id)
	r := &c.record
	c.shown.start, c.shown.key, c.shown.dialect, c.shown.model, c.shown.pool, c.shown.stream = r.Start, r.Key, r.Dialect, r.Model, r.Pool, r.Stream
}

// enter notes the call's phase, for its record and for who looks from outside.
func (c *Call) enter(p *observe.Phase) {
	c.record.Phase = *p
	c.phase.Store(p)
}

// noteOverhead works out what the edge itself took before the first byte of the answer: everything but the waiting for the
// client's body, for a slot and for engines. An upload goes to its engine while it comes, so there it cannot be told.
func (c *Call) noteOverhead(now time.Time) {
	if c.upload != nil {
		return
	}
	heard := c.attempt.readAt
	if c.record.Stream && !c.attempt.begun {
		heard = now // committed without an event
	}
	c.record.Overhead = now.Sub(c.record.Start) - c.bodyWait - c.record.Queue - c.awaited - heard.Sub(c.asked)
}

// flights returns the calls that run now and have been resolved.
func (e *Edge) flights(now time.Time) (out []status.Call) {
	e.watch.EachWaiter(func(w listen.Waiter) {
		c := w.(*Call)
		s := &c.shown
		row := status.Call{
			ID: s.id.String(), Start: s.start, Key: s.key, Dialect: s.dialect, Model: s.model, Pool: s.pool, Stream: s.stream,
			State: string(observe.PhaseBody), Duration: status.Millis(now.Sub(s.start)),
		}
		if p := c.phase.Load(); p != nil {
			row.State = string(*p)
		}
		if u := c.target.Load(); u != nil {
			row.Upstream = u.Label()
		}
		if first := c.firstAt.Load(); first != 0 {
			row.TTFT = status.Millis(time.Unix(0, first).Sub(s.start))
		}
		out = append(out, row)
	})
	return out
}
