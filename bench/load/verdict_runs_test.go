package load

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"penstock/bench/result"
	"penstock/config/testkit/golden"
)

// recordedRun is a recorded run of the real program against the simulator. It contains a
// description of the run, and those members of the result that the verdict reads.
type recordedRun struct {
	Run     string
	Flags   string // flags of the recorded run
	Bounded bool   // the run used --max-concurrency
	Prefix  bool   // prompts had a common prefix
	Result  result.Result
}

// TestVerdictOfRecordedRuns checks that the verdicts on 41 recorded runs, most of which have a
// fault, have not changed. The runs took place on a busy machine. The golden file therefore also
// contains the verdict that each run would get if the machine had not slowed down the client.
func TestVerdictOfRecordedRuns(t *testing.T) {
	f, err := os.Open("testdata/verdicts.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var calm strings.Builder
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var x recordedRun
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatal(err)
		}
		want := codes(x.Result.Penstock.Verdict)
		if got := codes(x.judge()); got != want {
			t.Errorf("%s (%s): verdict %s, want %s", x.Run, x.Flags, got, want)
		}
		x.Result.Penstock.Client = result.Client{}
		fmt.Fprintf(&calm, "%s: %s\n", x.Run, codes(x.judge()))
	}
	golden.CompareFile(t, "testdata/verdicts.txt", []byte(calm.String()))
}

func (x *recordedRun) judge() result.Verdict {
	p := x.Result.Penstock
	s := &settings{closed: p.Load.Mode == "closed"}
	s.NumTurns, s.DatasetName = 1, p.Load.Dataset
	if x.Prefix {
		s.PrefixLen = 300
	}
	if x.Bounded {
		s.MaxConcurrency = []int{1}
	}
	if p.Search != nil {
		s.Profile = p.Search.Profile
	}
	return judgeResult(&x.Result, s)
}

func codes(v result.Verdict) string {
	out := "NOT VALID"
	if v.Valid {
		out = "valid"
	}
	for _, r := range v.Reasons {
		if out += ", " + r.Code; r.Invalidates {
			out += "!"
		}
	}
	return out
}
