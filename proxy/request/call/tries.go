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

type tries struct {
	pool         upstreams.Pool
	rank         int // index of the call's class; 0 is the first class
	needs        upstreams.Features
	excluded     []upstreams.ID
	conversation conversation
	why          *why // why the engine was picked; nil if that is not recorded
	upstream     *upstreams.Upstream
	sends        retry.Sends // number of times that each retry step has sent the call
	targets      int
	// Whether the call was sent to another engine because a refusal was doubtful.
	doubted bool
	refused endpoint.Refused // request changes that no engine has accepted yet
	next    slot             // slot that the call acquired before it left its engine; empty if there is none
	// records the stream so that it can be resumed; nil if the stream cannot be resumed
	recording *resume.Recording
	// when a call on a drained engine last tried to acquire a slot at another engine
	lookedAt time.Time
	counts   int  // number of requests for token counts
	overflow bool // whether the call waited for a slot but did not get one
	fallback []string
	fellBack bool
	turn     turns.Turn       // the key's turn; the zero value if keys do not take turns
	wait     *slotWait        // nil if the call is not waiting
	failure  *failure.Failure // failure of the first failed attempt that was not resumed, or nil
}

// why is reused with the pooled call, so recording it allocates nothing.
type why struct {
	pick   routing.Why
	choice observe.Choice
}

func (w *why) note(r *observe.Record, l *upstreams.Lease) {
	if r.Choice = nil; w == nil || w.pick.Reason == "" {
		return
	}
	p := l.Prompt()
	w.choice = observe.Choice{
		Reason: string(w.pick.Reason), Tokens: p.Tokens, Expected: p.Tokens - p.Uncached, Estimates: w.choice.Estimates[:0],
	}
	for _, e := range w.pick.Estimates {
		w.choice.Estimates = append(w.choice.Estimates, observe.Estimate(e))
	}
	r.Choice = &w.choice
}

func (t *tries) exclude(u *upstreams.Upstream) { t.excluded = append(t.excluded, u.ID()) }

func (t *tries) takeNext() (s slot) {
	s, t.next = t.next, s
	return s
}

func (t *tries) leaveQueue() {
	if w := t.wait; w != nil {
		t.wait = nil
		w.queued.Leave()
	}
}

// mustContinue reports whether the client has received part of an answer that the next engine must
// continue.
func (t *tries) mustContinue() bool {
	return t.recording != nil && t.recording.Started() && !t.recording.Continuing()
}
