package observe

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config"
)

func clearOTELVariables(t *testing.T) {
	t.Helper()
	for _, name := range os.Environ() {
		if name, _, _ = strings.Cut(name, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
}

// sendSpan sends one span to an endpoint and returns the number of lost spans and the log.
func sendSpan(t *testing.T, to string) (lost uint64, log string) {
	t.Helper()
	core, logged := observer.New(zap.DebugLevel)
	tracer, err := NewTracer(config.Tracing{OTLP: to}, "1", "i", zap.New(core), nil)
	if err != nil {
		t.Fatal(err)
	}
	tracer.StartCall("chat", nil, time.Now()).End(successfulRecord("m", "a"), time.Now())
	if err := tracer.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for _, e := range logged.All() {
		log += fmt.Sprintln(e.Message, e.ContextMap())
	}
	return tracer.Dropped(), log
}

// TestExport checks that the log says why the endpoint accepts no spans, without the endpoint's URL
// and response. Redirects must not be followed, because the headers may contain a credential.
func TestExport(t *testing.T) {
	clearOTELVariables(t)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=s3cret")
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed: %s %v", r.Method, r.Header)
	}))
	defer other.Close()
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		lost   uint64
		log    string
	}{
		{"taken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }, 0, ""},
		{"accepted", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }, 0, ""},
		{"refused", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "s3cret", http.StatusUnauthorized) }, 1, "the endpoint answered 401 Unauthorized]"},
		{"failing", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "s3cret", http.StatusInternalServerError) }, 1, "the endpoint answered 500 Internal Server Error]"},
		{"busy for too long", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			http.Error(w, "s3cret", http.StatusServiceUnavailable)
		}, 1, "the endpoint is busy"},
		{"moved", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, 1, "the endpoint redirects"},
		{"rejected", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			// A partial success with one rejected span.
			_, _ = io.WriteString(w, "\x0a\x0a\x08\x01\x12\x06s3cret")
		}, 1, "the endpoint rejected spans"},
		{"gone", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 1, "map[error:EOF]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := "/s3cret/traces"
			endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != path || r.Header.Get("X-Api-Key") != "s3cret" {
					t.Errorf("sent to %s with %v", r.URL, r.Header)
				}
				_, _ = io.Copy(io.Discard, r.Body)
				c.answer(w, r)
			}))
			defer endpoint.Close()
			lost, log := sendSpan(t, endpoint.URL+path)
			if lost != c.lost || !strings.Contains(log, c.log) || (log == "") != (c.log == "") || strings.Contains(log, "s3cret") {
				t.Errorf("%d lost, the log has %q", lost, log)
			}
		})
	}
}

// TestExportCertificates checks that the SDK's variables for certificates apply. With a custom HTTP
// client, the exporter would ignore these variables.
func TestExportCertificates(t *testing.T) {
	clearOTELVariables(t)
	var taken atomic.Int32
	s := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			taken.Add(1)
		}
	}))
	defer s.Close()
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", path)
	if lost, log := sendSpan(t, s.URL); lost != 0 || taken.Load() != 1 {
		t.Errorf("%d spans lost and %d taken, want 0 and 1: %s", lost, taken.Load(), log)
	}
	if _, err := NewTracer(config.Tracing{OTLP: "http://127.0.0.1:4318"}, "", "", zap.NewNop(), nil); err == nil {
		t.Error("certificates without TLS are taken")
	}
}

// TestCloseIsBounded checks an endpoint that never responds. Close must return when its context
// ends, and no goroutine may be left.
func TestCloseIsBounded(t *testing.T) {
	clearOTELVariables(t)
	before := goleak.IgnoreCurrent()
	asked, end := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(asked)
		<-end
	}))
	tracer, err := NewTracer(config.Tracing{OTLP: s.URL}, "1", "i", zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 { // more than one batch, of which only the first is sent
		tracer.StartCall("chat", nil, time.Now()).End(successfulRecord("m", "a"), time.Now())
	}
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Close(ctx); err == nil {
		t.Error("closed as if all were sent")
	}
	if n := tracer.Dropped(); n != 2000 {
		t.Errorf("%d of 2000 lost", n)
	}
	close(end)
	s.Close()
	goleak.VerifyNone(t, before)
}

// TestVariables checks that a variable that is unreadable or has no effect is logged without its
// value, and that the edge still starts.
func TestVariables(t *testing.T) {
	for _, c := range []struct {
		name, value, log string
		without          bool // tracing.otlp is not set
	}{
		{"OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x", "", false},
		{"OTEL_EXPORTER_OTLP_HEADERS", "authorization=%s3cret", "escape header value", false},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "s3cret", "parse headers", false},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "s3cret", "parse duration", false},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/s3cret.pem", "read tls ca cert file", false},
		{"OTEL_RESOURCE_ATTRIBUTES", "a=1,s3cret", "sampler or resource attributes", false},
		{"OTEL_TRACES_SAMPLER", "s3cret", "sampler or resource attributes", false},
		{"OTEL_TRACES_SAMPLER", "parentbased_always_on", "", false},
		{"OTEL_SDK_DISABLED", "true", "leave tracing.otlp out", false},
		{"OTEL_TRACES_EXPORTER", "none", "leave tracing.otlp out", false},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "s3cret:4317", "write tracing: { otlp: URL }", true},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			clearOTELVariables(t)
			t.Setenv(c.name, c.value)
			core, logged := observer.New(zap.DebugLevel)
			log, tracing := zap.New(core), config.Tracing{}
			if !c.without {
				tracing.OTLP = "http://127.0.0.1:1"
			}
			WarnOverriddenVariables(tracing, log)
			if !c.without {
				tracer, err := NewTracer(tracing, "1", "i", log, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := tracer.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			text := ""
			for _, e := range logged.All() {
				text += fmt.Sprintln(e.Message, e.ContextMap())
			}
			if !strings.Contains(text, c.log) || (text == "") != (c.log == "") || strings.Contains(text, "s3cret") {
				t.Errorf("the log has %q, want %q", text, c.log)
			}
		})
	}
}
