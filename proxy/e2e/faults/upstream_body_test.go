package faults

import (
	"slices"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
)

// Rows 9, 10, 20, 21 and 23: bodies that drip, end too soon, never end, or are no answer.

func TestFault09_BodyDripsOrStalls(t *testing.T) {
	t.Parallel()
	for fault, timeouts := range map[string]string{
		"slow-body;gap=50ms": "answer: 500ms", // there is always a next byte: the bound on the whole ends it
		"stall-after":        "idle: 300ms",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			inWays(t, append(slices.Clone(plainWays), transcription), setup{upstream: quiet, timeouts: timeouts}, func(e *edge, w way) {
				e.fault(fault)
				r := e.ask(w, "")
				r.wantRefused(w, tooSlow)
				r.within(4 * time.Second)
				e.wantSent(1)
				e.wantAborted(1)
				e.wantTold(w, tooSlow, "timeout", 1)
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
			inWays(t, variants(append(slices.Clone(plainWays), transcription), i), setup{upstream: quiet}, func(e *edge, w way) {
				e.fault(fault)
				e.ask(w, "").wantRefused(w, badResponse)
				e.wantSent(1)
				e.wantTold(w, badResponse, "upstream_fail", 1)
				e.wantResult("bad_response", 1)
				e.engines[0].SetFault()
				e.ask(w, "").text(w)
			})
		})
	}
}

func TestFault20_Endless(t *testing.T) {
	t.Parallel()
	for i, fault := range []string{"endless-header", "huge-header", "huge-header;lines=1"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			inWays(t, variants(everyWay, i), setup{upstream: quiet}, func(e *edge, w way) {
				e.fault(fault)
				e.ask(w, "").wantRefused(w, badResponse)
				e.wantTold(w, badResponse, "upstream_fail", 1)
				e.wantMemory(128 << 20)
				e.wantFresh(w)
			})
		})
	}
	t.Run("endless-json", func(t *testing.T) {
		t.Parallel()
		inWays(t, append(slices.Clone(plainWays), transcription), setup{upstream: quiet}, func(e *edge, w way) {
			e.fault("endless-json")
			e.ask(w, "").wantRefused(w, badResponse)
			e.wantAborted(1)
			e.wantMemory(256 << 20) // a body may be 32 MiB, and grows by doubling
		})
	})
	t.Run("endless-line", func(t *testing.T) {
		t.Parallel()
		inWays(t, streamWays, setup{upstream: quiet}, func(e *edge, w way) {
			e.fault("endless-line=2")
			e.ask(w, "").wantBroken(w, "upstream_bad_response")
			e.fault("endless-line=0")
			e.ask(w, "").wantRefused(w, badResponse)
			e.wantAborted(2)
			e.wantMemory(128 << 20) // an event may be 8 MiB
		})
	})
}

func TestFault21_NotAnAnswer(t *testing.T) {
	t.Parallel()
	check := func(fault string, ways []way) {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			inWays(t, ways, setup{upstream: quiet}, func(e *edge, w way) {
				e.fault(fault)
				e.ask(w, "").wantRefused(w, badResponse)
				e.wantSent(1)
				e.wantTold(w, badResponse, "upstream_fail", 1)
				e.engines[0].SetFault()
				e.ask(w, "").text(w)
			})
		})
	}
	for _, fault := range strings.Fields("no-choices no-choices;empty=1 empty-body html-200 no-content") {
		check(fault, allWays)
	}
	check("invalid-json", plainWays)
	check("sse-for-json", plainWays)
	for _, fault := range strings.Fields("invalid-json=0 json-for-sse json-for-sse;label=1") {
		check(fault, streamWays)
	}
}

func TestFault23_CompressionNobodyAskedFor(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"gzip", "gzip;bomb=256"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			inWays(t, everyWay, setup{engines: []sim.Options{{Record: true}}, upstream: quiet}, func(e *edge, w way) {
				if e.fault(fault); w == speech {
					e.fault("gzip;bomb=1") // the simulator packs no audio
				}
				r := e.post(w.path, w.body("sim", prompt, ""), w.contentType(), "Accept-Encoding: gzip, br")
				r.wantRefused(w, badResponse)
				if got := e.engines[0].Stats().LastRequest.Get("Accept-Encoding"); got != "identity" {
					e.t.Errorf("Accept-Encoding %q went upstream", got)
				}
				e.wantMemory(128 << 20)
				e.wantFresh(w)
			})
		})
	}
}
