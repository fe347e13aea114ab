package observe

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config"
)

// exporter is an endpoint that tests can block and break.
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

// sampledSpan returns a recorded span. The SDK's processor skips all other spans.
func sampledSpan() sdk.ReadOnlySpan {
	return tracetest.SpanStub{Name: "x", SpanContext: trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled,
	})}.Snapshot()
}

func TestSpanQueueNeverWaits(t *testing.T) {
	e := &exporter{hold: make(chan struct{})}
	q := newSpanQueue(e, zap.NewNop(), nil)
	span := sampledSpan()
	const spans = 3 * maxQueuedSpans
	for range spans {
		q.OnEnd(span)
	}
	dropped := q.exporter.dropped.Load()
	if dropped == 0 || dropped > spans-maxQueuedSpans {
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
	q := newSpanQueue(e, zap.NewNop(), nil)
	q.OnEnd(sampledSpan())
	if err := q.Shutdown(t.Context()); err != nil || q.exporter.dropped.Load() != 1 {
		t.Errorf("%d spans dropped, %v; want 1", q.exporter.dropped.Load(), err)
	}
}

func TestParentOf(t *testing.T) {
	for text, sampled := range map[string]bool{
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": true, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00": false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0b": true, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-fe": false,
	} {
		c, ok := parseTraceparent([]byte(text))
		if !ok || c.IsSampled() != sampled || c.TraceID().String() != text[3:35] {
			t.Errorf("traceparent %s read as %v, %t; want the same trace, sampled %t", text, c, ok, sampled)
		}
	}
	for _, text := range []string{"", "x", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"} {
		if _, ok := parseTraceparent([]byte(text)); ok {
			t.Errorf("%q is a parent", text)
		}
	}
}

// TestNoTracer checks that a nil Tracer does nothing and does not allocate.
func TestNoTracer(t *testing.T) {
	var tracer *Tracer
	now := time.Now()
	r := successfulRecord("m", "a")
	if n := testing.AllocsPerRun(10, func() {
		call := tracer.StartCall("chat", nil, now)
		call.StartAttempt(1, "a", "sim", "http://h:1", "m", now).End("ok", false, 200, 0, now)
		call.End(r, now)
	}); n != 0 {
		t.Errorf("an unsampled call allocates %v times, want 0", n)
	}
	if err := tracer.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestResource checks that spans name the edge and its instance, and that names from the
// environment take precedence.
func TestResource(t *testing.T) {
	read := func() map[string]string {
		got := map[string]string{}
		for _, a := range traceResource("1.2", "host :4000").Attributes() {
			got[string(a.Key)] = a.Value.AsString()
		}
		return got
	}
	t.Setenv("OTEL_SERVICE_NAME", "")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "")
	if got := read(); got["service.name"] != "penstock" || got["service.version"] != "1.2" || got["service.instance.id"] != "host :4000" {
		t.Errorf("without variables: %v", got)
	}
	t.Setenv("OTEL_SERVICE_NAME", "edge")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=pod-7,deployment.environment=prod")
	if got := read(); got["service.name"] != "edge" || got["service.version"] != "1.2" || got["service.instance.id"] != "pod-7" || got["deployment.environment"] != "prod" {
		t.Errorf("with variables: %v", got)
	}
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "nonsense,service.instance.id=pod-7,x=%zz")
	if got := read(); got["service.name"] != "edge" || got["service.instance.id"] != "pod-7" || got["x"] != "%zz" {
		t.Errorf("with a malformed entry the others count: %v", got)
	}
}

