package canary

import (
	"math"

	"penstock/proxy/telemetry/observe"
)

// Verdict says whether an arm is worse than the upstreams without an arm (the rest).
type Verdict string

// The possible verdicts.
const (
	VerdictWorse    Verdict = "worse"
	VerdictNotWorse Verdict = "not worse"
	VerdictUnknown  Verdict = "not yet known"
)

// MinSamples is the minimum number of values that each side must have before a measure is judged.
const MinSamples = 50

// The required certainty of a verdict, in standard deviations. The displayed intervals have 95 %
// confidence.
const (
	worseZScore     = 3.29 // 1 in 2,000 on one side
	notWorseZScore  = 1.96
	displayedZScore = 1.96
)

// The thresholds for "a little" and "tolerable", for ratios and for shares of the calls (see the
// package documentation).
const (
	negligibleRatio, tolerableRatio = 0.05, 0.10
	negligibleShare, tolerableShare = 0.005, 0.02
)

// Comparison is the result of comparing an arm with the rest.
type Comparison struct {
	Model   string  `json:"model"`
	Arm     string  `json:"arm"`
	Calls   uint64  `json:"calls"`
	Rest    uint64  `json:"rest_calls"`
	Verdict Verdict `json:"verdict"`
	Rows    []Row   `json:"measures"`
}

// Row compares the two sides by one measure. A value is null if there are too few samples.
type Row struct {
	Measure string `json:"measure"`
	// Unit is the unit of both values: s, tokens/s or tokens. It is empty for a share.
	Unit    string   `json:"unit,omitempty"`
	Share   bool     `json:"share,omitempty"` // the change is absolute; otherwise it is relative
	Values  uint64   `json:"values"`
	Rest    *float64 `json:"rest"`
	Arm     *float64 `json:"arm"`
	Change  *float64 `json:"change"`
	Low     *float64 `json:"low"` // lower bound of the change (95 % confidence)
	High    *float64 `json:"high"`
	Verdict Verdict  `json:"verdict,omitempty"` // empty if the measure is not judged

	noValues bool // neither side has a value; for example, a model without streams has no TTFT
}

// Compare compares an arm with the rest of its model.
func Compare(model string, rest, arm *observe.ArmCounts) *Comparison {
	c := &Comparison{Model: model, Arm: arm.Name, Calls: arm.Calls, Rest: rest.Calls}
	c.addQuantileRow("ttft p50", "s", rest.TTFT, arm.TTFT, 0.5, 1)
	c.addQuantileRow("ttft p90", "s", rest.TTFT, arm.TTFT, 0.9, 1)
	c.addQuantileRow("tokens/s p50", "tokens/s", rest.Speed, arm.Speed, 0.5, -1)
	c.addShareRow("failed", rest.Failed, rest.Calls, arm.Failed, arm.Calls, true)
	c.addShareRow("refused", rest.Refused, rest.Calls, arm.Refused, arm.Calls, true)
	c.addShareRow("left", rest.ClientGone, rest.Calls, arm.ClientGone, arm.Calls, false)
	c.addQuantileRow("length p50", "tokens", rest.Length, arm.Length, 0.5, 0)
	var ended, endedRest uint64
	for _, word := range observe.FinishReasons {
		ended, endedRest = ended+arm.Finish[word], endedRest+rest.Finish[word]
	}
	for _, word := range observe.FinishReasons {
		if n, m := arm.Finish[word], rest.Finish[word]; n+m > 0 {
			c.addShareRow("ends by "+word, m, endedRest, n, ended, false)
		}
	}
	c.Verdict = c.overallVerdict()
	return c
}

// overallVerdict combines the rows. A single row with VerdictWorse makes the overall verdict
// VerdictWorse. The overall verdict is VerdictNotWorse only if at least one row about speed was
// judged.
func (c *Comparison) overallVerdict() Verdict {
	all, timed := VerdictNotWorse, false
	for i := range c.Rows {
		r := &c.Rows[i]
		switch {
		case r.Verdict == VerdictWorse:
			return VerdictWorse
		case r.Verdict == "", r.noValues:
			continue
		case r.Verdict == VerdictUnknown:
			all = VerdictUnknown
		}
		timed = timed || !r.Share
	}
	if !timed {
		return VerdictUnknown
	}
	return all
}

// addQuantileRow adds a row for a quantile. worse is 1 if a higher value is worse, -1 if a lower
// value is worse, and 0 if the row is not judged.
func (c *Comparison) addQuantileRow(measure, unit string, rest, arm observe.Distribution, rank, worse float64) {
	n, m := arm.Count(), rest.Count()
	r := Row{Measure: measure, Unit: unit, Values: n, noValues: n+m == 0}
	change := func(z float64) interval { return quantileInterval(arm, rank, z).minus(quantileInterval(rest, rank, z)) }
	if n >= MinSamples && m >= MinSamples {
		r.setValues(math.Exp(quantileInterval(rest, rank, 0).estimate), math.Exp(quantileInterval(arm, rank, 0).estimate), interval{
			math.Expm1(change(displayedZScore).low), math.Expm1(change(displayedZScore).estimate), math.Expm1(change(displayedZScore).high),
		})
	}
	if worse != 0 {
		r.setVerdict(func(z float64) interval {
			d := change(z)
			if worse < 0 {
				d = interval{-d.high, -d.estimate, -d.low}
			}
			return d
		}, math.Log1p(negligibleRatio), math.Log1p(tolerableRatio))
	}
	c.Rows = append(c.Rows, r)
}

func (c *Comparison) addShareRow(measure string, rest, ofRest, arm, of uint64, judged bool) {
	r := Row{Measure: measure, Share: true, Values: of}
	change := func(z float64) interval { return shareInterval(arm, of, z).minus(shareInterval(rest, ofRest, z)) }
	if of >= MinSamples && ofRest >= MinSamples {
		r.setValues(float64(rest)/float64(ofRest), float64(arm)/float64(of), change(displayedZScore))
	}
	if judged {
		r.setVerdict(change, negligibleShare, tolerableShare)
	}
	c.Rows = append(c.Rows, r)
}

func (r *Row) setValues(rest, arm float64, change interval) {
	r.Rest, r.Arm, r.Change, r.Low, r.High = &rest, &arm, &change.estimate, &change.low, &change.high
}

// setVerdict sets the verdict of a row. The verdict is VerdictWorse if the arm is certainly worse
// by more than the threshold little. It is VerdictNotWorse if the arm is certainly not worse by
// more than the threshold tolerable. Otherwise it is VerdictUnknown.
func (r *Row) setVerdict(worse func(z float64) interval, little, tolerable float64) {
	switch {
	case r.Arm == nil:
		r.Verdict = VerdictUnknown
	case worse(worseZScore).low > little:
		r.Verdict = VerdictWorse
	case worse(notWorseZScore).high < tolerable:
		r.Verdict = VerdictNotWorse
	default:
		r.Verdict = VerdictUnknown
	}
}
