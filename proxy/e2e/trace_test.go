package e2e

import (
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// otlpReceiver is an OTLP/HTTP endpoint that records its requests.
type otlpReceiver struct {
	url string

	mu    sync.Mutex
	spans []*otlp.Span
	text  strings.Builder
}

func startReceiver(t *testing.T) *otlpReceiver {
	r := &otlpReceiver{}
	ln := rig.ListenLoopback(t)
	r.url = "http://" + ln.Addr().String()
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var m collector.ExportTraceServiceRequest
		if err != nil || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(body, &m) != nil {
			t.Errorf("a bad export: %s %v", req.URL.Path, err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.text.WriteString(protojson.Format(&m))
		for _, rs := range m.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				r.spans = append(r.spans, ss.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	})}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })
	return r
}

// trace returns a trace's spans: the call, and its attempts in order.
func (r *otlpReceiver) trace(id string) (call *otlp.Span, attempts []*otlp.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		switch {
		case hex.EncodeToString(s.TraceId) != id:
		case s.Kind == otlp.Span_SPAN_KIND_SERVER:
			call = s
		default:
			attempts = append(attempts, s)
		}
	}
	if len(attempts) == 2 && attempts[0].StartTimeUnixNano > attempts[1].StartTimeUnixNano {
		attempts[0], attempts[1] = attempts[1], attempts[0]
	}
	return call, attempts
}

func attribute(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return strings.Trim(protojson.MarshalOptions{}.Format(a.Value), "{} ")
		}
	}
	return ""
}

func wantAttributes(t *testing.T, s *otlp.Span, want ...string) {
	t.Helper()
	for _, w := range want {
		key, value, _ := strings.Cut(w, "=")
		if got := attribute(s, key); (value == "") != (got == "") || !strings.Contains(strings.ReplaceAll(got, " ", ""), value) {
			t.Errorf("span %s: %s is %s, want %q", s.Name, key, got, value)
		}
	}
}

func TestTraces(t *testing.T) {
	t.Parallel()
	r := startReceiver(t)
	p := start(t, rig.Setup{Engines: []sim.Options{{Record: true}, {Record: true}}, Upstream: rig.QuietProbes, Top: "tracing: { otlp: " + r.url + " }", Model: "policy: round_robin"})
	const (
		id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
		second     = "1af7651916cd43dd8448eb211c80319c"
		unwanted   = "2af7651916cd43dd8448eb211c80319c"
		refused    = "3af7651916cd43dd8448eb211c80319c"
		stranger   = "4af7651916cd43dd8448eb211c80319c"
	)
	p.Post(chatPath, p.ChatRequest(`"stream":true`), "Traceparent: 00-"+id+"-"+parent+"-01").WantStatus(200)
	seen := ""
	for _, e := range p.Engines {
		if last := e.Stats().LastRequest; last != nil && last.Get("Traceparent") != "" {
			seen = last.Get("Traceparent")
		}
	}
	p.Engines[0].SetFault(sim.Fault{Spec: "status=503"})
	for i := range 2 { // one of the two calls is first sent to the failing engine
		p.Post(chatPath, p.ChatRequest(""), "Traceparent: 00-"+second[:31]+string("cd"[i])+"-"+parent+"-01").WantStatus(200)
	}
	p.Post(chatPath, p.ChatRequest(""), "Traceparent: 00-"+unwanted+"-"+parent+"-00").WantStatus(200)
	p.Post(chatPath, rig.ChatBody(rig.Canary, ""), "Traceparent: 00-"+refused+"-"+parent+"-01").WantStatus(404)
	p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer wrong", "Traceparent: 00-"+stranger+"-"+parent+"-01").WantStatus(401)
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	p.End() // sends the queued spans

	call, attempts := r.trace(id)
	if call == nil || len(attempts) != 1 {
		t.Fatalf("%v, %d attempts of %d spans", call, len(attempts), len(r.spans))
	}
	if call.Name != "chat sim" || hex.EncodeToString(call.ParentSpanId) != parent || call.EndTimeUnixNano <= call.StartTimeUnixNano {
		t.Errorf("the call's span: %v", call)
	}
	wantAttributes(t, call, "gen_ai.operation.name=\"chat\"", "gen_ai.request.model=\"sim\"", "gen_ai.usage.input_tokens=\"", "gen_ai.usage.output_tokens=\"", "gen_ai.response.time_to_first_chunk=doubleValue",
		"http.response.status_code=\"200\"", "penstock.outcome=\"ok\"", "penstock.request_id=\"req_", "error.type=")
	a := attempts[0]
	if string(a.ParentSpanId) != string(call.SpanId) || a.Kind != otlp.Span_SPAN_KIND_CLIENT {
		t.Errorf("the attempt's span: %v", a)
	}
	wantAttributes(t, a, "gen_ai.provider.name=\"sim\"", "server.address=\"127.0.0.1\"", "server.port=\"", "penstock.upstream=\"up-", "penstock.outcome=\"ok\"", "http.response.status_code=\"200\"")
	if want := "00-" + id + "-" + hex.EncodeToString(a.SpanId) + "-01"; seen != want {
		t.Errorf("the engine was given %q, want %q", seen, want)
	}
	retried := 0
	for _, id := range []string{second, second[:31] + "d"} {
		call, attempts := r.trace(id)
		if call == nil || len(attempts) == 0 {
			t.Fatalf("no spans of %s", id)
		}
		if len(attempts) == 2 {
			retried++
			wantAttributes(t, attempts[0], "error.type=\"refused\"", "http.response.status_code=\"503\"", "penstock.attempt=\"1\"")
			wantAttributes(t, attempts[1], "error.type=", "penstock.attempt=\"2\"")
			wantAttributes(t, call, "penstock.attempts=\"2\"")
		}
	}
	if retried != 1 {
		t.Errorf("%d calls have two attempts", retried)
	}
	if call, attempts := r.trace(unwanted); call != nil || attempts != nil {
		t.Error("a trace that the client does not record was recorded")
	}
	if call, _ := r.trace(stranger); call != nil {
		t.Error("a request without a right key has a span")
	}
	if call, attempts := r.trace(refused); call == nil || attempts != nil {
		t.Error("a refused call has no span, or an attempt")
	} else {
		wantAttributes(t, call, "error.type=\"model_not_found\"", "gen_ai.request.model=")
	}
	if strings.Contains(r.text.String(), rig.Canary) || strings.Contains(r.text.String(), p.Key) {
		t.Error("the traces hold a client's words")
	}
}

// TestTraceEndpointHangs checks that an OTLP endpoint that never responds delays neither calls nor
// the exit.
func TestTraceEndpointHangs(t *testing.T) {
	t.Parallel()
	ln := rig.ListenLoopback(t)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	t.Cleanup(func() { ln.Close() })
	p := start(t, rig.Setup{Top: "tracing: { otlp: \"http://" + ln.Addr().String() + "\" }"})
	comparePace(t, 100, p, start(t, rig.Setup{}))
	begun := rig.StartWatch()
	p.End()
	t.Logf("the end took %v", begun.Elapsed())
	begun.WantImmediate(t, "the end")
}
