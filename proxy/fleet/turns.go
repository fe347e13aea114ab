package fleet

import (
	"context"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// turns lets edges take turns if their calls wait for a slot of the same account. The store
// reserves a free slot for the first edge in the order, and notifies that edge. If an edge has
// received a slot and waits for another, it moves to the end of the order. Therefore, an edge that
// frees many slots cannot keep all of them for its queue.
type turns struct {
	waited func() bool
	wake   func() // makes one of this edge's waiting calls try again
	asked  bool   // whether the last message reported waiting calls
}

// askAgain is how often an edge with waiting calls asks again. If the store's notification is lost,
// a free slot stays unused for no longer than this. Asking also keeps the edge's turn, which would
// end after a second without a message.
const askAgain = 50 * time.Millisecond

func (t *turns) say(p *part) {
	if t.asked = t.waited(); t.asked {
		p.kind = turn
	}
}

// spareTarget returns the spare amount that an account prefetches for a cell. It is zero for an
// account with turns, because other edges may be waiting for the slots. The caller must hold mu of
// the account.
func spareTarget(a *account, c *cell) int64 {
	if a.turns != nil {
		return 0
	}
	return c.target(a.terms.edges())
}

// HearTurns receives notifications from the store until ctx is done. When it is this edge's turn, a
// waiting call tries again.
func HearTurns(ctx context.Context, f *Fleet) {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for ctx.Err() == nil {
		if c, err := f.Client(); err == nil && f.taken.Load() {
			// Some stores do not allow other commands on a subscribed connection.
			own, _ := c.Dedicate()
			channel := own.B().Subscribe().Channel(f.prefix + ":turns").Build()
			// Receive blocks until the connection is lost.
			_ = own.Receive(ctx, channel, func(m valkey.PubSubMessage) { hearTurn(f, m.Message) })
			own.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// hearTurn handles a notification, which names an account and the edge whose turn it is. If no call
// at this edge is waiting any more, the next report passes the turn to the next edge.
func hearTurn(f *Fleet, said string) {
	id, edge, _ := strings.Cut(said, " ")
	if edge != f.terms.edge {
		return
	}
	for _, a := range f.queuedAccounts() {
		if a.id == id {
			takeTurn(a)
		}
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func takeTurn(a *account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.turns == nil {
		return
	}
	if a.turns.waited() {
		a.turns.wake()
		return
	}
	a.sent = min(a.sent, a.terms.now()-askAgain) // makes a report due immediately
}
