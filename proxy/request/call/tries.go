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
	"penstock/translate/chat"
	"penstock/upstreams"
)

type tries struct {
	pool     upstreams.Pool
	rank     int // index of the call's class; 0: the first class
	needs    upstreams.Features
	excluded []upstreams.ID
	talk     conversation
	why      *why // why the engine was picked; nil: not recorded
	upstream *upstreams.Upstream
	sends    retry.Sends // how often each retry step has sent the call
	targets  int
	doubted  bool             // whether another engine was tried because a refusal was doubtful
	refused  endpoint.Refused // changes of the request that no engine has accepted yet
	next     place
	kept     *resume.Stream // record of the stream for resuming it; nil: it cannot be resumed
	lookedAt time.Time      // when a call on a drained engine last looked for a slot at another engine
	counts   int            // number of requests for a token count
	overflow bool           // whether the call has waited for a slot in vain
	fallback []string
	fellBack bool
	turn     turns.Turn // the key's turn; zero if keys do not take turns
	wait     *slotWait
	failure  *failure.Failure
}

// conversation is the information by which routing recognizes the conversation of a call.
type conversation struct {
	prefix  []uint64
	text    int
	number  uint64 // number that selects the arms; 0: not computed yet
	session chat.Session
	asked   bool
}

// why is reused with the pooled call, so recording allocates nothing.
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

func (t *tries) begin(u *upstreams.Upstream) {
	t.upstream, t.refused = u, endpoint.Refused{}
	t.sends.Again = false
	t.targets++
}

func (t *tries) exclude(u *upstreams.Upstream) { t.excluded = append(t.excluded, u.ID()) }

// place is a slot at an engine that has not received the call yet.
type place struct {
	lease  *upstreams.Lease
	target *routing.Target
	turn   turns.Turn
}

func (t *tries) takeNext() (p place) {
	p, t.next = t.next, p
	return p
}

// takeTurn replaces the turn at the previous engine with the turn at the next engine. It books no
// tokens at the previous engine: either that engine has served none, or they are counted together
// with the next engine's.
func (t *tries) takeTurn(next turns.Turn) {
	t.turn.Book(0)
	t.turn = next
}

// goesOn reports whether the client has received part of an answer, which the next engine must
// continue.
func (t *tries) goesOn() bool { return t.kept != nil && t.kept.Started() && !t.kept.Awaits() }
