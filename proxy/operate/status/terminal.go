package status

import (
	"bytes"
	"fmt"
	"strings"

	"penstock/proxy/front/plaintext"
)

const minTerminalWidth = 40

// TerminalText returns the whole state as plain text that is at most width characters wide. If
// width is less than minTerminalWidth, TerminalText uses minTerminalWidth.
func (s *Status) TerminalText(width int) []byte {
	p := textPrinter{width: max(minTerminalWidth, width)}
	p.writeWrapped("", "Penstock  "+s.Verdict.Text)
	if todo := s.RemedyCommands(); todo != "" {
		p.writeWrapped("", todo)
	}
	p.writeWrapped("", s.NumbersLine())
	for _, t := range s.Tables() {
		p.writeTable(&t)
	}
	for _, n := range s.SourceNotes() {
		p.writeWrapped("", n)
	}
	if r := s.LastReload; r != nil && !r.OK {
		what := "RELOAD FAILED at "
		if r.KeysInForce {
			what = "RELOADED KEYS ALONE at "
		}
		p.out.WriteByte('\n')
		p.writeLine(what + r.At.Format("15:04:05"))
		for _, problem := range r.Problems {
			what, _, _ := strings.Cut(problem, "\n") // removes the excerpt from the configuration file
			p.writeWrapped("", what)
		}
	}
	return p.out.Bytes()
}

// NumbersLine describes the edge's numbers in one line.
func (s *Status) NumbersLine() string {
	n := &s.Total.Minute
	return fmt.Sprintf("%d in flight · %d ended since the start · %d calls, %d failed, %d full, %d over limit in the last minute · %d connections · retries %d of %d · up %s · configuration #%d",
		s.InFlight, s.Finished, n.Calls, n.Failed, n.Full, n.Limited, s.Connections, s.Retries.Used, s.Retries.Allowed,
		FormatDuration(s.Now.Sub(s.Started)), s.Version)
}

// SourceNotes describes the sources of upstreams, the issuers of tokens, and the state of the
// fleet's store.
func (s *Status) SourceNotes() (out []string) {
	if text := otherEdgesSlotsText(s); text != "" {
		out = append(out, text)
	}
	for _, d := range s.Discoveries {
		out = append(out, d.Text())
	}
	for _, d := range s.Discovered {
		out = append(out, d.Text())
	}
	for _, c := range certificateNotes(s) {
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

// otherEdgesSlotsText says how many slots are used by other edges, if the edges of a fleet share
// slots.
func otherEdgesSlotsText(s *Status) string {
	own, others := 0, 0
	for i := range s.Upstreams {
		for _, p := range upstreamPools(&s.Upstreams[i]) {
			own, others = own+p.Active-p.Elsewhere, others+p.Elsewhere
		}
	}
	if others == 0 {
		return ""
	}
	return fmt.Sprintf("Slots in use are those of all edges: %d at this one, %d at others.", own, others)
}

// textPrinter builds the text for a terminal. It replaces every character that could move the cursor,
// because names may come from untrusted sources.
type textPrinter struct {
	out   bytes.Buffer
	width int
}

func (p *textPrinter) writeLine(text string) {
	p.out.WriteString(plaintext.Truncate(strings.TrimRight(plaintext.CleanLine(text), " "), p.width) + "\n")
}

func (p *textPrinter) writeWrapped(indent, text string) {
	for _, line := range plaintext.WrapText(plaintext.CleanLine(text), p.width-len(indent)) {
		p.writeLine(indent + line)
	}
}

// maxPrintedRows limits the rows of calls, keys and similar lists. Models, upstreams and edges are
// printed completely.
const maxPrintedRows = 12

func (p *textPrinter) writeTable(t *Table) {
	rows, less := t.Rows, len(t.Rows)
	switch t.Name {
	case "Models", "Upstreams", "Edges":
	default:
		less = min(less, maxPrintedRows)
	}
	if len(rows) == 0 {
		return
	}
	g := t.Fit(p.width)
	p.out.WriteByte('\n')
	p.writeLine(g.HeaderLine())
	for i := range rows[:less] {
		p.writeLine(g.RowLine(&rows[i]))
		if rows[i].Why != "" && rows[i].Level != "" {
			p.writeWrapped("  ", rows[i].Why)
		}
		for _, text := range rows[i].Arms {
			p.writeWrapped("  ", text)
		}
	}
	if n := t.Total - less; n > 0 {
		p.writeLine(fmt.Sprintf("… %d more", n))
	}
}

// Grid is the set of table columns that fit into a width.
type Grid struct {
	columns      []Column
	shownColumns []int
	widths       []int
}

const columnGap = 2

const maxTextWidth = 48

// minColumnWidth returns the minimum width of a column. A column of numbers is as wide as its
// widest number, because numbers are never truncated.
func (t *Table) minColumnWidth(column int) int {
	c := &t.Columns[column]
	width := c.Width
	for r := range t.Rows {
		if c.Number {
			width = max(width, plaintext.LineCells(plaintext.CleanLine(t.Rows[r].Cells[column])))
		}
	}
	return width
}

// Fit chooses the columns that fit into a width.
func (t *Table) Fit(width int) *Grid {
	g, total := &Grid{columns: t.Columns}, -columnGap
	least := make([]int, len(t.Columns))
	for i := range t.Columns {
		g.shownColumns = append(g.shownColumns, i)
		least[i] = t.minColumnWidth(i)
		total += least[i] + columnGap
	}
	for total > width {
		at, spare := 0, 0
		for i, c := range g.shownColumns {
			if t.Columns[c].Spare > spare {
				at, spare = i, t.Columns[c].Spare
			}
		}
		if at == 0 {
			break
		}
		total -= least[g.shownColumns[at]] + columnGap
		g.shownColumns = append(g.shownColumns[:at], g.shownColumns[at+1:]...)
	}
	for _, c := range g.shownColumns {
		g.widths = append(g.widths, least[c])
	}
	room := width - total
	for ; room < 0; room++ {
		widest := 0
		for i, c := range g.shownColumns {
			if !t.Columns[c].Number && g.widths[i] > g.widths[widest] {
				widest = i
			}
		}
		g.widths[widest] = max(1, g.widths[widest]-1)
	}
	for i, c := range g.shownColumns {
		if t.Columns[c].Number {
			continue
		}
		need := g.widths[i]
		for r := range t.Rows {
			need = max(need, min(maxTextWidth, plaintext.LineCells(t.Rows[r].Cells[c])))
		}
		grown := min(room, need-g.widths[i])
		g.widths[i], room = g.widths[i]+grown, room-grown
	}
	return g
}

// HeaderLine returns the line with the column titles.
func (g *Grid) HeaderLine() string {
	return g.joinCells(func(c int) string { return g.columns[c].Title })
}

// RowLine returns the line for a row, without terminal control characters.
func (g *Grid) RowLine(r *Row) string {
	return g.joinCells(func(c int) string { return plaintext.CleanLine(r.Cells[c]) })
}

func (g *Grid) joinCells(text func(column int) string) string {
	var parts []string
	for i, c := range g.shownColumns {
		parts = append(parts, plaintext.Pad(text(c), g.widths[i], g.columns[c].Number))
	}
	return strings.Join(parts, strings.Repeat(" ", columnGap))
}
