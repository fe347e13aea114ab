package proxy

import (
	"time"

	"penstock/proxy/observe"
)

// What a call shows of itself while it runs.

// The phases by address, so that entering one is a store and nothing else.
var (
	phaseQueued    = observe.PhaseQueued
	phaseWaiting   = observe.PhaseWaiting
	phaseStreaming = observe.PhaseStreaming
)

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
