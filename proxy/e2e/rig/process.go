package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"penstock/config/testkit/raced"
)

// initialEnv is the environment before any test changes it. If a test has changed HOME, the build would
// otherwise start with an empty cache.
var initialEnv = os.Environ()

// builtFolder contains the folder with the program, once a test has called ProgramPath.
var builtFolder struct {
	sync.Once
	dir string
	err error
}

// ProgramPath returns the path of the program. The first call builds it.
func ProgramPath(t testing.TB) string {
	t.Helper()
	builtFolder.Do(func() {
		//nolint:usetesting // it is for all tests of the package
		if builtFolder.dir, builtFolder.err = os.MkdirTemp("", "penstock-rig-"); builtFolder.err != nil {
			return
		}
		args := []string{"build", "-o", filepath.Join(builtFolder.dir, "penstock")}
		if raced.Enabled {
			// With the tag "testing", the program exits if a lease is released twice.
			args = append(args, "-race", "-tags", "testing")
		}
		build := exec.Command("go", append(args, "penstock")...)
		build.Env = initialEnv
		if out, err := build.CombinedOutput(); err != nil {
			builtFolder.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if builtFolder.err != nil {
		t.Fatalf("build the program: %v", builtFolder.err)
	}
	return filepath.Join(builtFolder.dir, "penstock")
}

func removeBinary() {
	if builtFolder.dir != "" {
		_ = os.RemoveAll(builtFolder.dir)
	}
}

// CleanEnv returns the environment without variables that configure the program.
func CleanEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PENSTOCK_") {
			env = append(env, v)
		}
	}
	return env
}

// Command returns a command for the program with arguments, in a clean environment.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(ProgramPath(t), args...)
	cmd.Env = CleanEnv()
	return cmd
}

// RunProgram runs the program until it exits. It must exit within three minutes.
func RunProgram(t testing.TB, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	path := ProgramPath(t) // called first, so that the build time does not count
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = CleanEnv()
	var out, errs Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// Process is a running program.
type Process struct {
	Cmd  *exec.Cmd
	Out  *Buffer
	Err  *Buffer       // standard error, including the log; empty if the command redirects it to a file
	Done chan struct{} // closed when the program has exited
	t    testing.TB
}

// StartProcess starts the program with args. If the program is still running when the test ends, it
// is killed.
func StartProcess(t testing.TB, args ...string) *Process {
	t.Helper()
	return StartCommand(t, Command(t, args...))
}

// StartCommand is like StartProcess, but runs the given command. It captures standard output and
// standard error, unless the command has set them.
func StartCommand(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, Cmd: cmd, Out: new(Buffer), Err: new(Buffer), Done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.Out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.Err
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.Done)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.Done
	})
	return p
}

// WaitOutput waits until standard output matches pattern, and returns the submatches.
func (p *Process) WaitOutput(pattern string) []string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	var m []string
	WaitFor(p.t, 2*WaitTimeout, "the program says "+pattern, func() bool {
		ended := p.HasExited()
		if m = re.FindStringSubmatch(p.Out.String()); m == nil && ended {
			p.t.Fatalf("the program has ended with %v and does not say %s:\n%s%s", p.Cmd.ProcessState, pattern, p.Out, p.Err)
		}
		return m != nil
	})
	return m
}

// WantExit waits until the program exits, and checks the exit code. If limit is WaitTimeout, the
// program must exit immediately. Any other limit is the duration of a drain.
func (p *Process) WantExit(limit time.Duration, code int) {
	p.t.Helper()
	begun := StartWatch()
	for !p.HasExited() && !begun.exceeds(limit) {
		select {
		case <-p.Done:
		case <-time.After(100 * time.Millisecond):
		}
	}
	switch {
	case !p.HasExited():
		p.t.Errorf("still running after %v", begun.Elapsed())
		p.Signal(syscall.SIGQUIT)
		<-p.Done
	case limit == WaitTimeout:
		begun.WantImmediate(p.t, "the program exits")
	}
	if got := p.Cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit code %d, want %d\n%.4000s", got, code, p.Err)
	}
}

// HasExited reports whether the program has exited.
func (p *Process) HasExited() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Signal sends s to the program, if it is still running.
func (p *Process) Signal(s os.Signal) { _ = p.Cmd.Process.Signal(s) }
