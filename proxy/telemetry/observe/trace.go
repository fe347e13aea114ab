package observe

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/telemetry/guard"
)

// Tracer creates one span per call and one per attempt, according to the GenAI semantic
// conventions, and sends them to an OTLP/HTTP endpoint. A nil *Tracer does nothing. A Tracer is
// safe for concurrent use.
type Tracer struct {
	tracer trace.Tracer
	queue  *spanQueue
}

// NewTracer returns a Tracer that sends spans to c.OTLP, an http or https URL. If the URL has no
// path, the Tracer uses /v1/traces. It connects only when it sends the first batch. instance
// distinguishes the edge from other edges. g catches panics while sending.
//
// The OpenTelemetry SDK's environment variables apply, except those for the endpoint and the queue
// length. If a variable cannot be read, the edge starts anyway. It logs the variable's name, but
// not its value, which may be a credential.
func NewTracer(c config.Tracing, version, instance string, log *zap.Logger, g *guard.Guard) (*Tracer, error) {
	warn := sdkLog{log}
	otel.SetLogger(logr.New(warn))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { warn.Error(nil, "sampler or resource attributes") }))
	// From now on, the exporter logs and counts errors.
	defer func() {
		otel.SetLogger(logr.Discard())
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	}()
	to, err := otlpEndpoint(c.OTLP)
	if err != nil {
		return nil, fmt.Errorf("tracing.otlp: %w", err)
	}
	client, err := otlptracehttp.New(context.Background(),
		otlptracehttp.WithEndpointURL(to), otlptracehttp.WithProxy(rejectRedirects))
	if err != nil {
		return nil, fmt.Errorf("tracing.otlp: %w", err)
	}
	queue := newSpanQueue(client, log, g)
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(queue), sdk.WithResource(traceResource(version, instance)))
	return &Tracer{tracer: provider.Tracer("penstock"), queue: queue}, nil
}

// traceResource returns the attributes of the edge. Attributes from the environment take
// precedence.
func traceResource(version, instance string) *resource.Resource {
	own := []attribute.KeyValue{
		attribute.String("service.name", "penstock"), attribute.String("service.version", version),
		attribute.String("service.instance.id", instance),
	}
	all, err := resource.New(context.Background(), resource.WithAttributes(own...), resource.WithFromEnv())
	if err != nil {
		otel.Handle(err)
	}
	return all // after an error, it contains the valid entries
}

// Dropped returns how many spans were lost since the edge started.
func (t *Tracer) Dropped() uint64 { return t.queue.exporter.dropped.Load() }

// Close sends queued spans until ctx ends.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.queue.Shutdown(ctx)
}

// CallSpan is the span of one call. Only the call's goroutine may use it.
type CallSpan struct {
	tracer *Tracer
	ctx    context.Context // contains only the span, as the parent of the attempts' spans
	span   trace.Span
}

// StartCall starts the span of a call. traceparent is the client's well-formed header, or nil.
// operation is an operation name from the conventions, such as chat.
func (t *Tracer) StartCall(operation string, traceparent []byte, start time.Time) *CallSpan {
	if t == nil {
		return nil
	}
	ctx := context.Background()
	if parent, ok := parseTraceparent(traceparent); ok {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	ctx, span := t.tracer.Start(ctx, operation, trace.WithTimestamp(start),
		trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("gen_ai.operation.name",
			operation)))
	return &CallSpan{t, ctx, span}
}

func parseTraceparent(traceparent []byte) (trace.SpanContext, bool) {
	if len(traceparent) != 55 {
		return trace.SpanContext{}, false
	}
	s := string(traceparent)
	id, err1 := trace.TraceIDFromHex(s[3:35])
	parent, err2 := trace.SpanIDFromHex(s[36:52])
	c := trace.SpanContextConfig{TraceID: id, SpanID: parent, Remote: true}
	if strings.IndexByte("13579bdf", s[54]) >= 0 { // the lowest bit is set
		c.TraceFlags = trace.FlagsSampled
	}
	return trace.NewSpanContext(c), err1 == nil && err2 == nil
}

// AppendTraceparent appends a W3C traceparent header that names the span as the parent.
func (s *CallSpan) AppendTraceparent(dst []byte) []byte { return appendTraceparent(dst, s.span) }

