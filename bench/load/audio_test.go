package load

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"penstock/bench/benchtest"
	"penstock/bench/load/client"
	"penstock/bench/result"
	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
)

// TestSpeech measures an engine that sends the header of an audio file immediately and the audio
// itself later.
func TestSpeech(t *testing.T) {
	t.Parallel()
	const wait = 400 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/audio/speech" {
			http.NotFound(w, r)
			return
		}
		sound := client.ToneWAV(0.1)
		w.Header().Set("Content-Type", "audio/wav")
		for i, piece := range [][]byte{sound[:44], sound[44:100], sound[100:]} {
			if i > 0 {
				time.Sleep(wait)
			}
			_, _ = w.Write(piece)
			w.(http.Flusher).Flush()
		}
	}))
	defer server.Close()
	r, records := runWithoutFloor(t, Options{BaseURL: server.URL, Model: "tts", Mix: "speech", NumPrompts: 6, MaxConcurrency: []int{6}, InputLen: "5"})
	ttft, e2el := r.Penstock.Total.Latency[result.TTFT], r.Penstock.Total.Latency[result.E2EL]
	// A busy client may record the time of sending late, so its latencies may be shorter than the
	// server's delays.
	if r.Completed != 6 || ttft == nil || ttft.Min < wait.Seconds()*500 || e2el.Min < wait.Seconds()*1500 {
		t.Errorf("completed %d: TTFT %+v, E2EL %+v", r.Completed, ttft, e2el)
	}
	for _, x := range records {
		if x.FirstByteNS == nil || x.FirstTokenNS == nil || x.SentNS == nil || *x.FirstTokenNS-*x.SentNS < int64(wait/2) || *x.FirstByteNS > *x.FirstTokenNS || x.Chunks != 0 {
			t.Errorf("the head of the file counts as sound: %+v", x)
		}
	}
}

// TestInvalidSpeech checks that neither an error object with status 200 nor a response without
// audio counts as speech.
func TestInvalidSpeech(t *testing.T) {
	for kind, text := range map[string]string{"application/json": `{"error":{"code":"voice_unknown"}}`, "audio/wav": "RIFF"} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				http.NotFound(w, r)
				return
			}
			asked.Add(1)
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, text)
		}))
		_, _, err := Run(t.Context(), Options{BaseURL: server.URL, Model: "tts", Mix: "speech", NumPrompts: 2, NoFloor: true}, nil)
		server.Close()
		if err == nil || !strings.Contains(err.Error(), "failed a first speech request: body") || asked.Load() == 0 {
			t.Errorf("%s: Run: %v, want a failed first speech request", kind, err)
		}
	}
}

// transcriber returns a handler for transcription requests. Depending on manner, it streams deltas,
// does not stream even if a stream was requested, or refuses requests for streams.
func transcriber(manner string, gap time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/audio/transcriptions" {
			http.NotFound(w, r)
			return
		}
		stream := r.FormValue("stream") == "true"
		switch {
		case stream && manner == "refuse":
			http.Error(w, `{"error":{"message":"no","code":"unsupported_parameter","param":"stream"}}`, http.StatusBadRequest)
		case !stream || manner == "ignore":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"text":"one two three"}`)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			for i, word := range []string{"one ", "two ", "three"} {
				if i > 0 {
					time.Sleep(gap)
				}
				fmt.Fprintf(w, "data: {\"type\":\"transcript.text.delta\",\"delta\":%q}\n\n", word)
				w.(http.Flusher).Flush()
			}
			_, _ = io.WriteString(w, "data: {\"type\":\"transcript.text.done\",\"text\":\"one two three\",\"usage\":{\"type\":\"tokens\",\"input_tokens\":9,\"output_tokens\":3}}\n\n")
		}
	}
}

// TestTranscriptions checks that transcriptions are streamed if the target supports streaming.
// Otherwise, they must be requested unstreamed, and the verdict mentions that.
func TestTranscriptions(t *testing.T) {
	t.Parallel()
	for _, manner := range []string{"stream", "ignore", "refuse"} {
		server := httptest.NewServer(transcriber(manner, 500*time.Millisecond))
		r, _ := runWithoutFloor(t, Options{BaseURL: server.URL, Model: "asr", Mix: "transcription", NumPrompts: 20, MaxConcurrency: []int{10}})
		server.Close()
		total := &r.Penstock.Total
		if r.Completed != 20 || len(total.StreamFaults) > 0 {
			t.Fatalf("%s: completed %d, errors %v, stream faults %v; want 20 and none", manner, r.Completed, total.Errors, total.StreamFaults)
		}
		told := slices.ContainsFunc(r.Penstock.Verdict.Reasons, func(r result.Reason) bool { return r.Code == "not_streamed" && !r.Invalidates })
		if manner != "stream" {
			if total.Latency[result.TTFT] != nil || total.Unmeasured[result.TTFT] == "" || !told || r.Penstock.Load.Streamed {
				t.Errorf("%s: TTFT %+v, told %v", manner, total.Latency[result.TTFT], told)
			}
			continue
		}
		ttft, itl, e2el := total.Latency[result.TTFT], total.Latency[result.ITL], total.Latency[result.E2EL]
		if ttft == nil || itl == nil || itl.Count < 10 || e2el.Min < 750 || ttft.Percentile(50) > e2el.Percentile(50)-500 || told || *r.TotalOutputTokens != 60 {
			t.Errorf("TTFT %+v, ITL %+v, E2EL %+v, told %v", ttft, itl, e2el, told)
		}
	}
}

// TestAudioOfTheSimulator measures speech from an engine with known timing.
func TestAudioOfTheSimulator(t *testing.T) {
	fastset.SkipIfShort(t, "audio in real time")
	t.Parallel()
	e := benchtest.StartEngine(t, sim.Options{Latency: 300 * time.Millisecond, TokenRate: 10})
	r, _ := runWithoutFloor(t, Options{BaseURL: e.URL(), Mix: "speech", NumPrompts: 4, MaxConcurrency: []int{4}, InputLen: "6"})
	ttft, e2el := r.Penstock.Total.Latency[result.TTFT], r.Penstock.Total.Latency[result.E2EL]
	if ttft == nil || ttft.Min < 290 || e2el.Min < ttft.Min+400 {
		t.Errorf("TTFT %+v, E2EL %+v of an engine that needs 300 ms and then 100 ms a word", ttft, e2el)
	}
}
