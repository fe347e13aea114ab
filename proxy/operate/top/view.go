package top

import (
	"regexp"
	"time"

	"penstock/proxy/operate/status"
)

// view is the content of the screen.
type view struct {
	state  *status.Status
	tables []status.Table
	failed error // why the newest request failed

	table  int // the index of the shown table
	paused bool
}

func newView(s *status.Status) *view {
	v := new(view)
	v.show(s, nil)
	return v
}

// show takes over the edge's answer.
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

// sequence matches the input of a key without a character, such as an arrow.
var sequence = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|O.)?")

const ctrlC = 3

// press handles typed keys, and reports whether to quit. Unknown keys do nothing.
func (v *view) press(typed []byte) (quit bool) {
	for _, c := range sequence.ReplaceAll(typed, nil) {
		switch {
		case c == 'q', c == ctrlC:
			return true
		case c == '\t':
			v.table = (v.table + 1) % len(v.tables)
		case c == ' ':
			v.paused = !v.paused
		case c >= '1' && c <= '9':
			v.table = min(int(c-'1'), len(v.tables)-1)
		}
	}
	return false
}

// age returns how old the shown state is.
func (v *view) age(now time.Time) time.Duration { return now.Sub(v.state.Now) }
