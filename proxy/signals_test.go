package proxy

import (
	"errors"
	"syscall"
	"testing"
)

// TestSecondSignal checks that the first signal starts a drain and the second signal shortens it. A
// second SIGHUP is ignored, because a closing terminal sends SIGHUP twice.
func TestSecondSignal(t *testing.T) {
	s := HandleSignals(func(code int) { t.Errorf("exit with %d", code) })
	defer s.Stop()
	s.signals <- syscall.SIGHUP
	<-s.Context.Done()
	if err := s.Err(3); err != nil {
		t.Errorf("after the first signal: %v", err)
	}
	s.signals <- syscall.SIGHUP
	s.signals <- syscall.SIGTERM
	<-s.Hurry
	var interrupted *InterruptedError
	if err := s.Err(1); !errors.As(err, &interrupted) || interrupted.Signal != syscall.SIGTERM || interrupted.ExitCode() != 143 ||
		err.Error() != "ended by a second signal (terminated) while 1 call was running" {
		t.Errorf("the edge was hurried by %v", err)
	}
	if err := s.Err(0); err != nil {
		t.Errorf("with nothing that ran: %v", err)
	}
}
