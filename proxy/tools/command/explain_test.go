package command

import (
	"regexp"
	"slices"
	"testing"

	"penstock/proxy/operate/reference"
	"penstock/upstreams"
)

// TestExplainKnowsTheWords checks that explain finds every cause, and typical words from the tables
// in the log reference. Another test compares these tables with the sets in the code.
func TestExplainKnowsTheWords(t *testing.T) {
	words := []string{"upstream_lacks", "edge_failing", "upstream_suspect", "idle_timeout", "client_gone", "busy", "over limit"}
	for _, c := range upstreams.Causes() {
		words = append(words, string(c.Cause))
	}
	if n := len(parseLogTermRows()); n < 80 || n > len(regexp.MustCompile("(?m)^\\| `").FindAllString(reference.LogMarkdown, -1)) {
		t.Errorf("%d words", n)
	}
	all := referenceRows()
	for _, word := range words {
		if !slices.ContainsFunc(rowsWithName(all, word), func(r referenceRow) bool { return r.isWord() && r.cells[0] != "" }) {
			t.Errorf("explain does not know %s", word)
		}
	}
}

// TestExplainSaysWhatToDo checks that if the description of a word mentions an alert, the output
// includes the alert's remedy.
func TestExplainSaysWhatToDo(t *testing.T) {
	all := referenceRows()
	rows := withAlerts(rowsWithName(all, "upstream_down"), all)
	if len(rows) != 2 || rows[1].name != "PenstockUpstreamDown" || rows[1].cells[0] == "" {
		t.Errorf("%v", rows)
	}
}
