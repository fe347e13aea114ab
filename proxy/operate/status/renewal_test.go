package status

import (
	"fmt"
	"strings"
	"testing"
)

// TestRenewals checks that a page first receives each section, and then only the differences: the
// text of new and changed rows, and the ids of other rows. The text around the rows must be
// included only if it has changed.
func TestRenewals(t *testing.T) {
	const frame = "<table data-sorts><tbody data-rows>%s</tbody></table><p>%s</p>"
	row := func(id, text string) string {
		return "\n" + `<tr id="` + id + `">` + "\n<th>" + id + "</th>\n<td>" + text + "</td>\n</tr>"
	}
	item := func(id, text string) string { return "\n" + `<li id="` + id + `">` + text + "</li>" }
	var page ShownPage
	for i, c := range []struct{ text, want string }{
		{fmt.Sprintf(frame, row("a", "1")+row("b&#34;&lt;", "1"), "x"), "frame a+ b\"<+"},
		{fmt.Sprintf(frame, row("a", "1")+row("b&#34;&lt;", "1"), "x"), "nothing"},
		{fmt.Sprintf(frame, row("c", "1")+row("b&#34;&lt;", "1")+row("a", "2"), "x"), "c+ b\"< a 1=<td>2</td>"},
		{fmt.Sprintf(frame, row("c", "1")+row("a", "2"), "y"), "frame c a"},
		{"<p>none</p>", "frame"},
		{fmt.Sprintf(frame, row("a", "2"), "y"), "frame a+"},
		{"<ol data-rows>" + item("a", "1") + "</ol>", "frame a+"},
		{"<ol data-rows>" + item("b", "<ol></ol>") + item("a", "2") + "</ol>", "b+ a+"},
		{"", "frame"},
		{"", "nothing"},
	} {
		r, ok := page.updateSection("models", c.text)
		var got []string
		if !ok {
			got = append(got, "nothing")
		}
		if r.Frame != nil {
			got = append(got, "frame")
			if strings.Contains(*r.Frame, "<tr") {
				t.Errorf("%d: rows in %s", i, *r.Frame)
			}
		}
		for _, row := range r.Rows {
			if got = append(got, row.ID); row.Text != "" {
				got[len(got)-1] += "+"
			}
			for i, text := range row.Cells {
				got = append(got, fmt.Sprintf("%d=%s", i, text))
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%d: %q, want %q", i, text, c.want)
		}
	}
}

// TestRenewalsAreWhole checks that a page first receives each section in full, and that after one
// new call it receives only a small part.
func TestRenewalsAreWhole(t *testing.T) {
	s := sample()
	s.SetVerdict(nil)
	var page ShownPage
	for _, id := range Sections {
		text, err := s.Section(id)
		if err != nil {
			t.Fatal(err)
		}
		r, _ := page.updateSection(id, text)
		n := len(*r.Frame)
		for _, row := range r.Rows {
			n += len("\n") + len(row.Text)
		}
		if n != len(text) {
			t.Errorf("%s: %d bytes in %d rows, of %d", id, n, len(r.Rows), len(text))
		}
	}
	s.Calls = append([]Call{{ID: "req_new", Start: now, State: "waiting"}}, s.Calls...)
	text, err := s.Section("calls")
	if err != nil {
		t.Fatal(err)
	}
	r, ok := page.updateSection("calls", text)
	if !ok || r.Frame != nil || len(r.Rows) != 5 || r.Rows[0].Text == "" || r.Rows[1].Text+r.Rows[4].Text != "" {
		t.Errorf("renew = %+v, want 5 rows without a frame", r)
	}
}
