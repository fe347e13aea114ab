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

// marker is the width of what stands before each row.
const marker = 2

// frame is what the screen shows: at most height lines of at most width cells.
func (v *view) frame(width, height int) []line {
	head := v.head(width, height)
	foot := v.foot(width, height)
	if room := height - len(head) - len(foot); room < 2 { // nothing but the sentence fits
		head, foot = head[:min(len(head), height)], nil
	}
	room := height - len(head) - len(foot)
	var body []line
	switch {
	case room < 2:
	case v.help:
		body = helpPage(width, room)
	default:
		body = v.body(width, room)
	}
	out := slices.Concat(head, body)
	for len(out)+len(foot) < height {
		out = append(out, line{})
	}
	return append(out, foot...)
}

// head is the sentence, the edge's numbers, and what can be looked at.
func (v *view) head(width, height int) (out []line) {
	sentence := plaintext.Wrap(plaintext.Line("Penstock  "+v.state.Verdict.Text), width)
	if most := max(1, min(4, height/6)); len(sentence) > most {
		sentence = append(sentence[:most-1], plaintext.Cut(sentence[most-1], width-2)+" …")
	}
	for _, text := range sentence {
		out = append(out, line{plaintext.Cut(text, width), styleOf(v.state.Verdict.Level)})
	}
	if height >= 10 {
		out = append(out, line{plaintext.Cut(v.state.Numbers(), width), styleDim})
	}
	if height >= 30 {
		for _, note := range v.state.Notes() {
			out = append(out, line{plaintext.Cut(plaintext.Line(note), width), styleDim})
		}
	}
	return append(out, v.tabs(width))
}

func styleOf(level string) style {
	switch level {
	case status.LevelOK:
		return styleOK
	case status.LevelOut:
		return styleOut
	case status.LevelDegraded, status.LevelDraining:
		return styleDegraded
	}
	return styleNone
}

// inTrouble is how many rows of a table are in trouble. Calls and events are about the past.
func inTrouble(t *status.Table) (n int) {
	if t.Name != "Models" && t.Name != "Upstreams" {
		return 0
	}
	for i := range t.Rows {
		if l := t.Rows[i].Level; l == status.LevelOut || l == status.LevelDegraded {
			n++
		}
	}
	return n
}

// tabs names the tables, with how many rows they have and how many of those are in trouble.
func (v *view) tabs(width int) line {
	var long, short []string
	for i := range v.tables {
		t := &v.tables[i]
		name := fmt.Sprintf("%d %s %d", i+1, t.Name, t.Total)
		if n := inTrouble(t); n > 0 {
			name += fmt.Sprintf(" (%d!)", n)
		}
		brief := strconv.Itoa(i + 1)
		if i == v.table {
			name, brief = "["+name+"]", "["+name+"]"
		}
		long, short = append(long, name), append(short, brief)
	}
	text := strings.Join(long, "  ")
	if plaintext.Width(text) > width {
		text = strings.Join(short, " ")
	}
	return line{plaintext.Cut(text, width), styleHead}
}

// body is the table, and behind it what is known of the chosen row.
func (v *view) body(width, height int) (out []line) {
	t, l := v.current()
	rows := v.rows()
	shown := *t
	shown.Rows = rows
	g := shown.Fit(max(1, width-marker))
	l.columns = g.Columns()
	mark := "▼"
	if l.sort != unsorted && t.Columns[l.sort].Number == l.reversed {
		mark = "▲"
	}
	out = append(out, line{plaintext.Cut("  "+g.Head(l.sort, mark), width), styleHead})
	more := v.details(rows, l, width, (height-1)/4)
	room := height - 1 - len(more)
	if len(rows) == 0 {
		nothing := "nothing"
		if v.filter != "" {
			nothing = "nothing passes the filter"
		}
		return append(out, line{plaintext.Cut("  "+nothing, width), styleDim})
	}
	counted := len(rows) > room && room > 1
	if counted {
		room-- // for how many are not shown
	}
	v.page = room
	l.top = max(0, min(l.top, len(rows)-room, l.at), l.at-room+1)
	end := min(len(rows), l.top+room)
	for i := l.top; i < end; i++ {
		row := line{"  " + g.Line(&rows[i]), styleOf(rows[i].Level)}
		if i == l.at {
			row = line{plaintext.Pad("> "+g.Line(&rows[i]), width, false), row.style + styleSelected}
		}
		row.text = plaintext.Cut(row.text, width)
		out = append(out, row)
	}
	if counted {
		out = append(out, line{plaintext.Cut("  "+v.unseen(rows, l.top, end), width), styleDim})
	}
	return append(out, more...)
}

