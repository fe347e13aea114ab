package faults

import (
	"slices"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests cover rows 9, 10, 20, 21 and 23: bodies that arrive very slowly, end too early, never
// end, or are not an answer.

func TestFault09_BodyDripsOrStalls(t *testing.T) {
	t.Parallel()
	for fault, timeouts := range map[string]string{
		// Bytes keep arriving, so only the total timeout ends the answer.
		"slow-body;gap=50ms": "answer: 1500ms",
		"stall-after":        "idle: 1s",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, append(slices.Clone(rig.UnstreamedRequestTypes), rig.Transcription), rig.Setup{Upstream: rig.QuietProbes, Timeouts: timeouts}, func(e *edge, w rig.RequestType) {
				e.fault(fault)
				r := e.SendRequest(w, "")
				r.WantRefused(w, rig.RefusalTooSlow)
				r.WantWithin(4 * time.Second)
				e.wantSent(1)
				e.wantAborted(1)
				e.wantAccessLine(w, rig.RefusalTooSlow, "timeout", 1)
			})
		})
	}
}

func TestFault10_JSONCutShort(t *testing.T) {
	t.Parallel()
	faults := []string{"short-body", "chunked+chunk-cut", "cut-after", "reset-after", "invalid-json"}
	for _, kind := range strings.Fields("size negative huge nocrlf empty") {
		faults = append(faults, "chunked+bad-chunk;kind="+kind)
	}
	for i, fault := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesForVariant(append(slices.Clone(rig.UnstreamedRequestTypes), rig.Transcription), i), rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				e.fault(fault)
				e.wantRefusedOnce(w, rig.RefusalBadResponse, "upstream_fail")
				e.wantResult("bad_response", 1)
				e.Engines[0].SetFault()
				e.SendRequest(w, "").VisibleText(w)
			})
		})
	}
}

func TestFault20_Endless(t *testing.T) {
	t.Parallel()
	for i, fault := range []string{"endless-header", "huge-header", "huge-header;lines=1"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesForVariant(rig.RequestTypesWithAudio, i), rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				e.fault(fault)
				e.SendRequest(w, "").WantRefused(w, rig.RefusalBadResponse)
				e.wantAccessLine(w, rig.RefusalBadResponse, "upstream_fail", 1)
				e.WantPeakMemory(128 << 20)
				e.wantNewConnection(w)
			})
		})
	}
	t.Run("endless-json", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, append(slices.Clone(rig.UnstreamedRequestTypes), rig.Transcription), rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
			e.fault("endless-json")
			if r := e.SendRequest(w, ""); w != rig.Transcription {
				r.WantRefused(w, rig.RefusalBadResponse)
				// The edge passes the answer on while receiving it, so it can only abort the
				// answer.
			} else if r.Status != 200 || r.Err == nil {
				e.T.Errorf("status = %d, %v; want 200 and a cut answer", r.Status, r.Err)
			}
			e.wantAborted(1)
			// a body may have 32 MiB, and the size of the buffer doubles when it grows
			e.WantPeakMemory(256 << 20)
		})
	})
	t.Run("endless-line", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.StreamRequestTypes, rig.Setup{Upstream: rig.QuietProbes, Stream: "commit_after: 5m"}, func(e *edge, w rig.RequestType) {
			e.fault("endless-line=2")
			e.SendRequest(w, "").WantBrokenStream(w, "upstream_bad_response")
			e.fault("endless-line=0")
			e.SendRequest(w, "").WantRefused(w, rig.RefusalBadResponse)
			e.wantAborted(2)
			e.WantPeakMemory(128 << 20) // an event may have 8 MiB
		})
	})
}

func TestFault21_NotAnAnswer(t *testing.T) {
	t.Parallel()
	check := func(fault string, ways []rig.RequestType) {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, ways, rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				e.fault(fault)
				e.wantRefusedOnce(w, rig.RefusalBadResponse, "upstream_fail")
				e.Engines[0].SetFault()
				e.SendRequest(w, "").VisibleText(w)
			})
		})
	}
	for _, fault := range strings.Fields("no-choices no-choices;empty=1 empty-body html-200 no-content") {
		check(fault, rig.TextRequestTypes)
	}
	check("invalid-json", rig.UnstreamedRequestTypes)
	check("sse-for-json", rig.UnstreamedRequestTypes)
	check("invalid-json=0", rig.StreamRequestTypes)
}

// TestFault21_WholeForStream checks that the edge converts an unstreamed answer to a stream if the
// client requested a stream.
func TestFault21_WholeForStream(t *testing.T) {
	t.Parallel()
	for _, fault := range strings.Fields("json-for-sse json-for-sse;label=1") {
		forEachRequestType(t, rig.StreamRequestTypes, rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
			e.fault(fault)
			e.SendRequest(w, "").VisibleText(w)
		})
	}
}

func TestFault23_UnrequestedCompression(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"gzip", "gzip;bomb=256"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Engines: []sim.Options{{Record: true}}, Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				if e.fault(fault); w == rig.Speech {
					e.fault("gzip;bomb=1") // the simulator does not compress audio
				}
				r := e.Post(w.Path, w.RequestBody("sim", rig.Prompt, ""), w.ContentType(), "Accept-Encoding: gzip, br")
				r.WantRefused(w, rig.RefusalBadResponse)
				if got := e.Engines[0].Stats().LastRequest.Get("Accept-Encoding"); got != "identity" {
					e.T.Errorf("Accept-Encoding %q went upstream", got)
				}
				e.WantPeakMemory(128 << 20)
				e.wantNewConnection(w)
			})
		})
	}
}
