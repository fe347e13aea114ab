package tty

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudo-terminal. Program is the end used by the program under test.
type Terminal struct {
	Program *os.File

	t      testing.TB
	master *os.File
	mu     sync.Mutex
	screen *screen
}

// Open opens a terminal of the given size. It is closed when the test ends. On a system without
// pseudo-terminals, such as a chroot without devpts, the test is skipped.
func Open(t testing.TB, width, height int) *Terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	term := &Terminal{t: t, master: master, screen: newScreen(width, height)}
	var number int
	term.controlFile(master, func(fd int) (err error) {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return err
	})
	term.Program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		_ = master.Close()
		t.Skipf("no pseudo-terminal: %v", err)
	}
	term.setSize(width, height)
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			term.mu.Lock()
			term.screen.write(b[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = term.Program.Close()
		_ = master.SetReadDeadline(time.Unix(1, 0))
		<-read
		_ = master.Close()
		if term.screen.unknownEscape != "" {
			t.Errorf("the screen does not know what was written to it: %q", term.screen.unknownEscape)
		}
	})
	return term
}

func (t *Terminal) controlFile(f *os.File, do func(fd int) error) {
	t.t.Helper()
	c, err := f.SyscallConn()
	if err == nil {
		var failed error
		err = c.Control(func(fd uintptr) { failed = do(int(fd)) })
		if err == nil {
			err = failed
		}
	}
	if err != nil {
		t.t.Fatal(err)
	}
}

func (t *Terminal) setSize(width, height int) {
	t.controlFile(t.master, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(width), Row: uint16(height)})
	})
}

// Resize changes the terminal's size, as if a user resized its window. Content outside the new size
// is lost. The system notifies the program if the terminal is its controlling terminal.
func (t *Terminal) Resize(width, height int) {
	t.mu.Lock()
	t.screen.resize(width, height)
	t.mu.Unlock()
	t.setSize(width, height)
}

// TypeKeys sends keys to the program.
func (t *Terminal) TypeKeys(keys string) {
	t.t.Helper()
	if _, err := t.master.WriteString(keys); err != nil {
		t.t.Fatal(err)
	}
}

// Modes returns the terminal modes that a program must restore: how keys are read, and whether
// input is echoed.
func (t *Terminal) Modes() (modes string) {
	t.controlFile(t.Program, func(fd int) error {
		m, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			modes = fmt.Sprintf("%x %x %x %x %v", m.Iflag, m.Oflag, m.Cflag, m.Lflag, m.Cc)
		}
		return err
	})
	return modes
}

// View is a snapshot of the screen.
type View struct {
	Lines     []string // without trailing spaces
	Colours   bool     // at least one character has a colour or a style
	Alternate bool     // the alternate screen is active
	Cursor    bool     // the cursor is visible
	Wrapped   bool     // output has exceeded a line or the screen since the cursor was last at home
}

// View returns a snapshot of the screen.
func (t *Terminal) View() View {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.view()
}
