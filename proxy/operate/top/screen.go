package top

import (
	"bytes"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// The sequences switch to the alternate screen, which preserves the terminal's previous content.
// They also disable wrapping, because a character may be wider than expected.
const (
	enterScreenSeq = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveScreenSeq = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
	cursorHomeSeq  = "\x1b[H"
	clearLineSeq   = "\x1b[K"
	clearBelowSeq  = "\x1b[J"
	resetStyleSeq  = "\x1b[0m"
)

// lineStyle is the escape sequence for a line's style. The style only repeats the meaning of the text.
type lineStyle string

const (
	styleNone     lineStyle = ""
	styleOut      lineStyle = "\x1b[31m"
	styleOK       lineStyle = "\x1b[32m"
	styleDegraded lineStyle = "\x1b[33m"
	styleDim      lineStyle = "\x1b[2m"
	styleHead     lineStyle = "\x1b[1m"
)

// frameLine is one line of a frame, no wider than the terminal and without control characters.
type frameLine struct {
	text  string
	style lineStyle
}

type screen struct {
	in, out   *os.File
	readsKeys bool            // whether single keys can be read
	resized   <-chan struct{} // signals that the size may have changed

	savedState *term.State
	restore    []func()
}

func openScreen(in, out *os.File) (*screen, error) {
	s := &screen{in: in, out: out}
	if in != nil && withDescriptor(in, term.IsTerminal) {
		var err error
		withDescriptor(in, func(fd int) bool { s.savedState, err = term.MakeRaw(fd); return true })
		if err != nil {
			return nil, err
		}
		s.readsKeys = true
	}
	s.restore = append(s.restore, prepareOutput(out))
	resized, stop := watchSize()
	s.resized, s.restore = resized, append(s.restore, stop)
	_, err := out.WriteString(enterScreenSeq)
	if err != nil {
		s.close()
	}
	return s, err
}

// close ignores errors, because there is nothing to restore if the terminal is gone.
func (s *screen) close() {
	_, _ = s.out.WriteString(leaveScreenSeq)
	if s.savedState != nil {
		withDescriptor(s.in, func(fd int) bool { return term.Restore(fd, s.savedState) == nil })
		_ = s.in.SetReadDeadline(time.Unix(1, 0)) // ends a blocked read if the file supports deadlines
	}
	for _, f := range s.restore {
		f()
	}
}

func (s *screen) size() (width, height int) {
	withDescriptor(s.out, func(fd int) bool {
		var err error
		width, height, err = term.GetSize(fd)
		return err == nil
	})
	if width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

func (s *screen) draw(frame func(width, height int) []frameLine, colour bool) error {
	var b bytes.Buffer
	b.WriteString(cursorHomeSeq)
	for i, l := range frame(s.size()) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		if colour && l.style != styleNone {
			b.WriteString(string(l.style) + l.text + resetStyleSeq)
		} else {
			b.WriteString(strings.TrimRight(l.text, " "))
		}
		b.WriteString(clearLineSeq)
	}
	b.WriteString(clearBelowSeq)
	_, err := s.out.Write(b.Bytes())
	return err
}

// withDescriptor calls f with the file's descriptor. os.File.Fd would disable the file's deadlines.
func withDescriptor(file *os.File, f func(fd int) bool) (ok bool) {
	c, err := file.SyscallConn()
	if err != nil {
		return false
	}
	err = c.Control(func(fd uintptr) { ok = f(int(fd)) })
	return ok && err == nil
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(file *os.File) bool { return withDescriptor(file, term.IsTerminal) }
