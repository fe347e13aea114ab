package status

import (
	"fmt"
	"strings"
	"testing"

	"penstock/upstreams"
)

// TestSelectRows checks that a long list is split into parts that start with the rows that have a
// problem, and that each row is in exactly one part.
func TestSelectRows(t *testing.T) {
	edge := func() *Status {
		s := &Status{Models: []Model{{ID: "m", State: ModelServed}}}
		for i := range 450 {
			u := Upstream{Status: upstreams.Status{Label: fmt.Sprint("u", i), State: "up", Mode: "ready", Breaker: "closed"}}
			if i == 449 {
				u.State = "down"
			}
			s.Upstreams = append(s.Upstreams, u)
			s.Keys = append(s.Keys, Key{ID: fmt.Sprint("k", i), Refused: i / 449})
		}
		return s
	}
	seen := map[string]bool{}
	for offset, rows := range map[int]int{0: 200, 200: 200, 400: 50, 600: 0} {
		s := edge()
		s.SelectRows(RowRange{Limit: 200, Offset: offset})
		if len(s.Upstreams) != rows || len(s.Keys) != rows {
			t.Errorf("from %d on: %d upstreams, %d keys, want %d", offset, len(s.Upstreams), len(s.Keys), rows)
		}
		for i := range s.Upstreams {
			seen[s.Upstreams[i].Label] = true
		}
		if e := s.Excerpts["keys"]; *e != (ListExcerpt{Total: 450, Offset: offset, Rows: rows}) {
			t.Errorf("excerpt of keys = %+v, want %d rows of 450 from %d", e, rows, offset)
		}
		if offset == 0 {
			if s.Upstreams[0].Label != "u449" || s.Keys[0].ID != "k449" || len(s.Models) != 1 || s.Excerpts["models"] != nil {
				t.Errorf("first are %s and %s; models %v", s.Upstreams[0].Label, s.Keys[0].ID, s.Excerpts["models"])
			}
			page, err := s.Page()
			if err != nil || !strings.Contains(string(page), "rows 1 to 200 of 450, those in trouble first.") {
				t.Errorf("the page does not say that there are more: %v", err)
			}
			if tables := s.Tables(); tables[1].Total != 450 || len(tables[1].Rows) != 200 {
				t.Errorf("a table of %d rows says that there are %d", len(tables[1].Rows), tables[1].Total)
			}
		}
	}
	if len(seen) != 450 {
		t.Errorf("%d upstreams are in one of the parts", len(seen))
	}
	s := edge()
	if s.SelectRows(RowRange{Limit: 450}); s.Upstreams[0].Label != "u0" || len(s.Excerpts) != 0 {
		t.Error("lists that fit were changed")
	}
}
