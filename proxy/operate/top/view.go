package top

import (
	"regexp"
	"time"

	"penstock/proxy/operate/status"
)

type view struct {
	state  *status.Status
	tables []status.Table
	failed error

	table  int
	paused bool
}

func newView(s *status.Status) *view {
	v := new(view)
	v.show(s, nil)
	return v
}

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

// sequence matches the input from a key that is not a character, such as an arrow.
var sequence = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|O.)?")

const ctrlC = 3

// press handles typed keys, and reports whether to quit. It ignores unknown keys.
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

func (v *view) age(now time.Time) time.Duration { return now.Sub(v.state.Now) }
