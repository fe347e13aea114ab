package fleet

import (
	"sync"
	"time"

	"penstock/config"
	"penstock/proxy/access/limit"
)

// keyAccount implements limit.KeyAccount for one key in the fleet. Its methods may be called by
// multiple goroutines.
type keyAccount struct {
	edgeState *edgeState
	id        string
	edgeID    string

	mu           sync.Mutex
	keyCells     keyCells
	lastAcquired time.Duration // when a call last acquired requests, tokens or a slot
	reportQueued bool

	turns *slotTurns // if nil, a call is rejected immediately when no slot is free

	messageNumber         uint64
	birth                 string       // birth id of the account in the store, from the last answer
	inFlight, nextMessage *sentMessage // the message in flight, and the message to be sent after it
	lastSent              time.Duration
	reservationsLost      bool // whether the store may have lost the reservations of running calls
	lastAnswer            time.Duration
	failedRequests        int // number of failed requests since the last answer
}

func newAccount(t *edgeState, id string) *keyAccount {
	a := &keyAccount{edgeState: t, id: id, edgeID: t.edgeID, lastAcquired: -time.Hour}
	a.keyCells.names = cellLimitNames
	a.keyCells.cells[requestCellIndex].kind, a.keyCells.cells[tokenCellIndex].kind = cellKindRate, cellKindRate
	return a
}

func (a *keyAccount) TakeRequest(l config.KeyLimits, now time.Time) limit.Decision {
	if a.useRefundedRequest(limitAmounts(l), now) {
		return allowedDecision
	}
	return a.takeCallAmounts(limitAmounts(l), cellAmounts{requestCellIndex: 1}, now)
}

// RefundRequest reverts the last successful TakeRequest. The store may have counted that request
// already, so RefundRequest makes the key's next request free instead.
func (a *keyAccount) RefundRequest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keyCells.refundRequest()
}

// useRefundedRequest reports whether a request is free because an earlier request was refunded.
func (a *keyAccount) useRefundedRequest(l cellAmounts, at time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keyCells.cells[requestCellIndex].refunds == 0 {
		return false
	}
	a.keyCells.applyLimits(l)
	now := a.edgeState.sinceEpoch(at)
	if !a.edgeState.store.Available() || !a.keyCells.useRefund(now) {
		return false
	}
	a.lastAcquired = now
	return true
}

func (a *keyAccount) Reserve(l config.KeyLimits, estimate int64, now time.Time) (held int64, d limit.Decision) {
	held = min(max(estimate, 0), int64(l.TokensPerMinute))
	return held, a.takeCallAmounts(limitAmounts(l), cellAmounts{tokenCellIndex: held, slotCellIndex: 1}, now)
}

func (a *keyAccount) Settle(held, used int64) {
	a.settle(cellAmounts{tokenCellIndex: held, slotCellIndex: 1}, cellAmounts{tokenCellIndex: used})
}

// Charge charges tokens that a running call used in addition to those that it has reserved. Usage
// at other edges is known from the store's last answer.
func (a *keyAccount) Charge(used int64, _ time.Time) limit.Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settleLocked(cellAmounts{}, cellAmounts{tokenCellIndex: used})
	if a.isFailOpen() {
		return allowedDecision
	}
	return a.keyCells.overLimitRefusal(tokenCellIndex)
}

// isFailOpen reports whether no limit applies, because this edge works without the store and
// fleet.lost is open. The caller must hold mu.
func (a *keyAccount) isFailOpen() bool {
	return a.edgeState.lostPolicy == config.StoreLostOpen && (a.keyCells.isOffline || !a.edgeState.store.Available())
}

// settle replaces the amounts reserved for a call by the amounts that the call has used.
func (a *keyAccount) settle(held, used cellAmounts) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settleLocked(held, used)
}

// settleLocked does the work of settle. The caller must hold mu.
func (a *keyAccount) settleLocked(held, used cellAmounts) {
	now := a.edgeState.now()
	a.keyCells.accrueOffline(now, a.edgeState)
	a.keyCells.decayDebts(now) // before adding the new charges, which have not decayed yet
	a.keyCells.settle(held, used)
	a.queueReport()
}

