package proxy

import (
	"errors"

	"penstock/routing"
	"penstock/upstreams"
)

// Calls that wait for a slot of a full model, and what wakes them.

// waitForSlot waits in the model's queue for a slot, when it has one. It returns what acquire would.
func (c *Call) waitForSlot(q *routing.Query, full error) (lease *upstreams.Lease, target *routing.Target, err error) {
	if c.model.queue == nil {
		return nil, nil, full
	}
	left := make(chan struct{})
	c.left.Store(&left)
	if c.aborted() != nil {
		return nil, nil, full // dispatch looks at the cause before anything else
	}
	c.enter(&phaseQueued)
	key := ""
	if c.key != nil {
		key = c.key.ID
	}
	begun := c.edge.now()
	err = full
	waited := c.model.queue.Wait(left, key, begun.Add(c.model.config.Queue.Wait.D()), func() bool {
		q.Now = c.edge.now()
		c.follow() // a reload may have given the model other engines
		lease, target, err = c.model.route.Acquire(q)
		var stillFull *routing.FullError
		return !errors.As(err, &stillFull)
	})
	c.record.Queue += c.edge.now().Sub(begun)
	if waited == nil {
		c.enter(&phaseWaiting)
	} else if err == nil {
		err = full
	}
	return lease, target, err
}

// slotFreed tells a waiting call of each model that a lease was given back.
func (e *Edge) slotFreed() {
	for _, q := range e.current.Load().queues {
		q.Signal()
	}
}

// roomMade tells every waiting call that there may be room which no lease gave back: an engine that came up or has more slots,
// or a reload. It may be called before there is a snapshot, from any goroutine.
func (e *Edge) roomMade() {
	if s := e.current.Load(); s != nil {
		for _, q := range s.queues {
			q.Broadcast()
		}
	}
}
