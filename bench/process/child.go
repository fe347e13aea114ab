package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// ReadyTimeout is how long a child process may take to become ready.
const ReadyTimeout = 30 * time.Second

// Child is a child process. It runs until it exits or Kill is called. On some systems (see
// bindChild), it also ends when this process is killed.
type Child struct {
	name string
	Cmd  *exec.Cmd
	Last *stderrTail
	Done chan struct{} // closed when the process has ended
}

// Start runs a program and waits until ready accepts a line on the program's standard output. If
// ready is nil, Start does not wait. If on is not nil, the program runs only on these CPUs.
func Start(ctx context.Context, name string, argv []string, on []int, ready func(line string) bool) (*Child, error) {
	c := &Child{name: name, Cmd: exec.Command(argv[0], argv[1:]...), Last: &stderrTail{}, Done: make(chan struct{})} //nolint:gosec // our own command lines
	c.Cmd.Env = childEnv()
	c.Cmd.Stderr = c.Last
	bindChild(c.Cmd)
	out, err := c.Cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started, said := make(chan error, 1), make(chan struct{})
	go func() {
		// The child ends when the thread that started it ends, so this thread must exist until the
		// child has exited.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := startPinned(c.Cmd, on)
		if started <- err; err != nil {
			return
		}
		defer close(c.Done)
		lines, waiting := bufio.NewScanner(out), ready != nil
		for lines.Scan() {
			if waiting && ready(lines.Text()) {
				waiting = false
				close(said)
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = c.Cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if ready == nil {
		return c, nil
	}
	patience := time.NewTimer(ReadyTimeout)
	defer patience.Stop()
	select {
	case <-said:
		return c, nil
	case <-c.Done:
		return nil, fmt.Errorf("start %s: it ended at once: %s", name, c.Last)
	case <-patience.C:
		err = errors.New("it did not become ready")
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.Kill()
	return nil, fmt.Errorf("start %s: %w", name, err)
}

// startPinned starts a process on the given CPUs. The calling goroutine must be locked to its
// thread, because the process inherits the thread's CPUs.
func startPinned(cmd *exec.Cmd, on []int) error {
	if on == nil {
		return cmd.Start()
	}
	undo, err := pinThread(on)
	if err != nil {
		return err
	}
	defer undo()
	return cmd.Start()
}

// childEnv returns the environment without the variables that configure this program.
func childEnv() []string {
	var out []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PENSTOCK_") {
			out = append(out, kv)
		}
	}
	return out
}

// Kill kills the process and its descendants, and waits until the process has ended. Kill may be
// called more than once.
func (c *Child) Kill() {
	select {
	case <-c.Done: // the process has exited, and its id may have been reused
		return
	default:
	}
	killChild(c.Cmd.Process)
	<-c.Done
}

// stderrTail is a writer that stores the end of what a process writes to stderr.
type stderrTail struct {
	mu  sync.Mutex
	buf []byte
}

// Write implements io.Writer. It stores only the last KiB.
func (l *stderrTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, p...)
	if len(l.buf) > 1024 {
		l.buf = append(l.buf[:0], l.buf[len(l.buf)-1024:]...)
	}
	return len(p), nil
}

func (l *stderrTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.buf))
}
