package result

import "testing"

// TestLeastSamples checks the numbers that appear in documents and messages.
func TestLeastSamples(t *testing.T) {
	for percent, want := range map[float64]int{50: 30, 90: 50, 95: 100, 99: 500, 99.9: 5000} {
		if got := MinSamples(percent); got != want {
			t.Errorf("p%g needs %d, want %d", percent, got, want)
		}
	}
}
