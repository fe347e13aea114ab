package compare

import (
	"fmt"
	"io"

	"penstock/bench/exit"
	"penstock/bench/result"
	"penstock/proxy/front/plaintext"
)

// CheckFlags contains the flags that turn `bench run` and `bench report` into a test.
type CheckFlags struct {
	Assert []string `group:"Result and checks" sep:"none" placeholder:"CONDITION" help:"Condition, such as 'p99_ttft_ms<500', 'error_rate<1%' or 'p99_itl_ms{dialect=messages}<=50'; exit code 99 when it does not hold. Repeatable."`
}

// ResultChecker contains parsed CheckFlags.
type ResultChecker struct {
	c       CheckFlags
	asserts []Assertion
}

// NewResultChecker parses the flags, so that usage errors (exit code 2) are reported before the
// run.
func (c *CheckFlags) NewResultChecker() (*ResultChecker, error) {
	j := &ResultChecker{c: *c}
	for _, s := range c.Assert {
		a, err := ParseAssert(s)
		if err != nil {
			return nil, exit.Usagef("%s", err)
		}
		j.asserts = append(j.asserts, a)
	}
	return j, nil
}

// Apply sets r.Penstock.Assertions and writes failed checks to w. If a check failed, Apply returns
// an *exit.Error with code 99. If no check failed but the result is invalid, the code is 98.
// Otherwise, Apply returns nil.
func (j *ResultChecker) Apply(r *result.Result, w io.Writer) error {
	var all []result.Assertion
	for _, a := range j.asserts {
		all = append(all, a.Check(r))
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
		fmt.Fprintln(w, plaintext.CleanLine(line))
	}
	r.Penstock.Assertions = all
	switch {
	case failed > 0:
		return exit.NewError(exit.CheckFailed, fmt.Sprintf("%d of %d checks failed", failed, len(all)))
	case !r.Penstock.Verdict.Valid:
		return exit.NewError(exit.InvalidResult, "the result is not valid: "+r.Penstock.Verdict.InvalidatingText())
	}
	return nil
}
