package tty

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// screenCell is a cell of the screen. A wide character is followed by an empty cell.
type screenCell struct {
	text  string
	style string
}

type screen struct {
	width, height int
	cells         [][]screenCell
	mainScreen    [][]screenCell // the main screen while a program uses the alternate screen
	row, column   int
	style         string
	alternate     bool
	hidden        bool // the cursor is hidden
	noWrap        bool // lines are truncated instead of wrapped
	wrapped       bool
	partialInput  []byte
	unknownEscape string
}

func newScreen(width, height int) *screen {
	s := &screen{width: width, height: height}
	s.cells = s.blankCells()
	return s
}

func (s *screen) blankCells() [][]screenCell {
	rows := make([][]screenCell, s.height)
	for i := range rows {
		rows[i] = make([]screenCell, s.width)
	}
	return rows
}

func (s *screen) resize(width, height int) {
	old := s.cells
	s.width, s.height = width, height
	s.cells = s.blankCells()
	for i := range min(len(old), height) {
		copy(s.cells[i], old[i])
	}
	s.row, s.column = min(s.row, height-1), min(s.column, width-1)
}

func (s *screen) write(b []byte) {
	b = append(s.partialInput, b...)
	for len(b) > 0 {
		n := 0
		if b[0] == 0x1b {
			n = s.runEscapeSequence(b)
		} else if utf8.FullRune(b) {
			var r rune
			r, n = utf8.DecodeRune(b)
			s.putRune(r)
		}
		if n == 0 {
			break
		}
		b = b[n:]
	}
	s.partialInput = append([]byte(nil), b...)
}

// runEscapeSequence executes an escape sequence and returns its length, or 0 if the sequence is
// incomplete.
func (s *screen) runEscapeSequence(b []byte) int {
	if len(b) < 3 {
		return 0
	}
	end := strings.IndexFunc(string(b[2:]), func(r rune) bool { return r >= 0x40 && r <= 0x7e })
	if b[1] != '[' || end < 0 {
		if b[1] != '[' {
			s.unknownEscape = string(b)
			return len(b)
		}
		return 0
	}
	n := end + 3
	what := string(b[2:n])
	switch what {
	case "H":
		s.row, s.column, s.wrapped = 0, 0, false
	case "K":
		clear(s.cells[s.row][min(s.column, s.width):])
	case "J":
		clear(s.cells[s.row][min(s.column, s.width):])
		for _, row := range s.cells[s.row+1:] {
			clear(row)
		}
	case "?1049h":
		s.mainScreen, s.alternate = s.cells, true
		s.cells = s.blankCells()
	case "?1049l":
		s.cells, s.alternate = s.mainScreen, false
		s.resize(s.width, s.height)
	case "?25l", "?25h":
		s.hidden = what == "?25l"
	case "?7l", "?7h":
		s.noWrap = what == "?7l"
	case "0m":
		s.style = ""
	default:
		if _, err := strconv.Atoi(strings.TrimSuffix(what, "m")); err != nil || !strings.HasSuffix(what, "m") {
			s.unknownEscape = fmt.Sprintf("ESC [ %s", what)
		}
		s.style += what
	}
	return n
}

func (s *screen) putRune(r rune) {
	switch {
	case r == '\r':
		s.column = 0
	case r == '\n':
		if s.row == s.height-1 {
			s.wrapped = true
			s.cells = append(s.cells[1:], make([]screenCell, s.width))
			return
		}
		s.row++
	case unicode.IsControl(r):
		s.unknownEscape = string(r)
	case unicode.Is(unicode.Mn, r):
		if s.column > 0 {
			s.cells[s.row][s.column-1].text += string(r)
		}
	default:
		n := 1
		if unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) || r > 0x1f000 {
			n = 2
		}
		if s.column+n > s.width {
			s.wrapped = true
			if s.noWrap {
				s.column = s.width - n
			} else {
				s.putRune('\r')
				s.putRune('\n')
			}
		}
		s.cells[s.row][s.column] = screenCell{string(r), s.style}
		for i := 1; i < n; i++ {
			s.cells[s.row][s.column+i] = screenCell{"", "wide"}
		}
		s.column += n
	}
}

func (s *screen) view() View {
	v := View{Alternate: s.alternate, Cursor: !s.hidden, Wrapped: s.wrapped}
	for _, row := range s.cells {
		var line strings.Builder
		for _, c := range row {
			switch {
			case c.text == "" && c.style != "wide":
				line.WriteByte(' ')
			default:
				line.WriteString(c.text)
			}
			if c.style != "" && c.style != "wide" {
				v.Colours = true
			}
		}
		v.Lines = append(v.Lines, strings.TrimRight(line.String(), " "))
	}
	return v
}
