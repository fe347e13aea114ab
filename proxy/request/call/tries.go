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

// tries records where and how often a call was sent. Package retry decides what is sent again.
type tries struct {
	pool     upstreams.Pool
	rank     int                // the rank of the call's class; 0: the first
	needs    upstreams.Features // what the call needs from an engine
	excluded []upstreams.ID     // engines that must not get the call, or not again
	talk     conversation
	why      *why                // why the engine was picked; nil: there was no choice
	upstream *upstreams.Upstream // the last attempt's upstream
	sends    retry.Sends         // how often the call was sent, by the step that led to it
	targets  int                 // how many engines were tried
	doubted  bool                // the first engine's refusal was doubted, and another one was tried
	refused  endpoint.Refused    // changes for the last engine that it has not accepted yet
	next     place               // a slot at another engine that the call moves to
	kept     *resume.Stream      // a record for resuming; nil: this stream cannot be resumed
	lookedAt time.Time           // when a call on a drained engine last looked for a slot
	counts   int                 // how many requests for a count of the prompt were made
	overflow bool                // the call has waited for a slot in vain
	fallback []string            // models that may answer in place of the requested one
	fellBack bool                // fallback has been set
	turn     turns.Turn          // the key's turn; the zero value while no key waits for slots
	wait     *slotWait           // the wait for a slot; nil: the call is not waiting
	failure  *failure.Failure    // the failure of the first failed attempt; nil: none has failed
}

// conversation holds what routing uses to recognize the call's conversation.
type conversation struct {
	prefix  []uint64 // hashes of the prompt's prefix
	text    int      // number of bytes of the prompt that prefix covers
	number  uint64   // for the model's arms; 0: not computed yet
	session chat.Session
	asked   bool // session is set
}

// why holds the reason for picking an engine, both for routing and for the call's record. It stays
// with the pooled call, so recording a reason allocates nothing.
type why struct {
	pick   routing.Why
	choice observe.Choice
}

// note records why the engine of the lease l was picked.
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

// begin records the upstream of a new attempt.
func (t *tries) begin(u *upstreams.Upstream) {
	t.upstream, t.refused = u, endpoint.Refused{}
	t.sends.Again = false
	t.targets++
}

// exclude prevents further requests to the engine u.
func (t *tries) exclude(u *upstreams.Upstream) { t.excluded = append(t.excluded, u.ID()) }

// place is a slot at an engine to which the call has not been sent yet.
type place struct {
	lease  *upstreams.Lease // nil: there is none
	target *routing.Target
	turn   turns.Turn
}

// takeNext returns the slot that was taken for the call.
func (t *tries) takeNext() (p place) {
	p, t.next = t.next, p
	return p
}

// takeTurn takes the turn at the next engine in place of the turn at the previous one. Either the
// previous engine has served nothing, or its tokens are counted together with the next engine's.
func (t *tries) takeTurn(next turns.Turn) {
	t.turn.Book(0)
	t.turn = next
}

// goesOn reports whether the client has received part of an answer, which the next engine has to
// continue.
func (t *tries) goesOn() bool { return t.kept != nil && t.kept.Started() && !t.kept.Awaits() }
