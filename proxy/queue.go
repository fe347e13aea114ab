package proxy

import (
	"errors"
	"time"

	"penstock/proxy/limit"
	"penstock/routing"
	"penstock/upstreams"
)

// Calls that wait for a slot of a full model. What wakes them is limit.Queues, which the upstreams
// tell of every change.

// waitForSlot waits in the model's queue for a slot, when it has one. It returns what acquire
// would.
func (c *Call) waitForSlot(q *routing.Query, full error) (lease *upstreams.Lease, target *routing.Target, err error) {
	if c.model.Queue == nil {
		return nil, nil, full
	}
	left := make(chan struct{})
	c.left.Store(&left)
	if c.aborted() != nil {
		return nil, nil, full // dispatch looks at the cause before anything else
	}
	c.setPhase(&phaseQueued)
	need := limit.Need{Pool: q.Pool, Tried: q.Exclude}
	if c.key != nil {
		need.Key = c.key.ID
	}
	begun := time.Now()
	err = full
	waited := c.model.Queue.Wait(left, &need, begun.Add(c.model.Config.Queue.Wait.D()), func() bool {
		q.Now = time.Now()
		c.follow() // a reload may have given the model other engines
		lease, target, err = c.model.Route.Acquire(q)
		var stillFull *routing.FullError
		return !errors.As(err, &stillFull)
	})
	c.record.Queue += time.Now().Sub(begun)
	if waited == nil {
		c.setPhase(&phaseWaiting)
	} else if err == nil {
		err = full
	}
	return lease, target, err
}
