package call

import (
	"time"

	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/request/resume"
	"penstock/proxy/request/retry"
	"penstock/proxy/telemetry/observe"
	"penstock/routing"
	"penstock/routing/turns"
	"penstock/upstreams"
)

type attemptState struct {
	pool           upstreams.Pool
	classRank      int // index of the call's class; 0 is the first class
	neededFeatures upstreams.Features
	excluded       []upstreams.ID
	conversation   conversation
	pickReason     *pickReason // why the engine was picked; nil if the reason is not recorded
	upstream       *upstreams.Upstream
	stepCounts     retry.SendCounts // how often each retry step has sent the call
	targetCount    int
	// Whether the call was sent to another engine because the engine, rather than the request, may
	// have caused the first refusal.
	resentInDoubt  bool
	pendingChanges endpoint.RejectedParts // request changes that no engine has accepted yet
	nextSlot       slot                   // slot that the call acquired before it left its engine; empty if there is none
	// records the stream so that it can be resumed; nil if the stream cannot be resumed
	recording *resume.Recording
	// when a call on a drained engine last tried to acquire a slot at another engine
	moveTriedAt   time.Time
	countRequests int  // number of requests that asked an engine to count tokens
	usesOverflow  bool // whether the call may use overflow tiers and does not wait for a slot any more
	fallbacks     fallbacks
	turn          turns.Turn       // the key's turn; the zero value if keys do not take turns
	slotWait      *slotWait        // nil if the call is not waiting
	firstFailure  *failure.Failure // first failure that was not resumed; nil if there is none
}

// pickReason is reused with the pooled call, so recording it allocates nothing.
type pickReason struct {
	reason routing.PickExplanation
	choice observe.Choice
}

func (w *pickReason) record(r *observe.Record, l *upstreams.Lease) {
	if r.Choice = nil; w == nil || w.reason.Reason == "" {
		return
	}
	p := l.Prompt()
	w.choice = observe.Choice{
		Reason: string(w.reason.Reason), Tokens: p.Tokens, Expected: p.Tokens - p.Uncached, Estimates: w.choice.Estimates[:0],
	}
	for _, e := range w.reason.Estimates {
		w.choice.Estimates = append(w.choice.Estimates, observe.Estimate(e))
	}
	r.Choice = &w.choice
}

func (t *attemptState) exclude(u *upstreams.Upstream) { t.excluded = append(t.excluded, u.ID()) }

func (t *attemptState) takeReservedSlot() (s slot) {
	s, t.nextSlot = t.nextSlot, s
	return s
}

func (t *attemptState) leaveQueue() {
	if w := t.slotWait; w != nil {
		t.slotWait = nil
		w.queueEntry.Leave()
	}
}
