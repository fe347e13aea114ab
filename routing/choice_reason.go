package routing

// ChoiceReason is the reason why a pick chose a target among more than one.
type ChoiceReason string

// The set of reasons is closed.
const (
	ReasonCached     ChoiceReason = "cached"
	ReasonSoonest    ChoiceReason = "soonest"
	ReasonHome       ChoiceReason = "home"
	ReasonOnly       ChoiceReason = "only"
	ReasonUnmeasured ChoiceReason = "unmeasured"
)

var reasonMeanings = map[ChoiceReason]string{
	ReasonCached:     "the answer was expected soonest there, and the engine held a part of the prompt",
	ReasonSoonest:    "the answer was expected soonest there, and the engine held nothing of the prompt",
	ReasonHome:       "no engine was known to hold the conversation, or another edge had sent it there: it is the conversation's home",
	ReasonOnly:       "no other upstream had room for the call, or those that had room had failed it",
	ReasonUnmeasured: "no speed was known yet, so tokens to read and calls decided",
}

// Meaning returns a clause that explains the reason.
func (r ChoiceReason) Meaning() string { return reasonMeanings[r] }

// maxEstimates is the maximum number of estimates in a PickExplanation.
const maxEstimates = 8

// PickExplanation explains a pick to an operator.
type PickExplanation struct {
	Reason ChoiceReason // empty if there was no choice
	// Estimates contains the estimates for targets with free slots, best first. If the route has at
	// most maxEstimates targets, the picked target is included.
	Estimates []TargetEstimate
}

// TargetEstimate is a pick's estimate for one target.
type TargetEstimate struct {
	Upstream string
	// Seconds is the estimated time to the tenth token. It is 0 if no speed was known.
	Seconds float64
	Cached  int // estimated number of prompt tokens that the engine has cached
}

// recordPickReason records why a pick chose best.
func (q *targetSearch) recordPickReason(targets []Target, s *targetScores, best *Target, home bool) {
	w := q.Why
	var top [maxEstimates]targetScore // the lowest scores, in ascending order
	n, held := 0, 0
	for _, a := range s.targets[:s.n] {
		if &targets[a.pos] == best {
			held = int(a.cachedTokens)
		}
		at := n
		for at > 0 && top[at-1].score > a.score {
			at--
		}
		if at < len(top) {
			n = min(n+1, len(top))
			copy(top[at+1:n], top[at:])
			top[at] = a
		}
	}
	switch {
	case s.n == 1:
		w.Reason = ReasonOnly
	case home:
		w.Reason = ReasonHome
	case !s.useTime:
		w.Reason = ReasonUnmeasured
	case held > 0:
		w.Reason = ReasonCached
	default:
		w.Reason = ReasonSoonest
	}
	w.Estimates = w.Estimates[:0]
	for _, a := range top[:n] {
		e := TargetEstimate{Upstream: targets[a.pos].Upstream.Name(), Cached: int(a.cachedTokens)}
		if s.useTime {
			e.Seconds = a.score
		}
		w.Estimates = append(w.Estimates, e)
	}
}
