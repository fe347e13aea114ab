package observe

import "sync/atomic"

// ShadowOutcome says how a call's copy ended. The set is closed.
type ShadowOutcome uint8

// The values of ShadowOutcome.
const (
	ShadowOK     ShadowOutcome = iota
	ShadowFailed               // the engine failed, or sent no valid answer
	ShadowUnfit                // the other model's rules, context or engine do not allow the request
	// Calls were waiting, or every engine was at least half full or accepted no calls.
	ShadowNoSlot
	ShadowNoMemory // limits.body_memory or limits.reply_memory was exhausted
	ShadowClientGone
	ShadowDrained // the edge or the engine is draining
	ShadowForbidden
	shadowEndCount
)

// String returns the value of the metric label.
func (e ShadowOutcome) String() string {
	return [...]string{
		"ok", "failed", "unfit", "no_slot", "no_memory", "client_gone", "drained", "forbidden",
	}[e]
}

// Shadows counts the copies of a model's calls by how they ended.
type Shadows struct {
	Ended              [shadowEndCount]int64
	Prompt, Completion int64 // tokens
}

type shadowStats struct {
	ended              [shadowEndCount]atomic.Int64
	prompt, completion atomic.Int64
}

// ShadowArmName returns the arm name used in a comparison for the copies sent to another model.
func ShadowArmName(to string) string { return "shadow:" + to }

// CountShadow counts a copy of a call for r.Model that was sent to another model. r contains the
// times and tokens of the copy.
func CountShadow(c *Calls, r *Record, to string, end ShadowOutcome, took float64) {
	s := c.series.statsForShadow(fallbackKey{r.Model, to})
	s.ended[end].Add(1)
	s.prompt.Add(int64(r.PromptTokens))
	s.completion.Add(int64(r.CompletionTokens))
	switch arm := c.series.statsForArm(r.Model, ShadowArmName(to)); end {
	case ShadowOK:
		arm.calls.Add(1)
		arm.countAnswer(r, took)
	case ShadowFailed:
		arm.calls.Add(1)
		arm.failed.Add(1)
	default:
	}
}

// ShadowCounts returns how the copies of a model's calls that were sent to another model ended.
func ShadowCounts(c *Calls, model, to string) (out Shadows) {
	if s, ok := c.series.shadows.get(fallbackKey{model, to}); ok {
		for i := range s.ended {
			out.Ended[i] = s.ended[i].Load()
		}
		out.Prompt, out.Completion = s.prompt.Load(), s.completion.Load()
	}
	return out
}

// statsForShadow returns the statistics of copies. If the model is not configured, the statistics
// are discarded.
func (s *callSeries) statsForShadow(k fallbackKey) *shadowStats {
	return getOrCreate(s, &s.shadows, k, func() bool { return s.configured[k.model] && s.configured[k.to] })
}