// TestSampling checks that OTEL_TRACES_SAMPLER and its argument determine which traces are
// recorded, and that the client's sampling decision is respected.
func TestSampling(t *testing.T) {
	const traces = 400
	for _, c := range []struct {
		sampler, argument, parent string
		least, most               int
		warning                   string
	}{
		{"", "", "", traces, traces, ""},
		{"always_off", "", "", 0, 0, ""},
		{"always_on", "", "", traces, traces, ""},
		{"always_of", "", "", traces, traces, "cannot be read"},
		// The bounds are five standard deviations from the mean.
		{"parentbased_traceidratio", "0.25", "", 50, 150, ""},
		{"parentbased_traceidratio", "0", "-01", traces, traces, ""},
		{"parentbased_traceidratio", "1", "-00", 0, 0, ""},
		{"", "", "-00", 0, 0, ""},
	} {
		t.Setenv("OTEL_TRACES_SAMPLER", c.sampler)
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", c.argument)
		core, logged := observer.New(zap.WarnLevel)
		tracing := config.Tracing{OTLP: "http://127.0.0.1:1"}
		WarnOverriddenVariables(tracing, zap.New(core))
		tracer, err := NewTracer(tracing, "1", "i", zap.New(core), nil)
		if err != nil {
			t.Fatal(err)
		}
		recorded := 0
		for i := range traces {
			var parent []byte
			if c.parent != "" {
				parent = fmt.Appendf(nil, "00-%032x-b7ad6b7169203331%s", i+1, c.parent)
			}
			// This span never ends and is never sent.
			if tracer.StartCall("chat", parent, time.Now()).span.IsRecording() {
				recorded++
			}
		}
		if recorded < c.least || recorded > c.most {
			t.Errorf("%+v: %d of %d recorded", c, recorded, traces)
		}
		told := ""
		for _, e := range logged.All() {
			told += e.Message
		}
		if (told == "") != (c.warning == "") || !strings.Contains(told, c.warning) {
			t.Errorf("%+v: the log has %q", c, told)
		}
		if err := tracer.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestSpansOfCalls checks that the span of a call contains the call's key, and that a request
// without a valid key has no span.
func TestSpansOfCalls(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := &Tracer{tracer: sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("penstock")}
	for _, r := range []Record{
		{Status: 401, Outcome: OutcomeClientError, Code: "invalid_api_key"},
		{Status: 401, Outcome: OutcomeClientError, Code: "credential_conflict"},
		{Key: "team-a", Status: 200, Outcome: OutcomeOK},
		{Key: "team-a", Status: 401, Outcome: OutcomeClientError}, // revoked during the call
		{Status: 404, Outcome: OutcomeClientError},                // a request to an edge with auth: none
	} {
		tracer.StartCall("chat", nil, time.Now()).End(&r, time.Now())
	}
	var got []string
	for _, s := range recorder.Ended() {
		line := ""
		for _, a := range s.Attributes() {
			if a.Key == "penstock.key" || a.Key == "http.response.status_code" {
				line += a.Value.String() + " "
			}
		}
		got = append(got, strings.TrimSpace(line))
	}
	if want := []string{"200 team-a", "401 team-a", "404"}; !slices.Equal(got, want) {
		t.Errorf("spans of %q, want %q", got, want)
	}
}

// TestEndpointHealth checks that the edge logs once that the endpoint rejects spans, with its
// status but without its URL. When the endpoint accepts spans again, the edge must also log this
// once. If the endpoint alternates between both states, this must be logged at most once a minute.
func TestEndpointHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.InfoLevel)
		h := otlpEndpointHealth{log: zap.New(core)}
		want := func(lines ...string) {
			t.Helper()
			var got []string
			for _, e := range logged.TakeAll() {
				got = append(got, fmt.Sprint(e.Level, " ", e.Message, " ", e.ContextMap()))
			}
			if !slices.Equal(got, lines) {
				t.Errorf("the log has\n%q, want\n%q", got, lines)
			}
		}
		const down, up = "warn the trace endpoint does not accept spans: they are dropped map[error:", "info the trace endpoint accepts spans again map[lost:"
		h.recordExport(nil, 0)
		want()
		refused := &url.Error{Op: "Post", URL: "http://h/?token=secret", Err: errors.New("connection refused")}
		h.recordExport(fmt.Errorf("traces export: %w", refused), 3)
		h.recordExport(errors.New("traces export: failed to send to http://h/: 401 Unauthorized (body: secret)"), 4)
		want(down + "connection refused]")
		h.recordExport(nil, 0)
		h.recordExport(nil, 0)
		want(up + "7]")
		h.recordExport(errors.New("traces export: failed to send to http://h/secret: 404 Not Found (body: secret)"), 1)
		h.recordExport(nil, 0)
		want()
		time.Sleep(exportLogInterval)
		h.recordExport(errors.New("traces export: failed to send to http://h/secret: 404 Not Found (body: secret)"), 1)
		h.recordExport(nil, 0)
		want(down+"the endpoint answered 404 Not Found]", up+"1]")
	})
}
