package bench

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sampleResult() *Result {
	n := 12.5
	return &Result{
		Date: "20260102-030405", Backend: "openai-chat", EndpointType: "openai-chat", ModelID: "m", NumPrompts: 2,
		RequestRate: Rate(math.Inf(1)), Burstiness: 1, Duration: 2, Completed: 2,
		Measures: map[string]*float64{"p99_ttft_ms": &n, "p99.9_itl_ms": nil},
		Metadata: map[string]string{"gpu": "none"},
		Penstock: &Penstock{
			SchemaVersion: SchemaVersion,
			Verdict:       Verdict{Reasons: []Reason{}},
			ExpectErrors:  []string{},
			Load:          LoadSummary{Mix: map[string]float64{"chat": 1}, Unstreamed: []string{}},
			Total:         *emptySummary(),
			Stages:        []Stage{{Broke: []string{}, Summary: *emptySummary()}},
			ByDialect:     map[string]*Summary{}, ByUpstream: map[string]*Summary{},
			Series: Series{
				IntervalS: 1, TS: []float64{0}, Scheduled: []int{1}, Sent: []int{1}, Completed: []int{1}, Failed: []int{0}, Left: []int{0},
				InFlight: []int{1}, OutputTokens: []float64{0}, Latency: map[string]map[string][]*float64{TTFT: {"50": {nil}}}, Stage: []int{-1},
			},
			Tokens: TokenCounts{Input: map[string]int{}, Output: map[string]int{}},
			Events: []Event{}, Telemetry: []Telemetry{}, Objectives: []Objective{}, Command: []string{},
		},
	}
}

func emptySummary() *Summary {
	return &Summary{Latency: map[string]*Distribution{}, Errors: []ErrorCount{}, StreamFaults: map[string]int{}, Unmeasured: map[string]string{}}
}

func TestResultKeys(t *testing.T) {
	var b bytes.Buffer
	r := sampleResult()
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	checkSchema(t, b.Bytes())
	for _, want := range []string{`"request_rate":"inf"`, `"p99_ttft_ms":12.5`, `"p99.9_itl_ms":null`, `"gpu":"none"`, `"request_goodput":null`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in the file", want)
		}
	}
	var again Result
	if err := json.Unmarshal(b.Bytes(), &again); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, &again); d != "" {
		t.Error(d)
	}
}

func TestReadVLLMResult(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vllm.json")
	text := `{"date":"20260101-000000","endpoint_type":"openai-chat","backend":"openai-chat","label":null,"model_id":"m","tokenizer_id":"m",
	"num_prompts":10,"gpu":"h100","request_rate":4.0,"burstiness":1.0,"max_concurrency":null,"duration":2.5,"completed":10,"failed":0,
	"total_input_tokens":100,"total_output_tokens":200,"request_throughput":4,"request_goodput":null,"output_throughput":80,
	"total_token_throughput":120,"mean_ttft_ms":5.5,"p99_ttft_ms":9,"latencies":[0.1]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := ReadResult(path)
	if err != nil {
		t.Fatal(err)
	}
	if r.Penstock != nil || r.RequestRate != 4 || *r.Measures["p99_ttft_ms"] != 9 || r.Metadata["gpu"] != "h100" || *r.TotalOutputTokens != 200 {
		t.Errorf("got %+v", r)
	}
}

func TestPercentile(t *testing.T) {
	d := &Distribution{Count: 4, Min: 1, Max: 4, Buckets: [][2]float64{{1, 1}, {2, 1}, {3, 1}, {4, 1}}}
	for p, want := range map[float64]float64{0: 1, 50: 2.5, 75: 3.25, 100: 4} {
		if got := d.Percentile(p); math.Abs(got-want) > 1e-9 {
			t.Errorf("p%v: got %v, want %v", p, got, want)
		}
	}
	if got := (*Distribution)(nil).Percentile(50); !math.IsNaN(got) {
		t.Errorf("of nothing: got %v", got)
	}
}
