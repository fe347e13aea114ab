package proxy

import (
	"errors"
	"syscall"
	"testing"
)

// The first signal drains and the second insists, but for a SIGHUP: a terminal that is closed sends it twice.
func TestSecondSignal(t *testing.T) {
	s := OnSignals(func(code int) { t.Errorf("exit with %d", code) })
	defer s.Stop()
	s.signals <- syscall.SIGHUP
	<-s.Context.Done()
	if err := s.Err(); err != nil {
		t.Errorf("after the first signal: %v", err)
	}
	s.signals <- syscall.SIGHUP
	s.signals <- syscall.SIGTERM
	<-s.Hurry
	var interrupted *InterruptedError
	if !errors.As(s.Err(), &interrupted) || interrupted.Signal != syscall.SIGTERM || interrupted.ExitCode() != 143 {
		t.Errorf("the edge was hurried by %v", s.Err())
	}
}
