package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"penstock/bench/benchtest"
	"penstock/bench/compare"
	"penstock/bench/exit"
)

func TestCompareCommand(t *testing.T) {
	a := benchtest.SaveResult(t, benchtest.SyntheticResult{Seed: 1, Requests: 600, Seconds: 60, TTFT: 100, ITL: 20}.Build(t))
	b := benchtest.SaveResult(t, benchtest.SyntheticResult{Seed: 2, Requests: 600, Seconds: 60, TTFT: 150, ITL: 20}.Build(t))
	bad := benchtest.SaveResult(t, benchtest.SyntheticResult{Seed: 1, Requests: 600, Seconds: 60, TTFT: 100, ITL: 20, Invalid: "clock"}.Build(t))
	one := benchtest.SaveResult(t, benchtest.SyntheticResult{Seed: 1, Requests: 60, Seconds: 60, TTFT: 100, ITL: 20, Stages: []string{"a", "b"}}.Build(t))
	two := benchtest.SaveResult(t, benchtest.SyntheticResult{Seed: 1, Requests: 60, Seconds: 60, TTFT: 100, ITL: 20, Stages: []string{"c", "d"}}.Build(t))
	out := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		c    CompareCmd
		code int
		want string
	}{
		{CompareCmd{Base: a, New: b}, 0, "worse: "},
		{CompareCmd{Base: a, New: b, Output: out}, 0, ""},
		{CompareCmd{Base: a, New: b, MaxRegress: []string{"5%"}}, exit.CheckFailed, "worse: "},
		{CompareCmd{Base: a, New: a, MaxRegress: []string{"0%"}}, 0, "no difference"},
		{CompareCmd{Base: a, New: bad}, exit.InvalidResult, "not valid: clock"},
		{CompareCmd{Base: bad, New: a, MaxRegress: []string{"5%"}}, exit.InvalidResult, "not valid: clock"},
		{CompareCmd{Base: one, New: two}, exit.Failed, "nothing to compare"},
		{CompareCmd{Base: one, New: two, MaxRegress: []string{"5%"}}, exit.Failed, "nothing to compare"},
		{CompareCmd{Base: a, New: b + "x"}, 2, ""},
		{CompareCmd{Base: a + "x", New: b}, 2, ""},
		{CompareCmd{Base: a, New: b, MaxRegress: []string{"x"}}, 2, ""},
	} {
		var text bytes.Buffer
		err := c.c.run(&text)
		code := 0
		var e *exit.Error
		if errors.As(err, &e) {
			code = e.ExitCode()
		}
		if code != c.code || !strings.Contains(text.String(), c.want) {
			t.Errorf("%+v: code %d, want %d: %v\n%s", c.c, code, c.code, err, text.String())
		}
	}
	if b, err := os.ReadFile(out); err != nil || !strings.Contains(string(b), "worse: ") {
		t.Errorf("the file = %s, %v; want worse: in it", b, err)
	}
	var text bytes.Buffer
	if err := (&CompareCmd{Base: a, New: b, Format: "json"}).run(&text); err != nil {
		t.Fatal(err)
	}
	var c compare.Report
	if err := json.Unmarshal(text.Bytes(), &c); err != nil || len(c.Rows) < 20 {
		t.Errorf("JSON: %v, want 20 rows or more: %s", err, text.String())
	}
}
