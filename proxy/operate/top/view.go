package top

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"penstock/proxy/operate/status"
)

// view is what somebody looks at, and how.
type view struct {
	state  *status.Status
	tables []status.Table
	failed error // why the newest question has no answer

	table  int // that is shown
	looks  map[string]*look
	filter string
	typing bool // the filter
	paused bool
	help   bool

	page int // rows that fit
}

// look is how a table is shown.
type look struct {
	sort     int // column; unsorted: what needs an operator first
	reversed bool
	chosen   string // row; none: the first one
	at, top  int    // the chosen row's place, and the first one on the screen
	columns  []int  // on the screen
}

const unsorted = -1

func newView(s *status.Status) *view {
	v := &view{looks: map[string]*look{}, page: 1}
	v.show(s, nil)
	return v
}

// show takes what the edge has answered.
func (v *view) show(s *status.Status, err error) {
	if v.paused {
		return
	}
	if v.failed = err; err != nil {
		return
	}
	v.state, v.tables = s, s.Tables()
	v.table = min(v.table, len(v.tables)-1)
}

// current is the table that is shown.
func (v *view) current() (*status.Table, *look) {
	t := &v.tables[v.table]
	l := v.looks[t.Name]
	if l == nil {
		l = &look{sort: unsorted}
		v.looks[t.Name] = l
	}
	return t, l
}

// rows are the rows of the shown table that pass the filter, in order.
func (v *view) rows() []status.Row {
	t, l := v.current()
	rows := slices.Clone(t.Rows)
	if v.filter != "" {
		rows = slices.DeleteFunc(rows, func(r status.Row) bool { return !v.passes(&r) })
	}
	if l.sort != unsorted {
		number := t.Columns[l.sort].Number
		slices.SortStableFunc(rows, func(a, b status.Row) int {
			x, y := &a.Cells[l.sort], &b.Cells[l.sort]
			order := cmp.Compare(strings.ToLower(x.Text), strings.ToLower(y.Text))
			if number {
				order = cmp.Compare(y.Value, x.Value) // the most first
			}
			if l.reversed {
				return -order
			}
			return order
		})
	}
	l.find(rows)
	return rows
}

func (v *view) passes(r *status.Row) bool {
	has := func(text string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(v.filter)) }
	return has(r.ID) || has(r.Why) || slices.ContainsFunc(r.Cells, func(c status.Cell) bool { return has(c.Text) })
}

// find puts the choice where its row is now. A row that is gone leaves it at its place.
func (l *look) find(rows []status.Row) {
	if l.chosen == "" {
		l.at = 0
	} else if i := slices.IndexFunc(rows, func(r status.Row) bool { return r.ID == l.chosen }); i >= 0 {
		l.at = i
	}
	l.at = max(0, min(l.at, len(rows)-1))
}

// press does what a key is for, and reports whether that is to quit.
func (v *view) press(k key) (quit bool) {
	switch {
	case k == keyCtrlC:
		return true
	case v.typing:
		v.edit(k)
		return false
	case v.help:
		v.help = false
		return k == 'q'
	case k >= '1' && k <= '9':
		v.table = min(int(k-'1'), len(v.tables)-1)
		return false
	}
	_, l := v.current()
	switch k { //nolint:exhaustive // other keys do nothing here
	case 'q', keyEscape:
		return true
	case '\t':
		v.table = (v.table + 1) % len(v.tables)
	case 's', keyRight, '>':
		l.sortBy(1)
	case 'S', keyLeft, '<':
		l.sortBy(-1)
	case 'r':
		l.reversed = !l.reversed
	case '/':
		v.typing = true
	case ' ', 'p':
		v.paused = !v.paused
	case '?', 'h':
		v.help = true
	case keyDown, 'j':
		v.move(1)
	case keyUp, 'k':
		v.move(-1)
	case keyPageDown:
		v.move(v.page)
	case keyPageUp:
		v.move(-v.page)
	case keyHome, 'g':
		l.chosen, l.at = "", 0
	case keyEnd, 'G':
		v.move(len(v.tables[v.table].Rows))
	}
	return false
}

// edit changes the filter.
func (v *view) edit(k key) {
	switch {
	case k == keyEnter:
		v.typing = false
	case k == keyEscape:
		v.typing, v.filter = false, ""
	case k == keyErase:
		if r := []rune(v.filter); len(r) > 0 {
			v.filter = string(r[:len(r)-1])
		}
	case k > 0 && unicode.IsPrint(rune(k)):
		v.filter += string(rune(k))
	}
}

// move moves the choice by some rows.
func (v *view) move(by int) {
	_, l := v.current()
	rows := v.rows()
	if len(rows) == 0 {
		return
	}
	l.at = max(0, min(l.at+by, len(rows)-1))
	l.chosen = rows[l.at].ID
}

// sortBy sorts by the next column on the screen, or the one before; beyond the last one nothing is
// sorted.
func (l *look) sortBy(step int) {
	at := slices.Index(l.columns, l.sort) + step // -1, what is not found, is in front of the first
	switch n := len(l.columns); {
	case at == n || at == -1:
		l.sort = unsorted
	case at < -1:
		l.sort = l.columns[n-1]
	default:
		l.sort = l.columns[at]
	}
	l.reversed = false
}

// age is how old the shown state is.
func (v *view) age(now time.Time) time.Duration { return now.Sub(v.state.Now) }
