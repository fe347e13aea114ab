package call

import (
	"penstock/proxy/telemetry/observe"
	"penstock/routing"
	"penstock/upstreams"
)

// engineSearch describes which engines a call may use.
type engineSearch struct {
	pool upstreams.SlotPool
	// Whether the call may use overflow tiers and does not wait for a slot any more.
	usesOverflow   bool
	neededFeatures upstreams.Features
	classRank      int // index of the call's class; 0 is the first class
	conversation   conversation
	excluded       []upstreams.ID // engines that this call must not use
	fallbacks      fallbackModels
	pickReason     *pickExplanation // why the engine was picked; nil if the reason is not recorded
}

// resetForNewModel forgets what depends on the requested model, which a hook has changed.
func (s *engineSearch) resetForNewModel() {
	s.excluded, s.classRank = s.excluded[:0], 0
	s.conversation = conversation{hashes: s.conversation.hashes[:0]}
}

// pickExplanation is reused with the pooled call, so recording it allocates nothing.
type pickExplanation struct {
	reason routing.PickExplanation
	choice observe.RoutingChoice
}

func (w *pickExplanation) record(r *observe.Record, l *upstreams.Lease) {
	if r.Choice = nil; w == nil || w.reason.Reason == "" {
		return
	}
	p := l.Prompt()
	w.choice = observe.RoutingChoice{
		Reason: string(w.reason.Reason), Tokens: p.Tokens, Expected: p.Tokens - p.Uncached, Estimates: w.choice.Estimates[:0],
	}
	for _, e := range w.reason.Estimates {
		w.choice.Estimates = append(w.choice.Estimates, observe.UpstreamEstimate(e))
	}
	r.Choice = &w.choice
}
