package observe

import (
	"math"
	"slices"
	"sync/atomic"
)

// The edge counts the calls of each arm of a model, and of the upstreams without an arm. It
// measures an arm by the answers to the calls assigned to it, if the first attempt succeeded. For a
// call redirected to the arm, it counts only that the call ended there, because redirected calls
// are not a fair sample.

// Distribution counts values by size. Each element contains a bucket and its count. The elements
// are sorted by bucket.
type Distribution [][2]uint64

// A Distribution has 16 buckets per octave, each 4.4 % wide. The buckets range from 2^-14 (61 µs)
// to 2^20.
const (
	bucketsPerOctave = 16
	lowestOctave     = -14
	bucketCount      = (20 - lowestOctave) * bucketsPerOctave
)

// LogBucketWidth is the natural logarithm of the ratio between a bucket's bounds.
const LogBucketWidth = math.Ln2 / bucketsPerOctave

// BucketMiddle returns the geometric mean of a bucket's bounds.
func BucketMiddle(bucket uint64) float64 {
	return math.Exp2((float64(bucket)+0.5)/bucketsPerOctave + lowestOctave)
}

// BucketOf returns the bucket of a value above 0.
func BucketOf(v float64) uint64 {
	return uint64(min(max((math.Log2(v)-lowestOctave)*bucketsPerOctave, 0), bucketCount-1))
}

// Count returns the number of values.
func (s Distribution) Count() (n uint64) {
	for _, b := range s {
		n += b[1]
	}
	return n
}

// Since returns the values that were added to s since an earlier state.
func (s Distribution) Since(earlier Distribution) (out Distribution) {
	for _, b := range s {
		for _, e := range earlier {
			if e[0] == b[0] {
				b[1] -= min(b[1], e[1])
			}
		}
		if b[1] > 0 {
			out = append(out, b)
		}
	}
	return out
}

type atomicDistribution [bucketCount]atomic.Uint32

func (s *atomicDistribution) add(v float64) {
	if v > 0 {
		s[BucketOf(v)].Add(1)
	}
}

func (s *atomicDistribution) read() Distribution {
	out := Distribution{}
	for i := range s {
		if n := s[i].Load(); n > 0 {
			out = append(out, [2]uint64{uint64(i), uint64(n)})
		}
	}
	return out
}

// ArmCounts counts an arm's calls since the edge started.
type ArmCounts struct {
	Name  string `json:"arm"` // NoArm for the upstreams without an arm
	Calls uint64 `json:"calls"`
	// Calls that failed at the arm's upstreams, even if another arm answered.
	Failed uint64 `json:"failed"`
	// Calls for which no slot was free or no upstream accepted calls.
	Refused    uint64 `json:"refused"`
	ClientGone uint64 `json:"left"`

	TTFT   Distribution `json:"ttft_seconds"` // from sending the request to the first event of the stream
	Speed  Distribution `json:"tokens_per_second"`
	Length Distribution `json:"completion_tokens"`

	Finish map[string]uint64 `json:"finish_reasons"`
}

// FinishReasons lists the finish reasons of the chat dialect.
var FinishReasons = [...]string{"stop", "length", "tool_calls", "content_filter"}

// ModelArms contains the counts of a model's arms.
type ModelArms struct {
	Model string      `json:"model"`
	Arms  []ArmCounts `json:"arms"` // the upstreams without an arm come first
}

// Since returns the counts that were added to a since the earlier state b.
func (a *ArmCounts) Since(b *ArmCounts) ArmCounts {
	finish := map[string]uint64{}
	for word, n := range a.Finish {
		finish[word] = n - b.Finish[word]
	}
	return ArmCounts{
		a.Name, a.Calls - b.Calls, a.Failed - b.Failed, a.Refused - b.Refused, a.ClientGone - b.ClientGone,
		a.TTFT.Since(b.TTFT), a.Speed.Since(b.Speed), a.Length.Since(b.Length), finish,
	}
}

