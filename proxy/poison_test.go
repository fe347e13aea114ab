package proxy

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"penstock/translate/apierr"
	"penstock/upstreams"
)

// Which losses count against a body: those of engines that had taken the request, and whose stream had not begun.
func TestRecordLoss(t *testing.T) {
	body := []byte(`{"model":"m"}`)
	unheard := errors.New("nobody has acknowledged the request")
	timedOut := fmt.Errorf("read: %w", syscall.ETIMEDOUT)
	for _, c := range []struct {
		name   string
		failed upstreams.Failure
		begun  bool
		counts bool
	}{
		{"reset", upstreams.Failure{Reason: upstreams.ReasonReset, Sent: true}, false, true},
		{"end", upstreams.Failure{Reason: upstreams.ReasonEOF, Sent: true}, false, true},
		{"truncated", upstreams.Failure{Reason: upstreams.ReasonTruncated, Sent: true}, false, true},
		{"reset in mid-stream", upstreams.Failure{Reason: upstreams.ReasonReset, Sent: true}, true, false},
		{"reset before it was sent", upstreams.Failure{Reason: upstreams.ReasonReset}, false, false},
		{"no host acknowledges", upstreams.Failure{Reason: upstreams.ReasonSilent, Sent: true, Err: unheard}, false, false},
		{"the host took it and fell silent", upstreams.Failure{Reason: upstreams.ReasonSilent, Sent: true, Err: timedOut}, false, true},
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
