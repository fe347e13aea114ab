package call

import (
	"time"

	"penstock/proxy/endpoint"
	"penstock/proxy/failure"
	"penstock/proxy/resume"
	"penstock/routing"
	"penstock/upstreams"
)

// tries is where a call was sent and how often, and with it the one rule of what is sent again.
type tries struct {
	pool      upstreams.Pool
	rank      int                // of its class; 0: the first
	needs     upstreams.Features // of an engine
	doubted   bool               // the first engine's refusal was doubted, and another one asked
	excluded  []upstreams.ID     // engines that are not asked, or not again
	talk      conversation
	upstream  *upstreams.Upstream // of the last attempt
	targets   int                 // engines that were tried
	changes   int                 // requests that were sent again in another form, or to an engine with more room
	refused   endpoint.Refused    // what the last attempt's engine is sent no more, and has not taken yet
	moves     int                 // engines that were left for one with more room
	failovers int                 // likewise, engines that had vanished or stalled, or were drained
	next      place               // that the call leaves such an engine for
	resumes   int                 // engines that were to go on with what another had said
	kept      *resume.Stream      // what is kept for that; nil: the call is no stream that can be resumed
	lookedAt  time.Time           // when the call last looked for a slot beside a drained engine
	counts    int                 // requests for a count of the prompt
	repeated  bool                // the upstream was asked a second time
	overflow  bool                // the call has waited for a slot in vain
	fallback  []string            // models that may answer in place of the one that was asked for
	fellBack  bool                // fallback has been set
	wait      *slotWait           // for a slot; nil: the call does not wait
	failure   *failure.Failure    // of the first attempt that has failed; nil: none has
}

// conversation is by what routing knows the conversation that the call is a turn of.
type conversation struct {
	prefix  []uint64 // hashes of the prompt's beginning, for the choice of an engine
	text    int      // bytes of the prompt that they are of
	number  uint64   // for the model's arms; 0: not asked for yet
	session uint64   // hash of the client's session; 0: none is named
}

// begin notes the upstream of an attempt that begins.
func (t *tries) begin(u *upstreams.Upstream) {
	t.upstream, t.repeated, t.refused = u, false, endpoint.Refused{}
	t.targets++
}

// exclude has an engine not asked again.
func (t *tries) exclude(u *upstreams.Upstream) { t.excluded = append(t.excluded, u.ID()) }

// sentOften reports whether as many requests were sent as there may be attempts.
func (t *tries) sentOften(sends, attempts int) bool {
	return sends-t.changes-t.failovers-t.resumes >= attempts
}

// allowsRetry reports whether a failure and the attempts of one call allow another engine. The
// client has been shown nothing of the answer when it is asked.
func (t *tries) allowsRetry(f *failure.Failure, sends, attempts int) bool {
	return f.Retry && !t.sentOften(sends, attempts) && t.targets-t.moves-t.failovers-t.resumes < attempts
}

// place is a slot at an engine, for a call that has not been sent there yet.
type place struct {
	lease  *upstreams.Lease // nil: there is none
	target *routing.Target
}

// takeNext returns the slot that was taken for the call.
func (t *tries) takeNext() (p place) {
	p, t.next = t.next, p
	return p
}

// mayLeave reports whether the call has its one failover.
func (t *tries) mayLeave(attempts int) bool { return t.failovers == 0 && attempts >= 2 }

// goesOn reports whether the client has been shown a part of the answer, with which the next engine
// has to go on.
func (t *tries) goesOn() bool { return t.kept != nil && t.kept.Started() && !t.kept.Awaits() }

// failOver takes the one failover of a call, where its failure allows that: it leaves an engine
// whose host has vanished, that has stalled or is drained, while its client has been shown nothing.
// It is apart from the budget of retries: an engine is lost with all of its calls at a time, and
// there is no load of retries from one that is taken out.
func (t *tries) failOver(f *failure.Failure, attempts int) bool {
	if !f.Gone || !t.mayLeave(attempts) {
		return false
	}
	t.failovers++
	return true
}
