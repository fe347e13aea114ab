package fleet

import (
	"context"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// slotTurns lets edges take turns if their calls are waiting for slots of the same account. The store
// reserves a free slot for the first edge in the order, and notifies that edge. An edge that has
// received a slot and is waiting for another moves to the end of the order. An edge that frees many
// slots therefore cannot keep all of them for its queue.
type slotTurns struct {
	hasWaiting      func() bool
	wake            func() // makes one of this edge's waiting calls try again
	reportedWaiting bool   // whether the last message reported waiting calls
}

// askInterval is how often an edge with waiting calls asks again. If the store's notification is
// lost, a free slot stays unused for no longer than this. Each request also preserves the edge's
// turn, which would end after a second without a message.
const askInterval = 50 * time.Millisecond

func (t *slotTurns) setReportKind(p *cellReport) {
	if t.reportedWaiting = t.hasWaiting(); t.reportedWaiting {
		p.kind = cellKindTurn
	}
}

// spareTarget returns the spare amount that an account prefetches for a cell. It is zero for an
// account with turns, because other edges may be waiting for the slots. The caller must hold mu of
// the account.
func spareTarget(a *keyAccount, c *limitCell) int64 {
	if a.turns != nil {
		return 0
	}
	return c.prefetchTarget(a.edgeState.edgeCount())
}

// ReceiveTurns receives notifications from the store until ctx is done. When it is this edge's
// turn, a waiting call tries again.
func ReceiveTurns(ctx context.Context, f *Fleet) {
	tick := time.NewTicker(heartbeatInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		if c, err := f.Client(); err == nil && f.hasSlotAccounts.Load() {
			// Some stores do not allow other commands on a subscribed connection.
			own, _ := c.Dedicate()
			channel := own.B().Subscribe().Channel(f.prefix + ":turns").Build()
			// Receive blocks until the connection is lost.
			_ = own.Receive(ctx, channel, func(m valkey.PubSubMessage) { handleTurnNotice(f, m.Message) })
			own.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// handleTurnNotice handles a notification, which names an account and the edge whose turn it is. If no
// call at this edge is waiting any more, the edge's next report passes the turn to the next edge.
func handleTurnNotice(f *Fleet, said string) {
	id, edge, _ := strings.Cut(said, " ")
	if edge != f.edgeState.edgeID {
		return
	}
	for _, a := range f.queuedAccounts() {
		if a.id == id {
			useTurn(a)
		}
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func useTurn(a *keyAccount) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.turns == nil {
		return
	}
	if a.turns.hasWaiting() {
		a.turns.wake()
		return
	}
	a.lastSent = min(a.lastSent, a.edgeState.now()-askInterval) // makes the account's report due immediately
}
