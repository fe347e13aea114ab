package status

import (
	"html"
	"strings"
)

// SectionUpdate updates one section of an open page.
type SectionUpdate struct {
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

// ShownPage records what an open page shows. The zero value represents a page that has not received
// any updates.
type ShownPage struct {
	sectionTexts, sectionFrames map[string]string            // keyed by section
	rowTexts                    map[string]map[string]string // keyed by section and row id
}

// PageUpdates returns the updates for a page, by section, and records that the page now shows them.
func (s *Status) PageUpdates(page *ShownPage) (map[string]SectionUpdate, error) {
	changed := map[string]SectionUpdate{}
	for _, id := range Sections {
		text, err := s.Section(id)
		if err != nil {
			return nil, err
		}
		if r, ok := page.updateSection(id, text); ok {
			changed[id] = r
		}
	}
	return changed, nil
}

func (s *ShownPage) updateSection(section, text string) (r SectionUpdate, ok bool) {
	if s.sectionTexts == nil {
		s.sectionTexts, s.sectionFrames, s.rowTexts = map[string]string{}, map[string]string{}, map[string]map[string]string{}
	}
	if before, known := s.sectionTexts[section]; known && before == text {
		return r, false
	}
	s.sectionTexts[section] = text
	frame, rows := splitRows(text)
	if before, known := s.sectionFrames[section]; !known || before != frame {
		s.sectionFrames[section], r.Frame = frame, &frame
	}
	now := make(map[string]string, len(rows))
	r.Rows = make([]PageRow, len(rows))
	for i, row := range rows {
		id := parseRowID(row)
		r.Rows[i] = PageRow{ID: id}
		r.Rows[i].Text, r.Rows[i].Cells = diffRow(s.rowTexts[section][id], row)
		now[id] = row
	}
	s.rowTexts[section] = now
	return r, true
}

// diffRow returns the update for a row: the row's whole text, or only the cells that differ.
func diffRow(before, row string) (text string, cells map[int]string) {
	if before == row {
		return "", nil
	}
	was, is := splitCells(before), splitCells(row)
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

// splitCells splits a table row into its first tag and its cells. In the HTML, each cell starts on
// a new line.
func splitCells(row string) []string {
	lines := strings.Split(row, "\n<t")
	for i := range lines[1:] {
		lines[i+1] = "<t" + strings.TrimSuffix(lines[i+1], "\n</tr>")
	}
	return lines
}

// rowsMarker ends the tag of an element whose children are rows. Names are escaped, so they cannot
// contain the marker.
const rowsMarker = " data-rows>"

var rowTagByListTag = map[string]string{"tbody": "tr", "ol": "li", "ul": "li", "dl": "div"}

// splitRows removes the rows from a section's text. It returns the text around the rows, and the
// rows.
func splitRows(text string) (frame string, rows []string) {
	head, body, ok := strings.Cut(text, rowsMarker)
	if !ok {
		return text, nil
	}
	holder, _, _ := strings.Cut(head[strings.LastIndexByte(head, '<')+1:], " ")
	begin, end := "\n<"+rowTagByListTag[holder]+` id="`, strings.LastIndex(body, "</"+holder+">")
	at := strings.Index(body, begin)
	if at < 0 || end < at {
		return text, nil
	}
	for row := range strings.SplitSeq(body[at+len(begin):end], begin) {
		// All rows start with the same tag.
		rows = append(rows, begin[1:]+strings.TrimRight(row, "\n"))
	}
	return head + rowsMarker + body[:at] + body[end:], rows
}

func parseRowID(row string) string {
	_, id, _ := strings.Cut(row, ` id="`)
	id, _, _ = strings.Cut(id, `"`)
	return html.UnescapeString(id)
}
