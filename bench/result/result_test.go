package result

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadOtherResult checks that a file written by vLLM's tool is rejected, because it has no
// histograms.
func TestReadOtherResult(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vllm.json")
	if err := os.WriteFile(path, []byte(`{"date":"20260101-000000","backend":"openai-chat","request_rate":4.0,"completed":10,"p99_ttft_ms":9,"latencies":[0.1]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadResult(path); err == nil || !strings.Contains(err.Error(), "another tool") {
		t.Errorf("ReadResult: %v, want an error about another tool", err)
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
