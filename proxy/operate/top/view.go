package top

import (
	"regexp"
	"time"

	"penstock/proxy/operate/status"
)

type view struct {
	state   *status.Status
	tables  []status.Table
	lastErr error

	tableIndex int
	paused     bool
}

func newView(s *status.Status) *view {
	v := new(view)
	v.setState(s, nil)
	return v
}

func (v *view) setState(s *status.Status, err error) {
	if v.paused {
		return
	}
	if v.lastErr = err; err != nil {
		return
	}
	v.state, v.tables = s, s.Tables()
	v.tableIndex = min(v.tableIndex, len(v.tables)-1)
}

// escapeSequence matches the input from a key that is not a character, such as an arrow.
var escapeSequence = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|O.)?")

const ctrlC = 3

// handleKeys handles typed keys, and reports whether to quit. It ignores unknown keys.
func (v *view) handleKeys(typed []byte) (quit bool) {
	for _, c := range escapeSequence.ReplaceAll(typed, nil) {
		switch {
		case c == 'q', c == ctrlC:
			return true
		case c == '\t':
			v.tableIndex = (v.tableIndex + 1) % len(v.tables)
		case c == ' ':
			v.paused = !v.paused
		case c >= '1' && c <= '9':
			v.tableIndex = min(int(c-'1'), len(v.tables)-1)
		}
	}
	return false
}

func (v *view) statusAge(now time.Time) time.Duration { return now.Sub(v.state.Now) }
