package proxy

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"penstock/translate/apierr"
	"penstock/upstreams/http1"
)

// Which losses count against a body: those of engines that had taken the request, and whose stream had not begun.
func TestRecordLoss(t *testing.T) {
	body := []byte(`{"model":"m"}`)
	unheard := errors.New("nobody has acknowledged the request")
	timedOut := fmt.Errorf("read: %w", syscall.ETIMEDOUT)
	for _, c := range []struct {
		name   string
		failed http1.Failure
		begun  bool
		counts bool
	}{
		{"reset", http1.Failure{Reason: http1.ReasonReset, Sent: true}, false, true},
		{"end", http1.Failure{Reason: http1.ReasonEOF, Sent: true}, false, true},
		{"truncated", http1.Failure{Reason: http1.ReasonTruncated, Sent: true}, false, true},
		{"reset in mid-stream", http1.Failure{Reason: http1.ReasonReset, Sent: true}, true, false},
		{"reset before it was sent", http1.Failure{Reason: http1.ReasonReset}, false, false},
		{"no host acknowledges", http1.Failure{Reason: http1.ReasonSilent, Sent: true, Err: unheard}, false, false},
		{"the host took it and fell silent", http1.Failure{Reason: http1.ReasonSilent, Sent: true, Err: timedOut}, false, true},
	} {
		shared := &Services{poison: newPoisonRequests()}
		call := &Call{shared: shared, body: &body}
		call.attempt.begun = c.begun
		call.recordLoss(&failure{api: &apierr.Error{Cause: &c.failed}}, time.Now())
		if got := len(shared.poison.bodies) == 1; got != c.counts {
			t.Errorf("%s: counts %v, want %v", c.name, got, c.counts)
		}
	}
}
