package observe

import (
	"context"
	"errors"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// exporter is an endpoint that tests hold and break.
type exporter struct {
	hold chan struct{}
	err  error
	got  int
}

func (e *exporter) ExportSpans(_ context.Context, spans []sdk.ReadOnlySpan) error {
	<-e.hold
	if e.err == nil {
		e.got += len(spans)
	}
	return e.err
}

func (e *exporter) Shutdown(context.Context) error { return nil }

func TestSpanQueueNeverWaits(t *testing.T) {
	e := &exporter{hold: make(chan struct{})}
	q := newSpanQueue(e, nil)
	span := tracetest.SpanStub{Name: "x"}.Snapshot()
	const spans = 3 * spansQueued
	for range spans {
		q.OnEnd(span)
	}
	dropped := q.dropped.Load()
	if dropped < spans-spansQueued-spansBatch-1 || dropped >= spans {
		t.Errorf("%d of %d dropped", dropped, spans)
	}
	close(e.hold)
	if err := q.Shutdown(t.Context()); err != nil || e.got != spans-int(dropped) {
		t.Errorf("%d sent, %d dropped, %v", e.got, dropped, err)
	}
}

func TestSpansThatAreNotTakenCount(t *testing.T) {
	e := &exporter{hold: make(chan struct{}), err: errors.New("no")}
	close(e.hold)
	q := newSpanQueue(e, nil)
	q.OnEnd(tracetest.SpanStub{Name: "x"}.Snapshot())
	if err := q.Shutdown(t.Context()); err != nil || q.dropped.Load() != 1 {
		t.Errorf("%d dropped, %v", q.dropped.Load(), err)
	}
}

func TestParentOf(t *testing.T) {
	for text, sampled := range map[string]bool{
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": true, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00": false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0b": true, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-fe": false,
	} {
		c, ok := parentOf([]byte(text))
		if !ok || c.IsSampled() != sampled || c.TraceID().String() != text[3:35] {
			t.Errorf("%s: %v %t", text, c, ok)
		}
	}
	for _, text := range []string{"", "x", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"} {
		if _, ok := parentOf([]byte(text)); ok {
			t.Errorf("%q is a parent", text)
		}
	}
}

// TestNoTracer: what is off does nothing and allocates nothing.
func TestNoTracer(t *testing.T) {
	var tracer *Tracer
	now := time.Now()
	r := good("m", "a")
	if n := testing.AllocsPerRun(10, func() {
		call := tracer.Call("chat", nil, now)
		call.Attempt(1, "a", "sim", "http://h:1", "m", now).End("ok", false, 200, 0, now)
		call.End(r, now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := tracer.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
