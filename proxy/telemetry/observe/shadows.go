package observe

import "sync/atomic"

// ShadowEnd is how a call's copy ended. The set is closed.
type ShadowEnd uint8

// The ways in which a copy ends.
const (
	ShadowOK        ShadowEnd = iota
	ShadowFailed              // its engine failed, or gave no valid answer
	ShadowUnfit               // the rules, context or engine of the other model exclude the request
	ShadowNoSlot              // no engine that takes calls was less than half busy, or calls were waiting
	ShadowNoMemory            // limits.body_memory or limits.reply_memory was used up
	ShadowLeft                // the client disconnected
	ShadowDrained             // the edge or the engine is ending its work
	ShadowForbidden           // the call's key has no consent for any of the engines
	shadowEnds
)

// String returns the value of the metric label.
func (e ShadowEnd) String() string {
	return [...]string{
		"ok", "failed", "unfit", "no_slot", "no_memory", "client_gone", "drained", "forbidden",
	}[e]
}

// Shadows counts how the copies of a model's calls ended.
type Shadows struct {
	Ended              [shadowEnds]int64
	Prompt, Completion int64 // tokens
}

// shadowStats holds the counters behind a Shadows.
type shadowStats struct {
	ended              [shadowEnds]atomic.Int64
	prompt, completion atomic.Int64
}

// ShadowArm returns the name under which the copies at another model are compared with a model's
// own calls.
func ShadowArm(to string) string { return "shadow:" + to }

// Shadowed counts a copy of a call for r.Model that went to another model. r has the copy's times
// and tokens. Only copies that ended by themselves are compared.
func Shadowed(c *Calls, r *Record, to string, end ShadowEnd, took float64) {
	s := c.series.shadow(fallbackKey{r.Model, to})
	s.ended[end].Add(1)
	s.prompt.Add(int64(r.PromptTokens))
	s.completion.Add(int64(r.CompletionTokens))
	switch arm := c.series.arm(r.Model, ShadowArm(to)); end {
	case ShadowOK:
		arm.calls.Add(1)
		arm.answered(r, took)
	case ShadowFailed:
		arm.calls.Add(1)
		arm.failed.Add(1)
	default:
	}
}

// ShadowsOf returns how the copies of a model's calls at another model ended.
func ShadowsOf(c *Calls, model, to string) (out Shadows) {
	if s, ok := c.series.shadows.get(fallbackKey{model, to}); ok {
		for i := range s.ended {
			out.Ended[i] = s.ended[i].Load()
		}
		out.Prompt, out.Completion = s.prompt.Load(), s.completion.Load()
	}
	return out
}

// shadow returns the stats of copies. The stats of an unconfigured model are discarded.
func (s *series) shadow(k fallbackKey) *shadowStats {
	return entryOf(s, &s.shadows, k, func() bool { return s.configured[k.model] && s.configured[k.to] })
}
