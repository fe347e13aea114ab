package plaintext

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWidth(t *testing.T) {
	for s, want := range map[string]int{
		"": 0, "gpu-a": 5, "größe": 5, "东京": 4, "한국": 4, "🚰": 2, "é": 1, "e\u0301": 1, "ｗ": 2, "…": 1, "▲": 1, "✕": 1,
	} {
		if got := LineCells(s); got != want {
			t.Errorf("%q takes %d cells, want %d", s, got, want)
		}
	}
	for _, c := range []struct {
		text   string
		cells  int
		cut    string
		padded string // result of Pad with number set
	}{
		{"gpu-a", 5, "gpu-a", "gpu-a"},
		{"gpu-a", 7, "gpu-a", "  gpu-a"},
		{"gpu-a", 4, "gpu…", "gpu…"},
		{"东京东京", 4, "东…", " 东…"},
		{"东京", 4, "东京", "东京"},
		{"东京", 1, "…", "…"},
		{"ae\u0301i", 2, "a…", "a…"},
		{"abc", 0, "", ""},
	} {
		if got := Truncate(c.text, c.cells); got != c.cut {
			t.Errorf("%q in %d cells is %q, want %q", c.text, c.cells, got, c.cut)
		}
		if got := Pad(c.text, c.cells, true); got != c.padded {
			t.Errorf("%q in %d cells is %q, want %q", c.text, c.cells, got, c.padded)
		}
	}
}

// TestFits checks that truncated, padded or wrapped text always fits the width, and that wrapping
// loses no words.
func TestFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := CleanLine(rapid.OneOf(rapid.String(), rapid.StringMatching(`([a-z东京🚰]{1,12} ?){0,12}`)).Draw(t, "text"))
		cells := rapid.IntRange(4, 60).Draw(t, "cells")
		if got := Truncate(s, cells); LineCells(got) > cells {
			t.Fatalf("%q is cut to %q, which takes %d of %d cells", s, got, LineCells(got), cells)
		}
		if got := Pad(s, cells, false); LineCells(got) != cells {
			t.Fatalf("%q is padded to %q, which takes %d of %d cells", s, got, LineCells(got), cells)
		}
		lines := WrapText(s, cells)
		for _, line := range lines {
			if LineCells(line) > cells {
				t.Fatalf("%q takes %d of %d cells", line, LineCells(line), cells)
			}
		}
		without := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if got := without(strings.Join(lines, "")); got != without(s) {
			t.Fatalf("%q is wrapped to %q", s, lines)
		}
	})
}
