package status

import (
	"html"
	"strings"
)

// Renewal updates one section of an open page.
type Renewal struct {
	Frame *string   `json:"frame,omitempty"`
	Rows  []PageRow `json:"rows,omitempty"`
}

// PageRow is one row of a list. If the page already shows the row, PageRow contains only the
// changed cells, by column number.
type PageRow struct {
	ID    string         `json:"id"`
	Text  string         `json:"text,omitempty"`
	Cells map[int]string `json:"cells,omitempty"`
}

// Shown records what an open page shows. The zero value is for a page that has received no updates
// yet.
type Shown struct {
	whole, frames map[string]string            // texts by section
	rows          map[string]map[string]string // row texts by section and id
}

// Renewals returns the updates for a page, by section, and records that the page now shows them.
func (s *Status) Renewals(page *Shown) (map[string]Renewal, error) {
	changed := map[string]Renewal{}
	for _, id := range Sections {
		text, err := s.Section(id)
		if err != nil {
			return nil, err
		}
		if r, ok := page.renew(id, text); ok {
			changed[id] = r
		}
	}
	return changed, nil
}

func (s *Shown) renew(section, text string) (r Renewal, ok bool) {
	if s.whole == nil {
		s.whole, s.frames, s.rows = map[string]string{}, map[string]string{}, map[string]map[string]string{}
	}
	if before, known := s.whole[section]; known && before == text {
		return r, false
	}
	s.whole[section] = text
	frame, rows := cut(text)
	if before, known := s.frames[section]; !known || before != frame {
		s.frames[section], r.Frame = frame, &frame
	}
	now := make(map[string]string, len(rows))
	r.Rows = make([]PageRow, len(rows))
	for i, row := range rows {
		id := rowID(row)
		r.Rows[i] = PageRow{ID: id}
		r.Rows[i].Text, r.Rows[i].Cells = differs(s.rows[section][id], row)
		now[id] = row
	}
	s.rows[section] = now
	return r, true
}

// differs returns the update for a row: the row's whole text, or only the cells that differ.
func differs(before, row string) (text string, cells map[int]string) {
	if before == row {
		return "", nil
	}
	was, is := cellsOf(before), cellsOf(row)
	if len(was) != len(is) || was[0] != is[0] || len(is) == 1 {
		return row, nil
	}
	cells = map[int]string{}
	for i := range is[1:] {
		if was[i+1] != is[i+1] {
			cells[i] = is[i+1]
		}
	}
	return "", cells
}

// cellsOf splits a table row into its first tag and its cells. In the HTML, each cell starts on a
// new line.
func cellsOf(row string) []string {
	lines := strings.Split(row, "\n<t")
	for i := range lines[1:] {
		lines[i+1] = "<t" + strings.TrimSuffix(lines[i+1], "\n</tr>")
	}
	return lines
}

// rowsMark ends the tag of an element whose children are rows. Names are escaped, so they cannot
// contain the mark.
const rowsMark = " data-rows>"

var rowTags = map[string]string{"tbody": "tr", "ol": "li", "ul": "li", "dl": "div"}

// cut removes the rows from a section's text. It returns the text around them, and the rows.
func cut(text string) (frame string, rows []string) {
	head, body, ok := strings.Cut(text, rowsMark)
	if !ok {
		return text, nil
	}
	holder, _, _ := strings.Cut(head[strings.LastIndexByte(head, '<')+1:], " ")
	begin, end := "\n<"+rowTags[holder]+` id="`, strings.LastIndex(body, "</"+holder+">")
	at := strings.Index(body, begin)
	if at < 0 || end < at {
		return text, nil
	}
	for row := range strings.SplitSeq(body[at+len(begin):end], begin) {
		// All rows start with the same tag.
		rows = append(rows, begin[1:]+strings.TrimRight(row, "\n"))
	}
	return head + rowsMark + body[:at] + body[end:], rows
}

func rowID(row string) string {
	_, id, _ := strings.Cut(row, ` id="`)
	id, _, _ = strings.Cut(id, `"`)
	return html.UnescapeString(id)
}
