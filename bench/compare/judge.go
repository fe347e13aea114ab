package compare

import (
	"fmt"
	"io"

	"penstock/bench/exit"
	"penstock/bench/result"
	"penstock/proxy/plaintext"
)

// Checks are the flags that turn a run into a test: `bench run` and `bench report` have them.
type Checks struct {
	Assert       []string `group:"Checks" sep:"none" placeholder:"CONDITION" help:"Condition on the result, such as 'p99_ttft_ms<500', 'error_rate<1%' or 'p99_itl_ms{dialect=messages}<=50'. Repeatable; one that does not hold, or cannot be judged, is exit code 99."`
	Baseline     string   `group:"Checks" placeholder:"FILE" help:"Result file to compare with."`
	MaxRegress   []string `group:"Checks" sep:"none" placeholder:"[MEASURE=]N%" help:"How much worse than --baseline the medians, p99s and rates may be, or one measure; exit code 99. A difference that its interval does not support does not count."`
	AllowInvalid bool     `group:"Checks" help:"Do not end with 98 when the result is not valid."`
}

// Judge holds checks that have been read, with the baseline.
type Judge struct {
	c        Checks
	asserts  []Assert
	bounds   []Regress
	baseline *result.Result
}

// Prepare reads everything that the flags name, so that mistakes are told before the run. Its
// errors are usage errors: code 2.
func (c *Checks) Prepare() (*Judge, error) {
	j := &Judge{c: *c}
	for _, s := range c.Assert {
		a, err := ParseAssert(s)
		if err != nil {
			return nil, exit.Usagef("%s", err)
		}
		j.asserts = append(j.asserts, a)
	}
	for _, s := range c.MaxRegress {
		b, err := ParseRegress(s)
		if err != nil {
			return nil, exit.Usagef("--max-regress: %s", err)
		}
		j.bounds = append(j.bounds, b)
	}
	if (c.Baseline == "") != (len(j.bounds) == 0) {
		return nil, exit.Usagef("--baseline and --max-regress go together")
	}
	if c.Baseline != "" {
		r, err := result.ReadResult(c.Baseline)
		if err != nil {
			return nil, exit.Usagef("--baseline: %s", err)
		}
		j.baseline = r
	}
	return j, nil
}

// Apply judges r: it fills in r.Penstock.Assertions, writes what failed to w, and returns the
// *exit.Error that the process should end with: 99 for a check that failed, else 98 for a result
// that is not valid; nil: all well.
func (j *Judge) Apply(r *result.Result, w io.Writer) error {
	var all []result.Assertion
	for _, a := range j.asserts {
		all = append(all, a.Check(r))
	}
	if j.baseline != nil {
		all = append(all, Check(Results(j.baseline, r, 0.95), j.bounds)...)
	}
	failed := 0
	for _, a := range all {
		word := "ok  "
		if !a.OK {
			word = "FAIL"
			failed++
		}
		line := word + "  " + a.Text
		if a.Reason != "" {
			line += ": " + a.Reason
		}
		fmt.Fprintln(w, plaintext.Line(line))
	}
	r.Penstock.Assertions = all
	switch {
	case failed > 0:
		return exit.With(exit.Threshold, fmt.Sprintf("%d of %d checks failed", failed, len(all)))
	case !r.Penstock.Verdict.Valid && !j.c.AllowInvalid:
		return exit.With(exit.Invalid, "the result is not valid: "+r.Penstock.Verdict.Invalidating())
	}
	return nil
}
