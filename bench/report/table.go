package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"penstock/bench/result"
)

// table contains rows of text. Words is the number of columns, from the left, that contain words
// instead of numbers.
type table struct {
	Title, Note string
	Head        []string
	Words       int
	Rows        []tableRow
}

type tableRow struct {
	Class string // good, bad, none or empty
	Cells []tableCell
}

type tableCell struct{ Text, Note string }

// Narrow reports whether the table has too few columns to fill the page.
func (t *table) Narrow() bool { return len(t.Head) <= 5 }

// addRow appends a row. Only the first cell of a row may have a note.
func (t *table) addRow(class string, first tableCell, texts ...string) {
	all := []tableCell{first}
	for _, text := range texts {
		all = append(all, tableCell{Text: text})
	}
	t.Rows = append(t.Rows, tableRow{class, all})
}

// terminalText formats the table for a terminal. Columns have a fixed width. Words are aligned
// left, and numbers are aligned right. The cell notes follow the table.
func (t *table) terminalText() string {
	width := make([]int, len(t.Head))
	lines := [][]string{t.Head}
	for _, r := range t.Rows {
		line, notes := make([]string, len(r.Cells)), []string{}
		for i, c := range r.Cells {
			if line[i] = c.Text; c.Note != "" {
				notes = append(notes, c.Note)
			}
		}
		lines = append(lines, append(line, strings.Join(notes, ", ")))
	}
	for _, line := range lines {
		for i := range width {
			width[i] = max(width[i], utf8.RuneCountInString(line[i]))
		}
	}
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(t.Title+": "+t.Note, ": ") + "\n")
	for _, line := range lines {
		out := ""
		for i, cell := range line {
			switch {
			case i >= len(width):
				out += cell
			case i < t.Words:
				out += fmt.Sprintf("%-*s  ", width[i], cell)
			default:
				out += fmt.Sprintf("%*s  ", width[i], cell)
			}
		}
		b.WriteString(strings.TrimRight(out, " ") + "\n")
	}
	return b.String()
}

// summaryTable returns an empty table for rows that contain summaries.
func summaryTable(title, note, first string) table {
	return table{Title: title, Note: note, Words: 1, Head: []string{
		first, "requests", "errors", "req/s", "tok/s",
		"TTFT p50", "p99", "ITL p50", "p99", "E2E p50", "p99",
	}}
}

func (t *table) addSummary(first tableCell, s *result.Summary) {
	texts := []string{groupThousands(s.Requests), shareText(s.ErrorRate), optionalNumberText(s.RequestThroughput), optionalNumberText(s.OutputThroughput)}
	for _, m := range []string{result.TTFT, result.ITL, result.E2EL} {
		for _, p := range []float64{50, 99} {
			v := math.NaN()
			if d := s.Latency[m]; d != nil && d.Count > 0 {
				v = d.Quantile(p)
			}
			texts = append(texts, result.NumberText(v))
		}
	}
	t.addRow("", first, texts...)
}

func stageTable(p *result.Penstock) table {
	t := summaryTable("Stages", "Latencies in milliseconds, from sending.", "stage")
	if len(p.Stages) < 2 {
		return t
	}
	unit, load := stageLoadReader(p)
	t.Head = slices.Insert(t.Head, 1, unit+", as plotted")
	for i := range p.Stages {
		s := &p.Stages[i]
		first := tableCell{Text: s.Name}
		if s.Met != nil && !*s.Met {
			first.Note = "objectives not met: " + strings.Join(s.Missed, ", ")
		} else if s.Met != nil {
			first.Note = "objectives met"
		}
		t.addSummary(first, &s.Summary)
		row := &t.Rows[len(t.Rows)-1]
		// The same number as on the x axis of the plots.
		row.Cells = slices.Insert(row.Cells, 1, tableCell{Text: result.NumberText(load(s))})
	}
	return t
}

// breakdownTable returns a table with a row for each dialect or upstream. It has no rows if there
// is only one dialect or upstream.
func breakdownTable(title string, of map[string]*result.Summary) table {
	t := summaryTable(title, "", "name")
	if len(of) < 2 {
		return t
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		t.addSummary(tableCell{Text: name}, of[name])
	}
	return t
}

// phaseTable returns a table with the phases of a trace.
func phaseTable(p *result.Penstock) table {
	t := table{
		Title: "Phases of the trace",
		Note: "By the second at which requests were due. TTFT from the schedule and the edge's queue in milliseconds. " +
			"Cached: input tokens found in a cache. Waiting: in the engines' queues, as they say. " +
			"Imbalance: requests in hand of the busiest engine, over the mean of all.",
		Head: []string{
			"seconds", "requests", "failed", "tok in", "tok out", "cached", "TTFT p50", "p99", "queue p99", "waiting",
			"imbalance", "busiest",
		}, Words: 1,
	}
	for i := range p.Phases {
		f := &p.Phases[i]
		class, busiest := "", "–"
		if f.Failed > 0 {
			class = "bad"
		}
		if f.Imbalance != nil {
			busiest = slices.MaxFunc(slices.Sorted(maps.Keys(f.Engines)),
				func(a, b string) int { return cmp.Compare(f.Engines[a], f.Engines[b]) })
		}
		t.addRow(class, tableCell{Text: fmt.Sprintf("%.0f–%.0f", f.StartS, f.EndS)}, groupThousands(f.Requests), groupThousands(f.Failed),
			groupThousands(f.InputTokens), groupThousands(f.OutputTokens), shareText(f.CachedShare), quantileText(f.TTFT, 50),
			quantileText(f.TTFT, 99), quantileText(f.Queue, 99), optionalNumberText(f.Waiting), optionalNumberText(f.Imbalance), busiest)
	}
	return t
}

// quantileText formats a quantile of a distribution, which may be nil.
func quantileText(d *result.Distribution, p float64) string {
	if d == nil || d.Count == 0 {
		return "–"
	}
	return result.NumberText(d.Quantile(p))
}

// comparisonTable returns the comparison of --compare-url.
func comparisonTable(p *result.Penstock) table {
	c := p.Compare
	if c == nil {
		return table{}
	}
	t := table{
		Title: "Beside a second target",
		Note:  fmt.Sprintf("%s and %s, interleaved: %s pairs of requests. Milliseconds; the difference is what the first adds.", p.Target.BaseURL, c.Target.BaseURL, groupThousands(c.Pairs)),
		Head:  []string{"measure", "first", "second", "difference", "interval", "verdict"}, Words: 1,
	}
	for _, d := range c.Differences {
		word := "no difference"
		if d.Significant {
			word = "differs"
		}
		t.addRow("", tableCell{Text: measureLabels[d.Measure].label + ", " + d.Statistic}, result.NumberText(d.First),
			result.NumberText(d.Second), result.NumberText(d.Delta),
			result.NumberText(d.Low)+" to "+result.NumberText(d.High), word)
		t.Rows[len(t.Rows)-1].Cells[4].Note = strconv.FormatFloat(100*d.Confidence, 'f', -1, 64) + " %"
	}
	return t
}

func optionalNumberText(v *float64) string {
	if v == nil {
		return "–"
	}
	return result.NumberText(*v)
}

func shareText(v *float64) string {
	if v == nil {
		return "–"
	}
	return strconv.FormatFloat(100**v, 'f', 2, 64) + " %"
}

func optionalInteger(v *int64) string {
	if v == nil {
		return "–"
	}
	return groupThousands(*v)
}

// groupThousands groups digits with thin spaces.
func groupThousands[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}
