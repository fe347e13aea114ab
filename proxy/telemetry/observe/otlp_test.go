package observe

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"penstock/config"
)

// batch is what the tests send.
func batch() []*otlp.ResourceSpans {
	return []*otlp.ResourceSpans{{ScopeSpans: []*otlp.ScopeSpans{{Spans: []*otlp.Span{{Name: "chat sim"}}}}}}
}

// collect plays an endpoint that answers each sending in turn, the last one again and again.
func collect(t *testing.T, start func(http.Handler) *httptest.Server, answers ...http.HandlerFunc) (url string, sent func() int) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		answer := answers[min(n, len(answers)-1)]
		n++
		mu.Unlock()
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		data, err := io.ReadAll(body)
		var m collector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(data, &m) != nil || len(m.ResourceSpans) != 1 || m.ResourceSpans[0].ScopeSpans[0].Spans[0].Name != "chat sim" {
			t.Errorf("sending %d: %v, %v", n, &m, err)
		}
		if got := r.Header.Get("Content-Type"); got != "application/x-protobuf" {
			t.Errorf("Content-Type: %s", got)
		}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() int { mu.Lock(); defer mu.Unlock(); return n }
}

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// partial answers as an endpoint that took the batch but for what it tells of.
func partial(rejected int64, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		data, _ := proto.Marshal(&collector.ExportTraceServiceResponse{
			PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: rejected, ErrorMessage: text},
		})
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(data)
	}
}

func otlpTo(t *testing.T, to string) *otlpClient {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newOTLPClient(u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	return c
}

// TestUpload: what may pass is sent again, and what the endpoint says of the batch counts.
func TestUpload(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []http.HandlerFunc
		sent    int
		fails   bool
	}{
		{"taken", []http.HandlerFunc{status(200)}, 1, false},
		{"accepted", []http.HandlerFunc{status(202)}, 1, false},
		{"busy once", []http.HandlerFunc{status(503), status(200)}, 2, false},
		{"too many, with a wait", []http.HandlerFunc{status(429, "Retry-After", "1"), status(200)}, 2, false},
		{"a wait beyond the patience", []http.HandlerFunc{status(429, "Retry-After", "3600")}, 1, true},
		{"a date beyond the patience", []http.HandlerFunc{status(503, "Retry-After", "Fri, 01 Jan 2999 00:00:00 GMT")}, 1, true},
		{"refused", []http.HandlerFunc{status(400)}, 1, true},
		{"moved", []http.HandlerFunc{status(307, "Location", "/"), status(200)}, 1, true},
		{"failing", []http.HandlerFunc{status(500)}, 1, true},
		{"an empty partial success", []http.HandlerFunc{partial(0, "")}, 1, false},
		{"rejected spans", []http.HandlerFunc{partial(1, "")}, 1, true},
		{"a warning", []http.HandlerFunc{partial(0, "slow down")}, 1, true},
		{"no protobuf", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write([]byte{0x0a, 0xff})
		}}, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			to, sent := collect(t, httptest.NewServer, c.answers...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := otlpTo(t, to).UploadTraces(ctx, batch()); (err != nil) != c.fails || sent() != c.sent {
				t.Errorf("%d sendings, %v", sent(), err)
			}
		})
	}
}

// TestUploadEnds: an endpoint that never recovers is not asked beyond the end of the context.
func TestUploadEnds(t *testing.T) {
	to, sent := collect(t, httptest.NewServer, status(503))
	ctx, cancel := context.WithCancel(t.Context())
	c := otlpTo(t, to)
	done := make(chan error)
	go func() { done <- c.UploadTraces(ctx, batch()) }()
	for sent() == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("taken")
	}
}

// TestUploadVariables: the standard variables set headers and compression, and those for traces win.
func TestUploadVariables(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-all=1,authorization=none")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "Authorization=Basic%20abc%3D , x y=1,x-empty=,=2,none,x-bad=%zz")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1500")
	to, sent := collect(t, httptest.NewServer, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Basic abc=" {
			t.Errorf("Authorization: %q", got)
		}
		if r.Header.Get("Content-Encoding") != "gzip" || r.Header["X-Empty"] == nil || r.Header["X-Bad"] != nil {
			t.Errorf("%v", r.Header)
		}
	})
	c := otlpTo(t, to)
	if err := c.UploadTraces(t.Context(), batch()); err != nil || sent() != 1 || c.http.Timeout != 1500*time.Millisecond {
		t.Errorf("%d sendings, %v, %v", sent(), err, c.http.Timeout)
	}
}

// TestUploadCertificates: an endpoint's own authority is read from a file, and what cannot be read
// is an error at the start.
func TestUploadCertificates(t *testing.T) {
	var authority []byte
	to, sent := collect(t, func(h http.Handler) *httptest.Server {
		s := httptest.NewTLSServer(h)
		s.Config.ErrorLog = nil
		authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		return s
	}, status(200))
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", path)
	if err := otlpTo(t, to).UploadTraces(t.Context(), batch()); err != nil || sent() != 1 {
		t.Errorf("%d sendings, %v", sent(), err)
	}
	if _, err := NewTracer(config.Tracing{OTLP: "http://127.0.0.1:4318"}, "", "", zap.NewNop(), nil); err == nil || !strings.Contains(err.Error(), "https") {
		t.Errorf("certificates without TLS: %v", err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", path+".none")
	if _, err := NewTracer(config.Tracing{OTLP: to}, "", "", zap.NewNop(), nil); err == nil {
		t.Error("a file that is not there was read")
	}
	if err := os.WriteFile(path, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", path)
	if _, err := NewTracer(config.Tracing{OTLP: to}, "", "", zap.NewNop(), nil); err == nil {
		t.Error("a file without a certificate was taken")
	}
}
