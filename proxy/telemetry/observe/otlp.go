package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/telemetry/guard"
)

// WarnOverriddenVariables logs the names of standard variables that the configuration file
// overrides. It does not log their values.
func WarnOverriddenVariables(c config.Tracing, log *zap.Logger) {
	if c.OTLP == "" {
		for _, name := range [...]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
			if os.Getenv(name) != "" {
				log.Warn(name + " is set, but traces go to tracing.otlp alone, which is empty: write tracing: { otlp: URL }, or unset the variable")
				return
			}
		}
		return
	}
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		log.Warn("OTEL_SDK_DISABLED and OTEL_TRACES_EXPORTER do not count: leave tracing.otlp out to send no traces")
	}
}

// sdkLog logs the SDK's messages about environment variables. It omits the values, which may be
// credentials.
type sdkLog struct{ log *zap.Logger }

// Init implements logr.LogSink.
func (sdkLog) Init(logr.RuntimeInfo) {}

// Enabled returns true for the SDK's warnings.
func (sdkLog) Enabled(level int) bool { return level <= 1 }

// Info logs a warning from the SDK.
func (s sdkLog) Info(_ int, what string, _ ...any) { s.Error(nil, what) }

// Error logs a warning that the SDK could not read a variable.
func (s sdkLog) Error(_ error, what string, _ ...any) {
	s.log.Warn("a variable of OpenTelemetry (OTEL_*) cannot be read", zap.String("what", what))
}

// WithValues returns s unchanged.
func (s sdkLog) WithValues(...any) logr.LogSink { return s }

// WithName returns s unchanged.
func (s sdkLog) WithName(string) logr.LogSink { return s }

func otlpEndpoint(configured string) (string, error) {
	u, err := url.Parse(configured)
	if err != nil {
		return "", errors.New("this is not a URL: write http://HOST:PORT")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// rejectRedirects is the Proxy function of the exporter's transport, which runs before each
// request. It rejects a request that follows a redirect, because the headers may contain a
// credential for the configured host. A custom HTTP client could also do this, but would make the
// exporter ignore the environment variables for certificates and the timeout.
func rejectRedirects(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		return nil, errors.New("the endpoint redirects: write the URL that it names")
	}
	return http.ProxyFromEnvironment(r)
}

const maxQueuedSpans = 4096

// spanQueue prevents the SDK's batch processor from overflowing, because the processor would drop
// spans silently.
type spanQueue struct {
	sdk.SpanProcessor

	exporter *spanExporter
}

func newSpanQueue(to sdk.SpanExporter, log *zap.Logger, g *guard.Guard) *spanQueue {
	e := &spanExporter{to: to, health: otlpEndpointHealth{log: log}, guard: g, stopped: make(chan struct{})}
	e.exportContext, e.cancel = context.WithCancel(context.Background())
	return &spanQueue{sdk.NewBatchSpanProcessor(e, sdk.WithMaxQueueSize(maxQueuedSpans)), e}
}

// OnEnd implements sdk.SpanProcessor. It never blocks: if the queue is full, it drops and counts
// the span.
func (q *spanQueue) OnEnd(s sdk.ReadOnlySpan) {
	if q.exporter.queuedSpans.Add(1) > maxQueuedSpans {
		q.exporter.queuedSpans.Add(-1)
		q.exporter.dropped.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// Shutdown implements sdk.SpanProcessor. It sends queued spans until ctx ends. When Shutdown
// returns, no goroutine is left.
func (q *spanQueue) Shutdown(ctx context.Context) error {
	err := q.SpanProcessor.Shutdown(ctx)
	q.exporter.cancel() // otherwise the processor would continue until its timeout
	<-q.exporter.stopped
	return err
}

// spanExporter counts the spans that the endpoint did not accept, and catches panics. The SDK's
// processor calls it from one goroutine at a time.
type spanExporter struct {
	to            sdk.SpanExporter
	health        otlpEndpointHealth
	guard         *guard.Guard
	queuedSpans   atomic.Int64 // spans that have ended and are not exported yet
	dropped       atomic.Uint64
	exportContext context.Context // canceled when spanQueue.Shutdown gives up
	cancel        context.CancelFunc
	stopped       chan struct{}
}

// ExportSpans implements sdk.SpanExporter.
func (e *spanExporter) ExportSpans(ctx context.Context, batch []sdk.ReadOnlySpan) error {
	e.queuedSpans.Add(-int64(len(batch)))
	lost := len(batch)
	defer func() { e.dropped.Add(uint64(lost)) }()
	if err := e.exportContext.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.exportContext, func() {
		defer e.guard.Catch(guard.PlaceSpans, nil)
		cancel()
	})()
	e.guard.RunWithRecover(guard.PlaceSpans, func() {
		e.guard.PanicIfInjected(guard.PlaceSpans)
		err := e.to.ExportSpans(ctx, batch)
		if err == nil {
			lost = 0
		}
		e.health.recordExport(err, lost)
	})
	return nil
}

// Shutdown implements sdk.SpanExporter. The processor calls it once, as its last call.
func (e *spanExporter) Shutdown(ctx context.Context) error {
	defer close(e.stopped)
	return e.to.Shutdown(ctx)
}

// otlpEndpointHealth logs when the endpoint stops accepting spans and when it accepts them again, at
// most once a minute. It is not safe for concurrent use.
type otlpEndpointHealth struct {
	log      *zap.Logger
	failing  bool
	lost     int       // spans lost since the failing endpoint was last logged
	loggedAt time.Time // when the failing endpoint was last logged
}

const exportLogInterval = time.Minute

func (h *otlpEndpointHealth) recordExport(err error, lost int) {
	switch {
	case err != nil && !h.failing:
		if !h.loggedAt.IsZero() && time.Since(h.loggedAt) < exportLogInterval {
			return
		}
		h.failing, h.loggedAt, h.lost = true, time.Now(), lost
		h.log.Warn("the trace endpoint does not accept spans: they are dropped", zap.String("error", describeExportError(err)))
	case err != nil:
		h.lost += lost
	case h.failing:
		h.failing = false
		h.log.Info("the trace endpoint accepts spans again", zap.Int("lost", h.lost))
	}
}

// exportErrorStatusPattern matches an error after which the SDK does not retry. The first group is the
// status.
var exportErrorStatusPattern = regexp.MustCompile(`^traces export: failed to send to \S+: (\d{3}) `)

// describeExportError describes an export error for the log. It omits the SDK's message, which
// contains the endpoint's URL and response. The path of the URL may be a credential, and the
// response may be any text.
func describeExportError(err error) string {
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		return failed.Err.Error()
	}
	if m := exportErrorStatusPattern.FindStringSubmatch(err.Error()); m != nil {
		status, _ := strconv.Atoi(m[1])
		return fmt.Sprintf("the endpoint answered %d %s", status, http.StatusText(status))
	}
	if strings.Contains(err.Error(), "retry-able request failure") {
		return "the endpoint is busy (429, 502, 503 or 504)"
	}
	return "the endpoint rejected spans, or its answer cannot be read"
}