type armStats struct {
	ended, missed                atomic.Int64 // missed: calls assigned to the arm that ended elsewhere
	calls, failed, refused, left atomic.Uint64
	ttft, speed, length          atomicDistribution
	finish                       [len(FinishReasons)]atomic.Uint64
}

// countCall counts a call that was assigned to the arm. If an engine of the arm rejects a request,
// this counts as a failure of the arm only if another arm answers the request. Otherwise the
// request may be at fault.
func (a *armStats) countCall(r *Record, took float64) {
	name, tried, rejected := r.assignedArm(), false, false
	a.calls.Add(1)
	here := r.Arm == name
	for i := range r.Failed {
		switch f := &r.Failed[i]; {
		case f.Arm != name:
		case f.Rejected && (here || r.Outcome == OutcomeClientError):
			rejected = true
		default:
			tried = true
		}
	}
	switch {
	case r.foundNoSlot():
		a.refused.Add(1)
	case tried || here && (r.Outcome == OutcomeStreamBroken || r.Outcome.Failed()):
		a.failed.Add(1)
	case !here && !rejected:
		a.refused.Add(1)
	case r.Outcome == OutcomeClientGone:
		a.left.Add(1)
	case r.Outcome == OutcomeOK:
		a.countAnswer(r, took)
	}
}

func (a *armStats) countAnswer(r *Record, took float64) {
	if r.Stream {
		a.ttft.add(r.UpstreamTTFT.Seconds())
	}
	a.length.add(float64(r.CompletionTokens))
	if i := slices.Index(FinishReasons[:], r.Finish); i >= 0 {
		a.finish[i].Add(1)
	}
	generated := r.CompletionTokens
	if r.Stream {
		took -= r.TTFT.Seconds()
		generated-- // the speed is measured from the first token on
	} else {
		took -= r.Queue.Seconds()
	}
	if generated > 0 && took > 0 {
		a.speed.add(float64(generated) / took)
	}
}

// foundNoSlot reports whether a call ended without an attempt because no upstream had a free slot.
func (r *Record) foundNoSlot() bool {
	return r.Attempts == 0 && (r.Outcome == OutcomeLimited || r.Outcome == OutcomeNoRoute)
}

func (r *Record) assignedArm() string {
	if r.MissedArm != "" {
		return r.MissedArm
	}
	return r.Arm
}

// statsForArm returns the statistics of a model's arm. If the model is not configured, the
// statistics are discarded.
func (s *callSeries) statsForArm(model, name string) *armStats {
	return getOrCreate(s, &s.arms, armKey{model, name}, func() bool { return s.configured[model] })
}

// ArmCounts returns the counts of a model's arms. The upstreams without an arm come first.
func (c *Calls) ArmCounts(model string, arms ...string) ModelArms {
	out := ModelArms{Model: model}
	for _, name := range slices.Insert(arms, 0, NoArm) {
		a := c.series.statsForArm(model, name)
		finish := map[string]uint64{}
		for i, word := range FinishReasons {
			finish[word] = a.finish[i].Load()
		}
		out.Arms = append(out.Arms, ArmCounts{
			name, a.calls.Load(), a.failed.Load(), a.refused.Load(), a.left.Load(),
			a.ttft.read(), a.speed.read(), a.length.read(), finish,
		})
	}
	return out
}

// ArmCallTotals returns three counts. ended counts the calls that ended at the arm. missed counts the
// calls that were assigned to the arm but ended elsewhere. refused counts the calls that were
// assigned to the arm but were refused or found no slot.
func (c *Calls) ArmCallTotals(model, arm string) (ended, missed, refused int64) {
	a, ok := c.series.arms.get(armKey{model, arm})
	if !ok {
		return 0, 0, 0
	}
	return a.ended.Load(), a.missed.Load(), int64(a.refused.Load())
}
