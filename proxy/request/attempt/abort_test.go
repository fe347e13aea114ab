package attempt

import (
	"errors"
	"testing"
)

// TestAbort checks that only the first cause counts, and that Cancel reaches waits and shadows, no
// matter whether they began before or after Cancel.
func TestAbort(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	isClosed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	var a, shadow, detached, late Canceler
	done, ok := a.Done()
	if !ok || isClosed(done) || a.Cause() != nil {
		t.Fatalf("before Cancel: ok %t, closed %t, cause %v", ok, isClosed(done), a.Cause())
	}
	a.AttachShadow(&detached)
	a.DetachShadow()
	a.AttachShadow(&shadow)
	a.Cancel(first)
	a.Cancel(second)
	if a.Cause() != first || !isClosed(done) {
		t.Errorf("after Cancel: the cause is %v, closed %t, want the first one", a.Cause(), isClosed(done))
	}
	if _, ok := a.Done(); ok {
		t.Error("a wait begins after Cancel")
	}
	if a.AttachShadow(&late); late.Cause() != first || shadow.Cause() != first || detached.Cause() != nil {
		t.Errorf("the shadows have the causes %v and %v, and the detached one %v", shadow.Cause(), late.Cause(), detached.Cause())
	}
}
