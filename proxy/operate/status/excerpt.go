package status

import "fmt"

// RowRange selects the rows of the long lists. If there are thousands of rows, the whole state
// would be megabytes long.
type RowRange struct{ Limit, Offset int }

// DefaultRowLimit is the number of rows shown by default.
const DefaultRowLimit = 200

// ListExcerpt describes which rows of a list a response contains.
type ListExcerpt struct {
	Total  int `json:"total"`
	Offset int `json:"offset"`
	Rows   int `json:"rows"`
}

// String describes the rows. For example, it returns "rows 201 to 400 of 1000, those in trouble
// first".
func (e *ListExcerpt) String() string {
	if e.Rows == 0 {
		return fmt.Sprintf("no rows from %d on, of %d", e.Offset+1, e.Total)
	}
	return fmt.Sprintf("rows %d to %d of %d, those in trouble first", e.Offset+1, e.Offset+e.Rows, e.Total)
}

// SelectRows removes the rows outside p from each of the long lists. It does not change statements
// about all rows, such as the verdict.
func (s *Status) SelectRows(p RowRange) {
	s.Excerpts = map[string]*ListExcerpt{}
	s.Models = excerptRows(s, "models", s.Models, s.ModelRows, p)
	s.Upstreams = excerptRows(s, "upstreams", s.Upstreams, s.UpstreamRows, p)
	s.Keys = excerptRows(s, "keys", s.Keys, s.KeyRows, p)
}

func excerptRows[T any](s *Status, list string, all []T, ranked func() []*T, p RowRange) []T {
	if p.Offset == 0 && len(all) <= p.Limit {
		return all
	}
	rows := ranked()
	rows = rows[min(p.Offset, len(rows)):]
	rows = rows[:min(p.Limit, len(rows))]
	out := make([]T, 0, len(rows))
	for _, r := range rows {
		out = append(out, *r)
	}
	s.Excerpts[list] = &ListExcerpt{Total: len(all), Offset: p.Offset, Rows: len(out)}
	return out
}
