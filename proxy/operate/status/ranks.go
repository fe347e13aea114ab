package status

import (
	"cmp"
	"slices"
)

// Rows that need an operator come first. Within a rank, rows are in configuration order, so that
// they do not move when numbers change.

const (
	rankOutOfService = iota
	rankFailing
	rankProblem
	rankHold // taken out of service by the operator
	rankBusy
	rankIdle
)

func (u *Upstream) rank() int {
	switch {
	case u.Mode != "ready":
		return rankHold
	case u.State == "down" || u.State == "stalled":
		return rankOutOfService
	case u.troubleText() != "" || u.Suspect || Thresholds.Attempts.shareExceeds(u.failedAttempts()):
		return rankProblem
	case u.activeCalls() > 0 || u.History.Ended > 0 || u.Hour.Downs > 0:
		return rankBusy
	}
	return rankIdle
}

// Idle reports whether the upstream is up and unused.
func (u *Upstream) Idle() bool { return u.rank() == rankIdle }

func (u *Upstream) activeCalls() (n int) {
	for _, p := range u.Pools {
		n += p.Active
	}
	return n
}

func (m *Model) rank() int {
	switch {
	case m.State == ModelOut:
		return rankOutOfService
	case m.State == ModelFailing:
		return rankFailing
	case m.State == ModelDegraded, m.State == ModelFallback, downTargetsText(m.Targets) != "":
		return rankProblem
	case m.History.Minute.Calls > 0 || m.Queue != nil && m.Queue.Waiting > 0:
		return rankBusy
	}
	for _, p := range m.Pools {
		if p.Active > 0 {
			return rankBusy
		}
	}
	return rankIdle
}

// Idle reports whether the model is served but unused.
func (m *Model) Idle() bool { return m.rank() == rankIdle }

// Idle reports whether the key is unused and has no problem.
func (k *Key) Idle() bool {
	return k.Refused == 0 && k.InFlight == 0 && !k.inUse() && k.maxBudgetShare() < 1 && k.Badge != badgeEndsSoon && k.Badge != badgeOverLimit
}

func (k *Key) inUse() bool {
	return k.Requests != nil && k.Requests.Used > 0 || k.Tokens != nil && k.Tokens.Used > 0
}

func (s *Status) upstreamOrder() []int {
	return rankedIndexes(len(s.Upstreams), func(i int) int { return s.Upstreams[i].rank() })
}

func rankedIndexes(n int, rank func(i int) int) []int {
	out, ranks := make([]int, n), make([]int, n)
	for i := range out {
		out[i], ranks[i] = i, rank(i)
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(ranks[a], ranks[b]) })
	return out
}

// UpstreamRows returns the upstreams. Upstreams with a problem come first.
func (s *Status) UpstreamRows() (out []*Upstream) {
	for _, i := range s.upstreamOrder() {
		out = append(out, &s.Upstreams[i])
	}
	return out
}

// ModelRows returns the models. Models with a problem come first.
func (s *Status) ModelRows() (out []*Model) {
	for _, i := range rankedIndexes(len(s.Models), func(i int) int { return s.Models[i].rank() }) {
		out = append(out, &s.Models[i])
	}
	return out
}

// KeyRows returns the keys. Keys with a problem come first.
func (s *Status) KeyRows() (out []*Key) {
	for _, i := range rankedIndexes(len(s.Keys), func(i int) int {
		switch k := &s.Keys[i]; {
		case k.Refused > 0 || k.maxBudgetShare() >= 1 || k.Badge == badgeEndsSoon || k.Badge == badgeOverLimit:
			return rankProblem
		case k.Idle():
			return rankIdle
		}
		return rankBusy
	}) {
		out = append(out, &s.Keys[i])
	}
	return out
}
