package call

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestEngineTraceparent(t *testing.T) {
	const members = "-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for given, want := range map[string]string{
		"00" + members:                 "00" + members,
		"01" + members:                 "00" + members, // later versions begin with the same fields
		"cc" + members + "-what-comes": "00" + members,
		"ff" + members:                 "",
		"00" + members + "-more":       "",
		"01" + members + "more":        "",
		"0x" + members:                 "",
		"00" + members[:52]:            "",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01": "",
		"": "",
	} {
		if got := string(parseTraceparent([]byte(given))); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

func TestEngineTracestate(t *testing.T) {
	long := strings.Repeat("a", 300)
	for given, want := range map[string]string{
		"": "", "a=1": "a=1", "a=1, b@c=2": "a=1, b@c=2", "a=\x01": "", "a=\u00e9": "", "a=1\r\nb: c": "",
		"a=" + long + ",b=" + long: "a=" + long, "a=" + long + long: "",
		strings.Repeat("a", 512): strings.Repeat("a", 512), strings.Repeat("a", 512) + ",b": strings.Repeat("a", 512),
	} {
		if got := string(truncateTracestate([]byte(given))); got != want {
			t.Errorf("%.20q: %.20q, want %.20q", given, got, want)
		}
	}
}

// TestMultipleTracestateHeaders checks that multiple tracestate headers are read as one list, and
// that they are dropped if the traceparent is missing.
func TestMultipleTracestateHeaders(t *testing.T) {
	cl, tr := callClient{ctx: &fasthttp.RequestCtx{}}, traceContext{}
	h := &cl.ctx.Request.Header
	h.Add("Tracestate", "a=1")
	if got := tr.engineTracestate(&cl); got != nil {
		t.Errorf("without a trace context: %q", got)
	}
	h.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	h.Add("Tracestate", "b=2")
	if got := string(tr.engineTracestate(&cl)); got != "a=1,b=2" {
		t.Errorf("two lines: %q", got)
	}
	tr.saveClientContext(&cl)
	cl.ctx = nil
	if got := string(tr.engineTracestate(&cl)); got != "a=1,b=2" {
		t.Errorf("the state is %q, want %q", got, "a=1,b=2")
	}
}

// TestTraceContextIsCopied checks that the trace context for an engine does not change when
// fasthttp reuses the request headers. An exchange may send its request again after that.
func TestTraceContextIsCopied(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	cl, tr := callClient{ctx: &fasthttp.RequestCtx{}}, traceContext{}
	h := &cl.ctx.Request.Header
	h.Set("Traceparent", parent)
	h.Set("Tracestate", "a=1")
	gotParent, gotState := tr.engineTraceparent(&cl), tr.engineTracestate(&cl)
	h.Set("Traceparent", strings.Repeat("x", len(parent)))
	h.Set("Tracestate", "xxx")
	if string(gotParent) != parent || string(gotState) != "a=1" {
		t.Errorf("after the headers were reused: traceparent %q, tracestate %q", gotParent, gotState)
	}
}
