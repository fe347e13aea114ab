package fleet

import (
	"context"
	"errors"
	"time"

	"penstock/proxy/access/limit"
)

// sentMessage is a message together with the calls that wait for its answer. The granted amount is
// set aside for these calls until each of them has taken its share or given it up. Until then, no
// report returns the amount to the store, and no later call takes it.
type sentMessage struct {
	done   chan struct{}
	err    error       // set before done is closed
	wanted cellAmounts // sum of what the waiting calls need
}

func newSentMessage() *sentMessage { return &sentMessage{done: make(chan struct{})} }

// askStore sends a message to the store, and decides based on the answer. All waiting calls of the
// key share one message. The caller must hold mu, which is released while the message is in flight.
func (a *keyAccount) askStore(n cellAmounts, now time.Duration) limit.Decision {
	own := a.keyCells.cappedNeeds(n)
	f, leads := a.joinNextMessage(own)
	// The context's timeout is shorter than the configured one, because timers fire late.
	ctx, cancel := context.WithTimeout(context.Background(), a.edgeState.timeout-a.edgeState.timeout/10)
	defer cancel()
	began := time.Now()
	a.edgeState.waitingCalls.Add(1)
	defer a.edgeState.waitingCalls.Add(-1)
	sent := leads && a.sendWhenIdle(ctx, f)
	if !leads {
		a.waitForAnswer(ctx, f)
	}
	if !sent && !f.hasAnswer() {
		a.edgeState.store.CountMissed()
	}
	waited := time.Since(began)
	a.edgeState.metrics.storeWaits.Update(waited.Seconds())
	return a.finishWait(f, n, own, now+waited)
}

// joinNextMessage adds a call to those waiting for the next message. The first of these calls sends
// the message.
func (a *keyAccount) joinNextMessage(own cellAmounts) (f *sentMessage, leads bool) {
	if leads = a.nextMessage == nil; leads {
		a.nextMessage = newSentMessage()
	}
	for i := range own {
		a.nextMessage.wanted[i] += own[i]
	}
	return a.nextMessage, leads
}

// finishWait ends the wait of a call. The call either takes its share of the grant or gives it up.
// The caller must hold mu.
func (a *keyAccount) finishWait(f *sentMessage, n, own cellAmounts, now time.Duration) limit.Decision {
	answered := f.hasAnswer()
	if answered {
		a.keyCells.releaseSetAside(own)
	}
	for i := range own {
		f.wanted[i] -= own[i]
	}
	if a.keyCells.isOffline || !answered {
		a.failedRequests += int(n[requestCellIndex])
		return a.takeWithoutStore(n, now)
	}
	lacking := a.keyCells.firstLackingCell(n, true, now, a.edgeState.edgeCount())
	if lacking < 0 {
		a.keyCells.reserve(n)
		return allowedDecision
	}
	return a.keyCells.refusal(lacking, n, now)
}

func (f *sentMessage) hasAnswer() bool {
	select {
	case <-f.done:
		return f.err == nil
	default:
		return false
	}
}

// waitForAnswer waits until a message has been answered or has failed. The caller must hold mu,
// which is released during the wait.
func (a *keyAccount) waitForAnswer(ctx context.Context, f *sentMessage) {
	a.mu.Unlock()
	defer a.mu.Lock()
	select {
	case <-f.done:
	case <-ctx.Done():
	}
}

// sendWhenIdle sends a message once the previous message has been answered or has failed. If it
// could not send the message, it returns false. The caller must hold mu, which is released during
// the wait.
func (a *keyAccount) sendWhenIdle(ctx context.Context, f *sentMessage) bool {
	for a.inFlight != nil && ctx.Err() == nil {
		a.waitForAnswer(ctx, a.inFlight)
	}
	a.nextMessage = nil
	if a.inFlight != nil || !a.edgeState.store.Available() { // the previous message took too long
		f.err = context.DeadlineExceeded
		close(f.done)
		return false
	}
	a.exchangeMessage(ctx, f)
	return true
}

