package result

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

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
