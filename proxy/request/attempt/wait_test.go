package attempt

import (
	"errors"
	"strings"
	"testing"

	"penstock/translate/sse"
)

// TestDeferredErrorEndsWait checks an error that was deferred until the events before it were
// delivered. The stream must leave the poller, and the error must not be lost.
func TestDeferredErrorEndsWait(t *testing.T) {
	failed := errors.New("the engine failed")
	r := Reply{pendingErr: failed, eventReader: sse.NewReader(strings.NewReader(""), 1<<10)}
	if r.prepareNextWait() || !errors.Is(r.pendingErr, failed) {
		t.Errorf("waits with the error %v, want %v and no wait", r.pendingErr, failed)
	}
}
