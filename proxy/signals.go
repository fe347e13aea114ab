package proxy

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
)

// Shutdown is the operator's wish to end the process, as it comes by SIGTERM and SIGINT: the first signal ends Context and
// the edge drains, the second closes Hurry and what still runs is told so and ended, the third kills the process. It is safe
// for concurrent use.
type Shutdown struct {
	Context context.Context
	Hurry   <-chan struct{}

	signals chan os.Signal
	stopped chan struct{}
	once    sync.Once
	second  atomic.Pointer[syscall.Signal]
}

// OnSignals takes the signals over until Stop.
func OnSignals() *Shutdown {
	ctx, end := context.WithCancel(context.Background())
	hurry := make(chan struct{})
	s := &Shutdown{Context: ctx, Hurry: hurry, signals: make(chan os.Signal, 2), stopped: make(chan struct{})}
	signal.Notify(s.signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		defer end()
		if _, ok := s.next(); !ok {
			return
		}
		end()
		if second, ok := s.next(); ok {
			signal.Stop(s.signals) // a third one finds the system's default
			s.second.Store(&second)
			close(hurry)
		}
	}()
	return s
}

func (s *Shutdown) next() (syscall.Signal, bool) {
	select {
	case sig := <-s.signals:
		number, _ := sig.(syscall.Signal)
		return number, true
	case <-s.stopped:
		return 0, false
	}
}

// Stop gives the signals back.
func (s *Shutdown) Stop() {
	s.once.Do(func() {
		signal.Stop(s.signals)
		close(s.stopped)
	})
}

// Err is nil, or *InterruptedError when a second signal did not let the edge drain.
func (s *Shutdown) Err() error {
	if sig := s.second.Load(); sig != nil {
		return &InterruptedError{Signal: *sig}
	}
	return nil
}

// InterruptedError says that the process was not left the time to drain.
type InterruptedError struct{ Signal syscall.Signal }

func (e *InterruptedError) Error() string {
	return fmt.Sprintf("ended by a second signal (%v) while calls were running", e.Signal)
}

// ExitCode is the shell's for a process that a signal ended: 130 for SIGINT, 143 for SIGTERM.
func (e *InterruptedError) ExitCode() int { return 128 + int(e.Signal) }
