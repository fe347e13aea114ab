package suggest

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"concurrency", "api_key", "weight", "url", "least_loaded", "timeouts"}
	for name, want := range map[string]string{
		"wieght": "weight", "apiKey": "api_key", "API-KEY": "api_key", "ulr": "url", "max_concurrency": "concurrency",
		"timeout": "timeouts", "least-loaded": "least_loaded", "zzz": "", "": "", "x": "", strings.Repeat("w", 1000): "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%.20s: %q, want %q", name, got, want)
		}
	}
}
