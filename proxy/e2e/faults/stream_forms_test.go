package faults

import (
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests cover rows 18 and 19: an error as the first event, and the many valid forms of a
// stream.

func TestFault18_ErrorFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec    string
		want    rig.Refusal
		outcome string
	}{
		{"error-first", rig.RefusalNoRoute, "no_route"},
		{"error-first;code=500", rig.RefusalEngineFailed, "upstream_fail"},
		{"error-first;code=429", rig.RefusalCapacityFull, "limited"},
		{"error-first;code=400;message=max_tokens must be at least 1", rig.RefusalByEngine, "client_error"},
	} {
		t.Run(c.spec, func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.StreamRequestTypes, rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				e.fault(c.spec)
				e.wantRefusedOnce(w, c.want, c.outcome)
			})
		})
	}
	t.Run("other", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.StreamRequestTypes, rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Model: roundRobinPolicy}, func(e *edge, w rig.RequestType) {
			e.Engines[0].SetFault(sim.Fault{Spec: "error-first"})
			e.wantRetried(w, 4)
		})
	})
}

func TestFault19_OtherFormsOfSSE(t *testing.T) {
	t.Parallel()
	const said = `Fünf große Übel: \"quoted\", 漢字, 👩🏽‍🚀, \\ and \n line.`
	const want = "Fünf große Übel: \"quoted\", 漢字, 👩🏽‍🚀, \\ and \n line."
	forEachRequestType(t, rig.StreamRequestTypes, rig.Setup{}, func(e *edge, w rig.RequestType) {
		for _, spec := range []string{
			"", "crlf", "cr", "nospace", "comments", "multiline-data", "fields", "bom", "escaped", "open-end", "byte-by-byte", "split",
			"crlf+split", "cr+byte-by-byte", "multiline-data+split", "bom+comments+fields+crlf+split", "close-delimited+split", "escaped+byte-by-byte",
			"usage-every-chunk", "usage-on-finish", "no-usage", "usage-unasked",
		} {
			e.fault(spec)
			if got := e.SendRequest(w, `"text":"`+said+`"`).VisibleText(w); got != want {
				e.T.Errorf("%s: text %q, want %q", spec, got, want)
			}
		}
		for _, size := range []string{"2097152", "8000000"} {
			e.fault("huge-event=" + size)
			if got := e.SendRequest(w, "").VisibleText(w); strings.Count(got, "w") < 2<<20 {
				e.T.Errorf("huge-event=%s: %d bytes of text", size, len(got))
			}
		}
		e.fault("huge-event=9000000")
		e.SendRequest(w, "").WantBrokenStream(w, "upstream_bad_response")
		e.WantPeakMemory(256 << 20)
	})
}
