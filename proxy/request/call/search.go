package call

import (
	"penstock/proxy/telemetry/observe"
	"penstock/routing"
	"penstock/upstreams"
)

// search describes which engines a call may use.
type search struct {
	pool           upstreams.Pool
	classRank      int // index of the call's class; 0 is the first class
	neededFeatures upstreams.Features
	conversation   conversation
	excluded       []upstreams.ID // engines that are out for this call
	usesOverflow   bool           // whether the call may use overflow tiers and does not wait for a slot any more
	fallbacks      fallbacks
	pickReason     *pickReason // why the engine was picked; nil if the reason is not recorded
}

// forgetModel forgets what depends on the requested model, which a hook has changed.
func (s *search) forgetModel() {
	s.excluded, s.classRank = s.excluded[:0], 0
	s.conversation = conversation{hashes: s.conversation.hashes[:0]}
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
