package benchtest

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"penstock/bench/exit"
	"penstock/bench/result"
)

// SampleResult returns a small result in which most members are set.
func SampleResult() *result.Result {
	n := 12.5
	return &result.Result{
		Date: "20260102-030405", Backend: "openai-chat", EndpointType: "openai-chat", ModelID: "m", NumPrompts: 2,
		RequestRate: result.Rate(math.Inf(1)), Burstiness: 1, Duration: 2, Completed: 2,
		Measures: map[string]*float64{"p99_ttft_ms": &n, "p99.9_itl_ms": nil},
		Metadata: map[string]string{"gpu": "none"},
		Penstock: &result.Penstock{
			SchemaVersion: result.SchemaVersion,
			Verdict:       result.Verdict{Reasons: []result.Reason{}},
			ExpectErrors:  []string{},
			Load:          result.LoadSummary{Mix: map[string]float64{"chat": 1}, Unstreamed: []string{}},
			Total:         *emptySummary(),
			Stages:        []result.Stage{{Missed: []string{}, Summary: *emptySummary()}},
			ByDialect:     map[string]*result.Summary{}, ByUpstream: map[string]*result.Summary{},
			Series: result.Series{
				IntervalS: 1, TS: []float64{0}, Scheduled: []int{1}, Sent: []int{1}, Completed: []int{1}, Failed: []int{0},
				Upstreams: map[string][]int{},
				Left:      []int{0},
				InFlight:  []int{1}, OutputTokens: []float64{0},
				Latency: map[string]map[string][]*float64{result.TTFT: {"50": {nil}}}, Stage: []int{-1},
			},
			Tokens: result.TokenCounts{Input: map[string]int{}, Output: map[string]int{}},
			Events: []result.Event{}, Telemetry: []result.Telemetry{}, Objectives: []result.Objective{}, Command: []string{},
			Phases: []result.Phase{},
		},
	}
}

func emptySummary() *result.Summary {
	return &result.Summary{
		Latency: map[string]*result.Distribution{}, Errors: []result.ErrorCount{},
		StreamFaults: map[string]int{}, Unmeasured: map[string]string{},
	}
}

// EqualLatencies returns a distribution of n latencies, all equal to ms.
func EqualLatencies(n int64, ms float64) *result.Distribution {
	var h result.Histogram
	for range n {
		h.Record(int64(ms * 1e6))
	}
	return h.Distribution()
}

// ExitCode returns the exit code that an error carries.
func ExitCode(err error) int {
	var e *exit.Error
	if errors.As(err, &e) {
		return e.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// SaveResult writes a result to a temporary file and returns its path.
func SaveResult(t *testing.T, r *result.Result) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "result.json")
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
