package status

import (
	"bytes"
	"fmt"
	"strings"

	"penstock/proxy/front/plaintext"
)

const leastWidth = 40

// Terminal returns the whole state as plain text that is at most width characters wide. If width is
// less than leastWidth, Terminal uses leastWidth.
func (s *Status) Terminal(width int) []byte {
	p := printer{width: max(leastWidth, width)}
	p.wrap("", "Penstock  "+s.Verdict.Text)
	if todo := s.WhatToDo(); todo != "" {
		p.wrap("", todo)
	}
	p.wrap("", s.Numbers())
	for _, t := range s.Tables() {
		p.table(&t)
	}
	for _, n := range s.Notes() {
		p.wrap("", n)
	}
	if r := s.LastReload; r != nil && !r.OK {
		what := "RELOAD FAILED at "
		if r.KeysInForce {
			what = "RELOADED KEYS ALONE at "
		}
		p.out.WriteByte('\n')
		p.line(what + r.At.Format("15:04:05"))
		for _, problem := range r.Problems {
			what, _, _ := strings.Cut(problem, "\n") // drops the excerpt from the file
			p.wrap("", what)
		}
	}
	return p.out.Bytes()
}

// Numbers describes the edge's numbers in one line.
func (s *Status) Numbers() string {
	n := &s.Total.Minute
	return fmt.Sprintf("%d in flight · %d ended since the start · %d calls, %d failed, %d full, %d over limit in the last minute · %d connections · retries %d of %d · up %s · configuration #%d",
		s.InFlight, s.Finished, n.Calls, n.Failed, n.Full, n.Limited, s.Connections, s.Retries.Used, s.Retries.Allowed,
		Ago(s.Now.Sub(s.Started)), s.Version)
}

// Notes describes the sources of upstreams, the issuers of tokens, and the state of the fleet's
// store.
func (s *Status) Notes() (out []string) {
	if text := elsewhere(s); text != "" {
		out = append(out, text)
	}
	for _, d := range s.Discoveries {
		out = append(out, d.Text())
	}
	for _, d := range s.Discovered {
		out = append(out, d.Text())
	}
	for _, c := range pairsOf(s) {
		out = append(out, c.Text)
	}
	if s.Certificate != nil {
		for _, d := range s.Certificate.Domains {
			out = append(out, d.Text())
		}
	}
	for _, i := range s.Issuers {
		out = append(out, i.Text())
	}
	for _, h := range s.Hooks {
		out = append(out, h.Text())
	}
	for _, c := range s.Copies {
		out = append(out, c.Text())
	}
	if s.Fleet != nil && !s.Fleet.StoreAnswers {
		out = append(out, "The store does not answer: limits are held without it ("+s.Fleet.WhenLost+").")
	}
	return out
}

// elsewhere says how many slots other edges use, if the edges of a fleet share slots.
func elsewhere(s *Status) string {
	own, others := 0, 0
	for i := range s.Upstreams {
		for _, p := range ownPools(&s.Upstreams[i]) {
			own, others = own+p.Active-p.Elsewhere, others+p.Elsewhere
		}
	}
	if others == 0 {
		return ""
	}
	return fmt.Sprintf("Slots in use are those of all edges: %d at this one, %d at others.", own, others)
}

// printer builds the text for a terminal. It removes every character that could move the cursor,
// because names may come from untrusted sources.
type printer struct {
	out   bytes.Buffer
	width int
}

func (p *printer) line(text string) {
	p.out.WriteString(plaintext.Cut(strings.TrimRight(plaintext.Line(text), " "), p.width) + "\n")
}

func (p *printer) wrap(indent, text string) {
	for _, line := range plaintext.Wrap(plaintext.Line(text), p.width-len(indent)) {
		p.line(indent + line)
	}
}

// printedRows limits the rows of calls, keys and similar lists. Models, upstreams and edges are
// printed completely.
const printedRows = 12

func (p *printer) table(t *Table) {
	rows, less := t.Rows, len(t.Rows)
	switch t.Name {
	case "Models", "Upstreams", "Edges":
	default:
		less = min(less, printedRows)
	}
	if len(rows) == 0 {
		return
	}
	g := t.Fit(p.width)
	p.out.WriteByte('\n')
	p.line(g.Head())
	for i := range rows[:less] {
		p.line(g.Line(&rows[i]))
		if rows[i].Why != "" && rows[i].Level != "" {
			p.wrap("  ", rows[i].Why)
		}
		for _, text := range rows[i].Arms {
			p.wrap("  ", text)
		}
	}
	if n := t.Total - less; n > 0 {
		p.line(fmt.Sprintf("… %d more", n))
	}
}

// Grid is the set of table columns that fit into a width.
type Grid struct {
	columns []Column
	shown   []int
	widths  []int
}

const gap = 2

const mostText = 48

// width returns the minimum width of a column. A column of numbers is as wide as its widest number,
// because numbers are never truncated.
func (t *Table) width(column int) int {
	c := &t.Columns[column]
	width := c.Width
	for r := range t.Rows {
		if c.Number {
			width = max(width, plaintext.Width(plaintext.Line(t.Rows[r].Cells[column])))
		}
	}
	return width
}

// Fit chooses the columns that fit into a width.
func (t *Table) Fit(width int) *Grid {
	g, total := &Grid{columns: t.Columns}, -gap
	least := make([]int, len(t.Columns))
	for i := range t.Columns {
		g.shown = append(g.shown, i)
		least[i] = t.width(i)
		total += least[i] + gap
	}
	for total > width {
		at, spare := 0, 0
		for i, c := range g.shown {
			if t.Columns[c].Spare > spare {
				at, spare = i, t.Columns[c].Spare
			}
		}
		if at == 0 {
			break
		}
		total -= least[g.shown[at]] + gap
		g.shown = append(g.shown[:at], g.shown[at+1:]...)
	}
	for _, c := range g.shown {
		g.widths = append(g.widths, least[c])
	}
	room := width - total
	for ; room < 0; room++ {
		widest := 0
		for i, c := range g.shown {
			if !t.Columns[c].Number && g.widths[i] > g.widths[widest] {
				widest = i
			}
		}
		g.widths[widest] = max(1, g.widths[widest]-1)
	}
	for i, c := range g.shown {
		if t.Columns[c].Number {
			continue
		}
		need := g.widths[i]
		for r := range t.Rows {
			need = max(need, min(mostText, plaintext.Width(t.Rows[r].Cells[c])))
		}
		grown := min(room, need-g.widths[i])
		g.widths[i], room = g.widths[i]+grown, room-grown
	}
	return g
}

// Head returns the line with the column titles.
func (g *Grid) Head() string { return g.join(func(c int) string { return g.columns[c].Title }) }

// Line returns the line for a row, without terminal control characters.
func (g *Grid) Line(r *Row) string {
	return g.join(func(c int) string { return plaintext.Line(r.Cells[c]) })
}

func (g *Grid) join(text func(column int) string) string {
	var parts []string
	for i, c := range g.shown {
		parts = append(parts, plaintext.Pad(text(c), g.widths[i], g.columns[c].Number))
	}
	return strings.Join(parts, strings.Repeat(" ", gap))
}