// exchangeMessage exchanges a message with the store. The caller must hold mu, which is released
// while the message is in flight.
func (a *keyAccount) exchangeMessage(ctx context.Context, f *sentMessage) {
	a.inFlight = f
	a.lastSent = a.edgeState.now()
	m := a.buildMessage(a.lastSent)
	r, err := accountReply{}, errNotSent
	defer func() { a.handleAnswer(&m, r, err) }()
	a.mu.Unlock()
	defer a.mu.Lock()
	r, err = a.edgeState.store.Exchange(ctx, a.id, &m)
}

// errNotSent is the error after a panic that prevented a message from being sent.
var errNotSent = errors.New("the message was not sent")

// buildMessage builds the next message. Until the answer arrives, the edge uses only the amounts
// that the message does not return. The caller must hold mu and must have set inFlight.
func (a *keyAccount) buildMessage(now time.Duration) accountMessage {
	a.messageNumber++
	m := accountMessage{edge: a.edgeID, number: a.messageNumber, birth: a.birth}
	a.keyCells.accrueOffline(now, a.edgeState)
	a.keyCells.fenceUnused(now - a.lastAnswer)
	for i := range a.keyCells.cells {
		c, target := &a.keyCells.cells[i], int64(0)
		c.decayDebt(now)
		if now-a.lastAcquired < c.spareKeepTime() {
			target = spareTarget(a, c)
		}
		m.parts[i] = c.buildReport(target, a.inFlight.wanted[i])
	}
	if a.turns != nil {
		a.turns.setReportKind(&m.parts[slotCellIndex])
	}
	return m
}

// idleAccountTTL is how long the store keeps an account after the account's last message. Budget
// accounts are kept longer.
const idleAccountTTL = 10 * time.Minute

// hasStoreLostAccount reports whether the birth id in an answer shows that the store has lost the
// account. If the account had no messages for idleAccountTTL, it has only expired, and no call has
// reserved amounts from it. The caller must hold mu.
func (a *keyAccount) hasStoreLostAccount(now time.Duration, birth string) bool {
	kept := now-a.lastAnswer < idleAccountTTL || a.keyCells.cells[tokenCellIndex].kind == cellKindBudget
	return kept && a.birth != "" && a.birth != birth
}

// handleAnswer adopts the answer to the message in flight, or its error, and ends the wait of its
// calls. The caller must hold mu.
func (a *keyAccount) handleAnswer(m *accountMessage, r accountReply, err error) {
	f := a.inFlight
	if err != nil {
		a.edgeState.metrics.failed.Inc()
	} else {
		a.edgeState.metrics.sent.Inc()
		now := a.edgeState.now()
		jumped := a.edgeState.storeClock.wasSetForward(r.clock, a.lastSent, now, a.lastAnswer)
		if jumped || a.hasStoreLostAccount(now, r.birth) {
			for i := range a.keyCells.cells {
				a.keyCells.cells[i].beginLossDoubt(a.keyCells.isOffline, now, a.edgeState.edgeCount())
				a.keyCells.cells[i].doubtLimitsSlots = jumped
			}
		}
		back := time.Duration(a.edgeState.storeReturned.Load())
		returns, alone := a.lastAnswer < back && now < back+storeReturnDoubtTime, a.keyCells.isOffline
		a.birth, a.lastAnswer, a.keyCells.isOffline, a.reservationsLost, a.failedRequests = r.birth, now, false, false, 0
		for i := range a.keyCells.cells {
			c := &a.keyCells.cells[i]
			c.applyGrant(m.parts[i], r.grants[i], now)
			if returns && now >= c.doubtEnd {
				c.beginReturnDoubt(alone, now, a.edgeState.edgeCount())
			}
		}
		a.keyCells.setAside(f.wanted)
	}
	a.inFlight = nil
	f.err = err
	close(f.done)
}
