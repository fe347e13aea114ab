package proxy

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"penstock/config"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/telemetry/guard"
	"penstock/upstreams/engine"
)

// TestPanicIsAnInternalError checks that a panic ends one request with a 500 in its dialect, and
// that the panic's value is not written anywhere. No client can cause a panic, so the test adds an
// endpoint that panics.
func TestPanicIsAnInternalError(t *testing.T) {
	public, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer public.Close()
	const text = `
auth: none
admin: { listen: "" }
upstreams: [{ name: up, url: "http://127.0.0.1:1", engine: sim }]
models: [{ id: m, deployments: [{ upstream: up }] }]
`
	f, problems := config.ParseValid("test.yaml", []byte(text), config.KnownProfiles{Engines: engine.EngineNames(nil)})
	if f == nil {
		t.Fatal(problems)
	}
	var log bytes.Buffer
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&log), zap.ErrorLevel)
	e, err := New(Options{Config: f, Log: zap.New(core), MemoryLimit: 1 << 30, Public: public})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.upstreamSet.Close(context.Background()) }()

	for i, ep := range endpoint.AllEndpoints {
		faulty := *ep
		faulty.Form = false
		faulty.New = func() endpoint.Request { panic("the client said " + secret) }
		var ctx fasthttp.RequestCtx
		ctx.Init(&fasthttp.Request{}, nil, nil)
		ctx.Request.Header.SetMethod("POST")
		ctx.Request.SetRequestURI(ep.Path)
		e.services.Handler(&faulty)(&ctx)
		body, h := string(ctx.Response.Body()), &ctx.Response.Header
		if ctx.Response.StatusCode() != 500 || !strings.Contains(body, `"type":"api_error","code":"internal"`) {
			t.Errorf("%s = %d %s, want 500 internal", ep.Path, ctx.Response.StatusCode(), body)
		}
		if messages := strings.HasPrefix(body, `{"type":"error"`); messages != (ep.Dialect.Name == "messages") {
			t.Errorf("%s: the shape of the error is another dialect's: %s", ep.Path, body)
		}
		if id := h.Peek("Request-Id"); len(id) == 0 || !bytes.Equal(id, h.Peek("X-Request-Id")) {
			t.Errorf("%s: request ids %q and %q", ep.Path, id, h.Peek("X-Request-Id"))
		}
		if n := e.guard.PanicCount(guard.PlaceHandler); n != uint64(i+1) {
			t.Errorf("%s: %d panics counted, want %d", ep.Path, n, i+1)
		}
		if strings.Contains(body+log.String(), secret) {
			t.Errorf("%s: what the panic held was told", ep.Path)
		}
	}
	if !strings.Contains(log.String(), "proxy.TestPanicIsAnInternalError.func") || strings.Contains(log.String(), "0x") {
		t.Errorf("the stack is not functions and lines alone: %s", log.String())
	}
	if n := e.services.Calls.InFlight(); n != 0 {
		t.Errorf("%d calls are left", n)
	}
}

const secret = "CANARY-panic"
