package call

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"penstock/proxy/access/limit"
	"penstock/proxy/request/body"
	"penstock/proxy/request/failure"
	"penstock/proxy/request/poison"
	"penstock/translate/apierr"
	"penstock/upstreams/http1"
)

// TestRecordLoss checks when a lost connection counts against a body: if the engine received the
// request and had not started its stream.
func TestRecordLoss(t *testing.T) {
	var b body.Body
	b.Reset(limit.NewMemoryBudget(1 << 20))
	if err := b.Translate(func(dst []byte) ([]byte, error) { return append(dst, `{"model":"m"}`...), nil }); err != nil {
		t.Fatal(err)
	}
	unheard := errors.New("the request was not acknowledged")
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
		var p bodyFingerprint
		p.initForBody(poison.New(), &b)
		p.recordLoss(&failure.Failure{API: &apierr.Error{Cause: &c.failed}}, c.begun, nil, time.Now())
		if got := p.suspectHash != 0; got != c.counts {
			t.Errorf("%s: counts %v, want %v", c.name, got, c.counts)
		}
	}
}