func appendTraceparent(dst []byte, s trace.Span) []byte {
	c := s.SpanContext()
	return append(dst, "00-"+c.TraceID().String()+"-"+c.SpanID().String()+"-"+c.TraceFlags().String()...)
}

// End ends the span with the record's values. It discards the span of a request without a valid
// key. Otherwise, strangers could flood the endpoint.
func (s *CallSpan) End(r *Record, now time.Time) {
	if s == nil || r.Status == http.StatusUnauthorized && r.Key == "" {
		return
	}
	if r.Model != "" {
		s.span.SetName(r.operationName(s.span) + " " + r.Model)
		s.span.SetAttributes(attribute.String("gen_ai.request.model", r.Model),
			attribute.String("gen_ai.response.model", r.Model))
	}
	s.span.SetAttributes(
		attribute.String("penstock.request_id", r.RequestID.String()), attribute.String("penstock.dialect",
			r.Dialect), attribute.String("penstock.outcome", string(r.Outcome)),
		attribute.Int("penstock.attempts", r.Attempts), attribute.Bool("gen_ai.request.stream",
			r.Stream), attribute.Int("http.response.status_code", r.Status),
		attribute.Float64("penstock.queue_seconds", r.Queue.Seconds()),
	)
	if r.Upstream != "" {
		s.span.SetAttributes(attribute.String("penstock.upstream", r.Upstream))
	}
	if r.Key != "" {
		s.span.SetAttributes(attribute.String("penstock.key", r.Key))
	}
	if r.PromptTokens+r.CompletionTokens > 0 {
		s.span.SetAttributes(attribute.Int("gen_ai.usage.input_tokens", r.PromptTokens),
			attribute.Int("gen_ai.usage.output_tokens",
				r.CompletionTokens), attribute.Int("gen_ai.usage.cache_read.input_tokens", r.CachedTokens))
	}
	if r.Stream && r.TTFT > 0 {
		s.span.SetAttributes(attribute.Float64("gen_ai.response.time_to_first_chunk", r.TTFT.Seconds()))
	}
	if r.Outcome != OutcomeOK {
		s.span.SetAttributes(attribute.String("error.type", orDash(r.Code)))
		if r.Status >= 500 || r.Committed {
			s.span.SetStatus(codes.Error, "")
		}
	}
	s.span.End(trace.WithTimestamp(now))
}

func (r *Record) operationName(s trace.Span) string {
	if recorded, ok := s.(sdk.ReadOnlySpan); ok {
		return recorded.Name()
	}
	return r.Dialect
}

// AttemptSpan is the span of one attempt at one upstream.
type AttemptSpan struct{ span trace.Span }

// StartAttempt starts the span of an attempt. base is the base URL of the connection, and engine is
// the name of the engine profile.
func (s *CallSpan) StartAttempt(number int, upstream, engine, base, served string, now time.Time) *AttemptSpan {
	if s == nil {
		return nil
	}
	address, port := base, 0
	if u, err := url.Parse(base); err == nil && u.Host != "" { // otherwise base is a Unix socket
		address = u.Hostname()
		port, _ = strconv.Atoi(u.Port())
	}
	_, span := s.tracer.tracer.Start(s.ctx, "attempt "+upstream, trace.WithTimestamp(now),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.Int("penstock.attempt", number), attribute.String("penstock.upstream",
				upstream), attribute.String("gen_ai.provider.name", engine),
			attribute.String("server.address", address), attribute.Int("server.port",
				port), attribute.String("gen_ai.request.model", served)))
	return &AttemptSpan{span}
}

// AppendTraceparent appends the W3C traceparent header for the engine.
func (a *AttemptSpan) AppendTraceparent(dst []byte) []byte { return appendTraceparent(dst, a.span) }

// End ends the span. status is 0 if there was no response, and ttft is 0 if there was no event.
func (a *AttemptSpan) End(outcome string, failed bool, status int, ttft time.Duration, now time.Time) {
	if a == nil {
		return
	}
	a.span.SetAttributes(attribute.String("penstock.outcome", outcome))
	if status != 0 {
		a.span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	if ttft > 0 {
		a.span.SetAttributes(attribute.Float64("gen_ai.response.time_to_first_chunk", ttft.Seconds()))
	}
	if failed {
		a.span.SetAttributes(attribute.String("error.type", outcome))
		a.span.SetStatus(codes.Error, "")
	}
	a.span.End(trace.WithTimestamp(now))
}
