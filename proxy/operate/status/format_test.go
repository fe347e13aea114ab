package status

import (
	"strings"
	"testing"

	"penstock/proxy/telemetry/observe"
)

// TestOneRounding checks that the sentence, the row on the page and the row in the terminal show
// the same percentage.
func TestOneRounding(t *testing.T) {
	s := sample()
	s.Models[0].History.Minute = observe.Minute{Calls: 1000, Failed: 36}
	s.SetVerdict(nil)
	page, err := s.Page()
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"sentence": s.Verdict.Text, "state": s.Models[0].Troubles[0]} {
		if !strings.Contains(text, "fails 4 % of its calls (36 of 1000") {
			t.Errorf("%s = %s, want 4 %% of its calls (36 of 1000", where, text)
		}
	}
	if !strings.Contains(string(page), "36 <small>4 %</small>") {
		t.Error("the row of the page says another share")
	}
	if got := shareCell(36, 1000); got != "36 (4%)" {
		t.Errorf("the terminal says %s", got)
	}
}