// takeCallAmounts takes either all amounts that a call needs, or none. If this edge has been granted
// too little, takeCallAmounts waits for the store.
func (a *keyAccount) takeCallAmounts(l cellAmounts, n cellAmounts, at time.Time) limit.Decision {
	now := a.edgeState.sinceEpoch(at)
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.queueReport()
	a.keyCells.applyLimits(l)
	a.keyCells.fenceUnused(now - a.lastAnswer)
	a.lastAcquired = now
	if !a.edgeState.store.Available() || a.hasCallWaited(n) {
		return a.takeWithoutStore(n, now)
	}
	if d, ok := a.takeGranted(n, now); ok {
		return d
	}
	if shouldOpenBreaker(a.edgeState.store.ConsecutiveFailures(), int(a.edgeState.waitingCalls.Load())) {
		return a.takeWithoutStore(n, now)
	}
	return a.askStore(n, now)
}

// fenceMargin is how long before its lease expires an edge gives up the amounts that it was
// granted.
const fenceMargin = 2 * time.Second

// hasCallWaited reports whether the call has already waited for the store in TakeRequest, without
// success. A call must not wait twice. The caller must hold mu.
func (a *keyAccount) hasCallWaited(n cellAmounts) bool {
	if !a.keyCells.isOffline || n[slotCellIndex] == 0 || a.failedRequests == 0 {
		return false
	}
	a.failedRequests--
	return true
}

// exhaustedAnswerTTL is how long an edge trusts an answer which says that nothing is free.
const exhaustedAnswerTTL = 25 * time.Millisecond

// takeGranted takes the needed amounts from those granted to this edge. If the store has just
// answered that nothing is free, takeGranted rejects the call. ok is false if only the store can
// decide. The caller must hold mu.
func (a *keyAccount) takeGranted(n cellAmounts, now time.Duration) (d limit.Decision, ok bool) {
	u := &a.keyCells
	if u.isOffline || a.turns != nil && a.turns.hasWaiting() { // it may be another edge's turn
		return d, false
	}
	lacking := u.firstLackingCell(n, false, now, a.edgeState.edgeCount())
	if lacking < 0 {
		u.reserve(n)
		return allowedDecision, true
	}
	// Other edges may return amounts to the store, so the edge trusts an answer only for
	// exhaustedAnswerTTL. It does not trust the answer while a message is in flight, because the
	// message may return amounts. It never trusts an answer about slots, because a slot may become
	// free at any time.
	known := a.inFlight == nil && now-a.lastAnswer < exhaustedAnswerTTL
	if c := &u.cells[lacking]; known && c.kind != cellKindSlot && c.hasAnswer && u.missingAmount(lacking, n, now) > 0 {
		return u.refusal(lacking, n, now), true
	}
	return d, false
}

// takeWithoutStore decides without the store. The caller must hold mu.
func (a *keyAccount) takeWithoutStore(n cellAmounts, now time.Duration) limit.Decision {
	u, edges := &a.keyCells, a.edgeState.edgeCount()
	if !u.isOffline {
		u.goOffline(now, a.lastAnswer > 0 && now-a.lastAnswer < leaseTime, a.edgeState.sinceHeartbeat(now), edges)
	}
	a.keyCells.accrueOffline(now, a.edgeState)
	a.edgeState.metrics.offlineDecisions.Inc()
	switch a.edgeState.lostPolicy {
	case config.StoreLostOpen:
	case config.StoreLostClosed:
		return limit.Decision{Unavailable: true, RetryAfter: time.Second}
	default:
		if d := u.offlineRefusal(n, edges); !d.OK {
			return d
		}
	}
	u.reserve(n)
	return allowedDecision
}

// Levels returns the remaining requests and tokens: the sum of the amount granted to this edge and
// the amount that was free at the last answer.
func (a *keyAccount) Levels(l config.KeyLimits, now time.Time) (r, t limit.LimitLevel) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keyCells.applyLimits(limitAmounts(l))
	at := a.edgeState.sinceEpoch(now)
	return a.keyCells.limitLevel(requestCellIndex, at), a.keyCells.limitLevel(tokenCellIndex, at)
}
