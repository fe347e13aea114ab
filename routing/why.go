package routing

// Reason says why one of several targets was picked.
type Reason string

// The set of reasons is closed.
const (
	ReasonCached     Reason = "cached"
	ReasonSoonest    Reason = "soonest"
	ReasonHome       Reason = "home"
	ReasonOnly       Reason = "only"
	ReasonUnmeasured Reason = "unmeasured"
)

var reasonMeanings = map[Reason]string{
	ReasonCached:     "the answer was expected soonest there, and the engine held a part of the prompt",
	ReasonSoonest:    "the answer was expected soonest there, and the engine held nothing of the prompt",
	ReasonHome:       "no engine was known to hold the conversation, or another edge had sent it there: it is the conversation's home",
	ReasonOnly:       "no other upstream had room for the call, or those that had room had failed it",
	ReasonUnmeasured: "the speed of an upstream was not known, so tokens to read and calls decided",
}

// Meaning returns a clause that explains the reason.
func (r Reason) Meaning() string { return reasonMeanings[r] }

// maxEstimates is the maximum number of targets that a Why lists.
const maxEstimates = 8

// Why explains a pick to an operator who asks why a call went to its engine.
type Why struct {
	Reason Reason // empty: there was no choice
	// Estimates is the pick's knowledge about the targets with room, best first. The picked target
	// is always among them if the route has at most eight targets.
	Estimates []Estimate
}

// Estimate is a pick's knowledge about one target.
type Estimate struct {
	Upstream string
	// Seconds is the estimated time to the tenth token of the answer; 0: unknown, since the speed
	// of one of the targets was unknown.
	Seconds float64
	Cached  int // number of the prompt's tokens that its engine was believed to hold
}

// explain records why a pick chose best.
func (q *search) explain(targets []Target, s *scores, best *Target, home bool) {
	w := q.Why
	var top [maxEstimates]scored // the lowest scores, in ascending order
	n, held := 0, 0
	for _, a := range s.of[:s.n] {
		if &targets[a.at] == best {
			held = int(a.held)
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
	case !s.known:
		w.Reason = ReasonUnmeasured
	case held > 0:
		w.Reason = ReasonCached
	default:
		w.Reason = ReasonSoonest
	}
	w.Estimates = w.Estimates[:0]
	for _, a := range top[:n] {
		e := Estimate{Upstream: targets[a.at].Upstream.Name(), Cached: int(a.held)}
		if s.known {
			e.Seconds = a.score
		}
		w.Estimates = append(w.Estimates, e)
	}
}
