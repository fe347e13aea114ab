package status

import (
	"strings"
	"testing"

	"penstock/proxy/front/plaintext"
)

// TestLastColumn checks lines with numbers wider than their column. A column that may be omitted
// must be omitted, and the last column must not be truncated.
func TestLastColumn(t *testing.T) {
	for _, c := range []struct{ calls, load string }{{"7", "1"}, {"1234567 (100%)", "12345678"}} {
		table := Table{
			Columns: []Column{{"MODEL", 14, false, 0}, {"STATE", 9, false, 0}, {"CALLS", 7, true, 0}, {"LOAD", 30, true, 2}, {"LAST", 6, true, 0}},
			Rows:    []Row{{Cells: []string{strings.Repeat("m", 60), "served", c.calls, c.load, "987654"}}, {Cells: []string{"m", "out", "0", "0", "12 (3%)"}}},
		}
		for _, width := range []int{60, 80, 120} {
			g := table.Fit(width)
			for i := range table.Rows {
				line, last := g.RowLine(&table.Rows[i]), table.Rows[i].Cells[4]
				if plaintext.LineCells(line) > width || !strings.HasSuffix(line, last) || !strings.Contains(line, table.Rows[i].Cells[2]) {
					t.Errorf("in %d columns: %q", width, line)
				}
			}
		}
	}
}
