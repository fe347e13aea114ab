package engine

import "testing"

// TestWakeURL checks how the URL of a wake request is split, and that the path is sent exactly as
// configured.
func TestWakeURL(t *testing.T) {
	for address, want := range map[string][2]string{
		"http://10.0.0.11:8000":          {"http://10.0.0.11:8000", "/"},
		"http://10.0.0.11:8000/wake/?a=": {"http://10.0.0.11:8000", "/wake/?a="},
		"unix:/run/a.sock":               {"unix:/run/a.sock", "/"},
		"unix:/run/a.sock?a=b":           {"unix:/run/a.sock", "/?a=b"},
		"unix:/run/a.sock:/wake":         {"unix:/run/a.sock", "/wake"},
		"unix:/run/a.sock:/wake/?a=b":    {"unix:/run/a.sock", "/wake/?a=b"},
	} {
		if base, path, err := wakeURL(address); err != nil || base != want[0] || path != want[1] {
			t.Errorf("%s: %s, %s, %v, want %v", address, base, path, err, want)
		}
	}
}