// unseen says what of the table is not on the screen.
func (*view) unseen(rows []status.Row, from, to int) string {
	idle := true
	for i := to; i < len(rows); i++ {
		idle = idle && rows[i].Idle
	}
	text := fmt.Sprintf("%d to %d of %d", from+1, to, len(rows))
	if n := len(rows) - to; n > 0 {
		text += fmt.Sprintf(", %d more below", n)
		if idle {
			text += ", all idle"
		}
	}
	return text
}

// details are what is known of the chosen row, in at most so many lines.
func (v *view) details(rows []status.Row, l *look, width, most int) (out []line) {
	if len(rows) == 0 {
		return nil
	}
	r := &rows[l.at]
	add := func(text string, s style) {
		for _, part := range plaintext.Wrap(plaintext.Line(text), max(1, width-marker)) {
			if len(out) < most {
				out = append(out, line{plaintext.Cut("  "+part, width), s})
			}
		}
	}
	if r.Why != "" {
		add(r.Why, styleOf(r.Level))
	}
	for _, text := range slices.Concat(r.Arms, r.More) {
		add(text, styleDim)
	}
	return out
}

// foot is what is typed, what is wrong, and which keys there are.
func (v *view) foot(width, height int) (out []line) {
	if height < 6 {
		return nil
	}
	add := func(text string, s style) { out = append(out, line{plaintext.Cut(plaintext.Line(text), width), s}) }
	if v.failed != nil {
		add(fmt.Sprintf("No answer, shown is the state of %s ago: %s", status.Ago(v.age(time.Now())), v.failed), styleOut)
	}
	switch {
	case v.typing:
		add("/"+v.filter+"▏ enter keeps the filter, esc drops it", styleNone)
		return out
	case v.filter != "":
		all := len(v.tables[v.table].Rows)
		add(fmt.Sprintf("filter: %s (%d of %d)  / changes it", v.filter, len(v.rows()), all), styleNone)
	}
	if v.paused {
		add("PAUSED at "+v.state.Now.Local().Format(time.TimeOnly)+": space goes on", styleDegraded)
	}
	help := fmt.Sprintf("q quit  1-%d view  s sort  / filter  space pause  ? help", len(v.tables))
	if plaintext.Width(help) > width {
		help = "q quit  ? help  s sort  / filter"
	}
	add(help, styleDim)
	return out
}

// helpPage says which keys there are.
func helpPage(width, height int) (out []line) {
	for _, k := range [][2]string{
		{"1 to 7, tab", "the table that is shown"},
		{"s S, → ←", "sort by the next or last column; beyond the last: trouble first"},
		{"r", "turn the order round"},
		{"/", "show the rows that contain a text"},
		{"space, p", "stop at the shown state, and go on"},
		{"↑ ↓, k j", "choose a row: what is known of it stands below"},
		{"page up, down", "by a screen; home, end: to the first, last row"},
		{"q, esc, ctrl-c", "quit"},
	} {
		for i, text := range plaintext.Wrap(k[1], max(1, width-18)) {
			name := k[0]
			if i > 0 {
				name = ""
			}
			out = append(out, line{plaintext.Cut("  "+plaintext.Pad(name, 14, false)+"  "+text, width), styleNone})
		}
	}
	return out[:min(len(out), height)]
}
