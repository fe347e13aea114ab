package fleet

import (
	"context"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// turns adds a queue of waiting calls to a slot account. Calls may wait at several edges, and the
// store makes these edges take turns. It reserves a free slot for the first edge and notifies that
// edge. An edge that has got a slot and waits for another goes to the end of the order. Thus an
// edge with many ending calls does not keep its slots for its own queue.
type turns struct {
	waited func() bool // reports whether calls of this edge wait
	wake   func()      // makes one of these calls try again
	asked  bool        // the last message reported that calls are waiting
}

// askAgain is the interval at which an edge whose calls wait asks again. If the store's notice was
// lost, a free slot stays unused for at most this time. Asking again also keeps the edge's turn,
// which ends after a second without a message.
const askAgain = 50 * time.Millisecond

// say records in a message whether calls are waiting.
func (t *turns) say(p *part) {
	if t.asked = t.waited(); t.asked {
		p.kind = turn
	}
}

// spareTarget returns the spare amount that an account aims to hold in a cell. It is zero for slots
// that other edges may wait for. The caller must hold the account's mu.
func spareTarget(a *account, c *cell) int64 {
	if a.turns != nil {
		return 0
	}
	return c.target(a.terms.edges())
}

// HearTurns listens to the store until ctx ends. When it is this edge's turn, a call that waits for
// a slot tries again.
func HearTurns(ctx context.Context, f *Fleet) {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for ctx.Err() == nil {
		if c, err := f.Client(); err == nil && f.taken.Load() {
			own, _ := c.Dedicate() // some stores allow no other command on it
			channel := own.B().Subscribe().Channel(f.prefix + ":turns").Build()
			// Receive returns when the connection is lost.
			_ = own.Receive(ctx, channel, func(m valkey.PubSubMessage) { hearTurn(f, m.Message) })
			own.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// hearTurn handles a message from the store. The message names an account and the edge whose turn
// it is. If no call of this edge is still waiting, hearTurn passes the turn on.
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

// takeTurn makes a waiting call of an account try again.
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
	a.sent = min(a.sent, a.terms.now()-askAgain) // makes a report due
}
