package status

import (
	"html"
	"strings"
)

// Renewal is what an open page is sent of a section that reads differently now: the text around its
// rows, where that is another, and the rows in their order.
type Renewal struct {
	Frame *string   `json:"frame,omitempty"`
	Rows  []PageRow `json:"rows,omitempty"`
}

// PageRow is one row of a table. Its text is left out where the page shows it already.
type PageRow struct {
	ID   string `json:"id"`
	Text string `json:"text,omitempty"`
}

// Shown is what one open page shows. The zero value is a page that has been sent nothing.
type Shown struct {
	whole, frames map[string]string            // by section
	rows          map[string]map[string]string // by section and id
}

// Renew returns what the page is to be sent of a section that reads so now, and false if that is
// nothing. The page shows it from then on.
func (s *Shown) Renew(section, text string) (r Renewal, ok bool) {
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
		r.Rows[i].ID = rowID(row)
		if s.rows[section][r.Rows[i].ID] != row {
			r.Rows[i].Text = row
		}
		now[r.Rows[i].ID] = row
	}
	s.rows[section] = now
	return r, true
}

// rowBegin begins a row with an id. No name can imitate it, because names are escaped.
const rowBegin = `<tr id="`

// cut takes the rows with ids out of a section's text, and returns what stands around them.
func cut(text string) (frame string, rows []string) {
	at, end := strings.Index(text, rowBegin), strings.Index(text, "</tbody>")
	if at < 0 || end < at {
		return text, nil
	}
	for row := range strings.SplitSeq(text[at+len(rowBegin):end], rowBegin) {
		rows = append(rows, rowBegin+strings.TrimRight(row, "\n")) // one that was the last is the same before another
	}
	return text[:at] + text[end:], rows
}

// rowID is the id of a row as the page's script knows it.
func rowID(row string) string {
	id, _, _ := strings.Cut(row[len(rowBegin):], `"`)
	return html.UnescapeString(id)
}
