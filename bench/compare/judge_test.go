package compare

import (
	"bytes"
	"errors"
	"testing"

	"penstock/bench/benchtest"
	"penstock/bench/exit"
	"penstock/bench/result"
)

func TestChecks(t *testing.T) {
	good := benchtest.SyntheticResult{Seed: 1, Requests: 600, Seconds: 60, TTFT: 100, ITL: 20}.Build(t)
	bad := benchtest.SyntheticResult{Seed: 1, Requests: 600, Seconds: 60, TTFT: 100, ITL: 20, Invalid: "clock"}.Build(t)
	for _, c := range []struct {
		c    CheckFlags
		r    *result.Result
		code int
	}{
		{CheckFlags{}, good, 0},
		{CheckFlags{Assert: []string{"failed==0"}}, good, 0},
		{CheckFlags{Assert: []string{"failed==0", "p99_ttft_ms<1"}}, good, exit.CheckFailed},
		{CheckFlags{}, bad, exit.InvalidResult},
		{CheckFlags{Assert: []string{"failed==1"}}, bad, exit.CheckFailed},
		{CheckFlags{Assert: []string{"nonsense"}}, good, exit.Usage},
	} {
		j, err := c.c.NewResultChecker()
		if err == nil {
			err = j.Apply(c.r, new(bytes.Buffer))
		}
		code := 0
		var e *exit.Error
		if errors.As(err, &e) {
			code = e.ExitCode()
		}
		if code != c.code {
			t.Errorf("%+v: code %d, want %d: %v", c.c, code, c.code, err)
		}
	}
}
