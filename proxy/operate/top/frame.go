package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/proxy/front/plaintext"
	"penstock/proxy/operate/status"
)

const markerWidth = 2

func (v *view) renderFrame(width, height int) []frameLine {
	head := v.headerLines(width, height)
	foot := v.footerLines(width, height)
	if room := height - len(head) - len(foot); room < 2 { // there is only space for the sentence
		head, foot = head[:min(len(head), height)], nil
	}
	room := height - len(head) - len(foot)
	var body []frameLine
	if room >= 2 {
		body = v.tableLines(width, room)
	}
	out := slices.Concat(head, body)
	for len(out)+len(foot) < height {
		out = append(out, frameLine{})
	}
	return append(out, foot...)
}

func (v *view) headerLines(width, height int) (out []frameLine) {
	sentence := plaintext.WrapText(plaintext.CleanLine("Penstock  "+v.state.Verdict.Text), width)
	if most := max(1, min(4, height/6)); len(sentence) > most {
		sentence = append(sentence[:most-1], plaintext.Truncate(sentence[most-1], width-2)+" …")
	}
	for _, text := range sentence {
		out = append(out, frameLine{plaintext.Truncate(text, width), levelStyle(v.state.Verdict.Level)})
	}
	if todo := v.state.RemedyCommands(); todo != "" && height >= 20 {
		out = append(out, frameLine{plaintext.Truncate(todo, width), styleNone})
	}
	if height >= 10 {
		out = append(out, frameLine{plaintext.Truncate(v.state.NumbersLine(), width), styleDim})
	}
	if height >= 30 {
		for _, note := range v.state.SourceNotes() {
			out = append(out, frameLine{plaintext.Truncate(plaintext.CleanLine(note), width), styleDim})
		}
	}
	return append(out, v.tabLine(width))
}

func levelStyle(level string) lineStyle {
	switch level {
	case status.LevelOK:
		return styleOK
	case status.LevelOut, status.LevelFailing:
		return styleOut
	case status.LevelDegraded, status.LevelDraining:
		return styleDegraded
	}
	return styleNone
}

// countProblemRows counts the rows with a problem. It returns 0 for all tables except models and
// upstreams.
func countProblemRows(t *status.Table) (n int) {
	if t.Name != "Models" && t.Name != "Upstreams" {
		return 0
	}
	for i := range t.Rows {
		if l := t.Rows[i].Level; l == status.LevelOut || l == status.LevelFailing || l == status.LevelDegraded {
			n++
		}
	}
	return n
}

func (v *view) tabLine(width int) frameLine {
	var long, short []string
	for i := range v.tables {
		t := &v.tables[i]
		name := fmt.Sprintf("%d %s %d", i+1, t.Name, t.Total)
		if n := countProblemRows(t); n > 0 {
			name += fmt.Sprintf(" (%d!)", n)
		}
		brief := strconv.Itoa(i + 1)
		if i == v.tableIndex {
			name, brief = "["+name+"]", "["+name+"]"
		}
		long, short = append(long, name), append(short, brief)
	}
	text := strings.Join(long, "  ")
	if plaintext.LineCells(text) > width {
		text = strings.Join(short, " ")
	}
	return frameLine{plaintext.Truncate(text, width), styleHead}
}

func (v *view) tableLines(width, height int) (out []frameLine) {
	t := &v.tables[v.tableIndex]
	g := t.Fit(max(1, width-markerWidth))
	out = append(out, frameLine{plaintext.Truncate("  "+g.HeaderLine(), width), styleHead})
	if len(t.Rows) == 0 {
		return append(out, frameLine{plaintext.Truncate("  nothing", width), styleDim})
	}
	more := detailLines(&t.Rows[0], width, (height-1)/4)
	room := height - 1 - len(more)
	counted := len(t.Rows) > room && room > 1
	if counted {
		room-- // for the line with the number of hidden rows
	}
	shown := min(len(t.Rows), room)
	for i := range t.Rows[:shown] {
		mark := "  "
		if i == 0 && len(more) > 0 {
			mark = "> "
		}
		out = append(out, frameLine{plaintext.Truncate(mark+g.RowLine(&t.Rows[i]), width), levelStyle(t.Rows[i].Level)})
	}
	if counted {
		out = append(out, frameLine{plaintext.Truncate("  "+hiddenRowsText(t.Rows, shown), width), styleDim})
	}
	return append(out, more...)
}

func hiddenRowsText(rows []status.Row, shown int) string {
	text := fmt.Sprintf("1 to %d of %d, %d more", shown, len(rows), len(rows)-shown)
	if !slices.ContainsFunc(rows[shown:], func(r status.Row) bool { return !r.Idle }) {
		text += ", all idle"
	}
	return text
}

func detailLines(r *status.Row, width, most int) (out []frameLine) {
	add := func(text string, s lineStyle) {
		for _, part := range plaintext.WrapText(plaintext.CleanLine(text), max(1, width-markerWidth)) {
			if len(out) < most {
				out = append(out, frameLine{plaintext.Truncate("  "+part, width), s})
			}
		}
	}
	if r.Why != "" {
		add(r.Why, levelStyle(r.Level))
	}
	for _, text := range slices.Concat(r.Arms, r.More) {
		add(text, styleDim)
	}
	return out
}

func (v *view) footerLines(width, height int) (out []frameLine) {
	if height < 6 {
		return nil
	}
	add := func(text string, s lineStyle) {
		out = append(out, frameLine{plaintext.Truncate(plaintext.CleanLine(text), width), s})
	}
	if v.lastErr != nil {
		add(fmt.Sprintf("No answer, shown is the state of %s ago: %s", status.FormatDuration(v.statusAge(time.Now())), v.lastErr), styleOut)
	}
	if v.paused {
		add("PAUSED at "+v.state.Now.Local().Format(time.TimeOnly)+": space goes on", styleDegraded)
	}
	add(fmt.Sprintf("q quit  1-%d tab table  space pause", len(v.tables)), styleDim)
	return out
}
