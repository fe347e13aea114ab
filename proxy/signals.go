package proxy

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"

	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/process"
)

// ShutdownSignals handles SIGTERM and SIGINT. The first signal cancels Context, and the edge
// drains. The second signal closes Hurry, which ends calls that are still running with an error.
// The third signal kills the process.
//
// SIGQUIT and SIGABRT write every goroutine's stack to stderr and end the process without a drain.
// A service manager sends SIGABRT to a process that hangs. Shutdown is safe for concurrent use.
type ShutdownSignals struct {
	Context context.Context
	Hurry   <-chan struct{}

	guard        *guard.Guard // the process's guard; created here, because Shutdown is the first to need it
	signals      chan os.Signal
	quitSignals  chan os.Signal
	stopped      chan struct{}
	once         sync.Once
	firstSignal  atomic.Pointer[syscall.Signal]
	secondSignal atomic.Pointer[syscall.Signal]
}

// interruptedFromTerminal reports whether a user ended the edge with Ctrl-C in its terminal.
func (s *ShutdownSignals) interruptedFromTerminal() bool {
	first := s.firstSignal.Load()
	return first != nil && *first == syscall.SIGINT && term.IsTerminal(int(os.Stdin.Fd()))
}

// HandleSignals handles the signals until Stop is called. exit must end the process immediately.
func HandleSignals(exit func(code int)) *ShutdownSignals {
	ctx, end := context.WithCancel(context.Background())
	hurry := make(chan struct{})
	s := &ShutdownSignals{
		Context: ctx, Hurry: hurry, guard: guard.New(), signals: make(chan os.Signal, 2),
		quitSignals: make(chan os.Signal, 1), stopped: make(chan struct{}),
	}
	signal.Notify(s.signals, syscall.SIGTERM, os.Interrupt)
	signal.Notify(s.quitSignals, syscall.SIGQUIT, syscall.SIGABRT)
	go s.guard.RunWithRecover(guard.PlaceShutdown, func() {
		if sig, ok := s.nextSignal(s.quitSignals); ok {
			defer exit(signalExitBase + int(sig))
			s.guard.PanicIfInjected("shutdown.quit")
			_ = process.WriteGoroutineStacks(os.Stderr) // an error from stderr cannot be reported anywhere
		}
	})
	go s.guard.Loop(s.stopped, guard.PlaceShutdown, func() {
		first, ok := s.nextSignal(s.signals)
		if ok {
			s.firstSignal.Store(&first)
		}
		end()
		s.guard.PanicIfInjected("shutdown.signal")
		if !ok {
			return
		}
		second, ok := s.nextSignal(s.signals)
		for ok && second == syscall.SIGHUP { // a closing terminal sends SIGHUP twice
			second, ok = s.nextSignal(s.signals)
		}
		if ok {
			signal.Stop(s.signals) // from now on, signals have their default effect
			s.secondSignal.Store(&second)
			close(hurry)
		}
	})
	return s
}

// HandleHangup adds SIGHUP to the signals that end the process. It is used for an edge without a
// configuration file, which should drain when its terminal is closed. A process that was started
// with SIGHUP ignored (nohup) still ignores it.
func (s *ShutdownSignals) HandleHangup() {
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(s.signals, syscall.SIGHUP)
	}
}

func (s *ShutdownSignals) nextSignal(signals <-chan os.Signal) (syscall.Signal, bool) {
	select {
	case sig := <-signals:
		number, _ := sig.(syscall.Signal)
		return number, true
	case <-s.stopped:
		return 0, false
	}
}

// Stop stops handling the signals.
func (s *ShutdownSignals) Stop() {
	s.once.Do(func() {
		signal.Stop(s.signals)
		signal.Stop(s.quitSignals)
		close(s.stopped)
	})
}

// Err returns an *InterruptedError if a second signal has ended calls. cut is the number of calls
// that the second signal has ended.
func (s *ShutdownSignals) Err(cut int64) error {
	if sig := s.secondSignal.Load(); sig != nil && cut > 0 {
		return &InterruptedError{Signal: *sig, Calls: cut}
	}
	return nil
}

// InterruptedError means that a second signal ended the drain early.
type InterruptedError struct {
	Signal syscall.Signal
	Calls  int64
}

func (e *InterruptedError) Error() string {
	calls := fmt.Sprintf("%d calls were", e.Calls)
	if e.Calls == 1 {
		calls = "1 call was"
	}
	return fmt.Sprintf("ended by a second signal (%v) while %s running", e.Signal, calls)
}

// Logged returns true, because the edge's log already contains the error.
func (e *InterruptedError) Logged() bool { return true }

// ExitCode returns the code that a shell reports: 130 for SIGINT and 143 for SIGTERM.
func (e *InterruptedError) ExitCode() int { return signalExitBase + int(e.Signal) }

// If a signal ends a process, the exit code is signalExitBase plus the signal number.
const signalExitBase = 128
