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
	good := benchtest.Synth{Seed: 1, Requests: 600, Seconds: 60, TTFT: 100, ITL: 20}.Result(t)
	bad := benchtest.Synth{Seed: 1, Requests: 600, Seconds: 60, TTFT: 100, ITL: 20, Invalid: "clock"}.Result(t)
	for _, c := range []struct {
		c    Checks
		r    *result.Result
		code int
	}{
		{Checks{}, good, 0},
		{Checks{Assert: []string{"failed==0"}}, good, 0},
		{Checks{Assert: []string{"failed==0", "p99_ttft_ms<1"}}, good, exit.CheckFailed},
		{Checks{}, bad, exit.Invalid},
		{Checks{Assert: []string{"failed==1"}}, bad, exit.CheckFailed},
		{Checks{Assert: []string{"nonsense"}}, good, exit.Usage},
	} {
		j, err := c.c.NewJudge()
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
