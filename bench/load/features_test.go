package load

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock/bench/benchtest"
	"penstock/bench/load/client"
	"penstock/bench/report"
	"penstock/bench/result"
	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
)

// TestMix checks a run with all dialects that the simulated engine supports. The end-to-end tests
// check the other dialects by sending requests through an edge.
func TestMix(t *testing.T) {
	e := benchtest.StartEngine(t, sim.Options{})
	for _, whole := range []bool{false, true} {
		r, _ := runWithoutFloor(t, Options{BaseURL: e.URL(), Mix: "chat:9,completions:2,embeddings:1,transcription:1,speech:1", NumPrompts: 90, MaxConcurrency: []int{4}, InputLen: "20", OutputLen: "6", NoStream: whole})
		if r.Completed != 90 || len(r.Penstock.ByDialect) != 5 {
			t.Errorf("completed %d of %d dialects: %v", r.Completed, len(r.Penstock.ByDialect), r.Penstock.Total.Errors)
		}
		if ttft := r.Penstock.ByDialect["chat"].Latency[result.TTFT]; (ttft == nil) != whole {
			t.Errorf("not streamed %v: TTFT %v", whole, ttft)
		}
		if speech := r.Penstock.ByDialect["speech"]; speech.Latency[result.TTFT] == nil || speech.Unmeasured[result.ITL] == "" || r.RTFX == nil {
			t.Error("speech: no time to the first byte, or no reason for ITL, or no RTFx of transcriptions")
		}
	}
}

// TestTurns checks conversations with tools and images.
func TestTurns(t *testing.T) {
	e := benchtest.StartEngine(t, sim.Options{Record: true})

	_, records := runWithoutFloor(t, Options{BaseURL: e.URL(), NumPrompts: 4, MaxConcurrency: []int{1}, NumTurns: 3, Tools: 2, Images: 1, InputLen: "20", OutputLen: "40"})
	if len(records) != 12 {
		t.Fatalf("%d requests of 4 conversations of 3 turns", len(records))
	}
	for i, r := range records {
		if r.Turn != i%3 || r.Error != "" {
			t.Errorf("record %d: turn %d, %s %s", i, r.Turn, r.Error, r.Code)
		}
	}
	var last struct {
		Messages []struct{ Role string }
		Tools    []any
	}
	seen := e.Recorded()
	if err := json.Unmarshal(seen[len(seen)-1].Body, &last); err != nil {
		t.Fatal(err)
	}
	if len(last.Messages) < 5 || len(last.Tools) != 2 || last.Messages[1].Role != "assistant" {
		t.Errorf("last turn: %+v", last)
	}
}

// TestNonce checks that a second run with the same workload misses the cache, unless cache hits are
// allowed.
func TestNonce(t *testing.T) {
	e := benchtest.StartEngine(t, sim.Options{})
	o := Options{BaseURL: e.URL(), NumPrompts: 20, MaxConcurrency: []int{2}, InputLen: "200", OutputLen: "2", Seed: 7}
	runWithoutFloor(t, o)
	if r, _ := runWithoutFloor(t, o); *r.Penstock.Total.CachedShare > 0.02 {
		t.Errorf("the second run found %.2f in the cache", *r.Penstock.Total.CachedShare)
	}
	o.AllowCache = true
	runWithoutFloor(t, o)
	if r, _ := runWithoutFloor(t, o); *r.Penstock.Total.CachedShare < 0.5 {
		t.Errorf("with caches allowed the second run found only %.2f in the cache", *r.Penstock.Total.CachedShare)
	}
}

// TestPrefix checks requests with common prefixes.
func TestPrefix(t *testing.T) {
	e := benchtest.StartEngine(t, sim.Options{})
	r, _ := runWithoutFloor(t, Options{BaseURL: e.URL(), NumPrompts: 40, MaxConcurrency: []int{1}, InputLen: "32", OutputLen: "2", PrefixLen: 300, NumPrefixes: 2})
	if share := *r.Penstock.Total.CachedShare; share < 0.6 || share > 0.95 {
		t.Errorf("cached share %.2f of prompts that are nine tenths prefix", share)
	}
}

// TestTrace checks the replay of a trace at ten times its speed.
func TestTrace(t *testing.T) {
	e := benchtest.StartEngine(t, sim.Options{})
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	text := ""
	for i := range 30 {
		text += fmt.Sprintf("{\"timestamp\":%d,\"input_length\":600,\"output_length\":3,\"hash_ids\":[1,%d]}\n", 100*i, 2+i%5)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, records := runWithoutFloor(t, Options{BaseURL: e.URL(), DatasetName: "trace", DatasetPath: path, TimeScale: 0.1})
	if r.Completed != 30 || r.Penstock.Load.Mode != "trace" {
		t.Fatalf("completed %d, mode %s", r.Completed, r.Penstock.Load.Mode)
	}
	if got := time.Duration(records[29].ScheduledNS - records[0].ScheduledNS); got != 290*time.Millisecond {
		t.Errorf("from the first to the last: %v, want 290ms", got)
	}
	if share := *r.Penstock.Total.CachedShare; share < 0.5 {
		t.Errorf("cached share %.2f, although hash ids repeat", share)
	}
	if p := r.Penstock.Phases; len(p) != 1 || p[0].Requests != 30 || p[0].Failed != 0 || p[0].OutputTokens != 90 ||
		*p[0].CachedShare != *r.Penstock.Total.CachedShare || p[0].TTFT.Count != 30 || p[0].Imbalance != nil {
		t.Errorf("phases = %+v, want one with 30 requests and 90 output tokens", p)
	}
}

// TestTraceOfSessions checks that each call in a recorded session contains the session's name. A
// call must not be sent until the previous response has arrived and the recorded pause has passed.
func TestTraceOfSessions(t *testing.T) {
	e := benchtest.StartEngine(t, sim.Options{Record: true, Latency: 30 * time.Millisecond})
	path := filepath.Join(t.TempDir(), "sessions.jsonl")
	text := `{"s":"a","i":0,"t":0,"in":1100,"out":2,"sys":600}
{"s":"a","i":1,"t":1,"think":1,"in":1200,"out":2,"from":0,"keep":17}
{"s":"a","i":2,"t":2,"think":1,"in":1300,"out":2,"from":1,"keep":18}
{"s":"b","i":0,"t":0,"in":1100,"out":2,"sys":600}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, records := runWithoutFloor(t, Options{BaseURL: e.URL(), DatasetName: "trace", DatasetPath: path, TimeScale: 0.01})
	if r.Completed != 4 || *r.Penstock.Stages[0].Scheduled != 4 {
		t.Fatalf("completed %d, scheduled %v", r.Completed, *r.Penstock.Stages[0].Scheduled)
	}
	for i := 1; i < 3; i++ {
		if wait := time.Duration(records[i].ScheduledNS - records[i-1].EndNS); wait < 10*time.Millisecond {
			t.Errorf("call %d is due %v after the answer before it, want 10ms", i, wait)
		}
	}
	names := map[string]int{}
	for _, q := range e.Recorded() {
		if name := q.Get("X-Session-Id"); name != "" {
			names[name[len(name)-1:]]++
		}
	}
	if names["a"] != 3 || names["b"] != 1 {
		t.Errorf("sessions in the requests: %v", names)
	}
}

// TestTimeScale checks that values of --time-scale outside the allowed range are rejected.
func TestTimeScale(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	text := `{"timestamp":0,"input_length":1,"output_length":1}` + "\n" + `{"timestamp":1e9,"input_length":1,"output_length":1}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var f TimeFactor
	for _, bad := range []string{"0", "-1", "NaN", "inf", "0.0001", "1001", "fast", "", "1/0", "1/", "/2"} {
		if err := f.UnmarshalText([]byte(bad)); err == nil || !strings.Contains(err.Error(), "0.001") {
			t.Errorf("--time-scale %q: %v", bad, err)
		}
	}
	for text, want := range map[string]TimeFactor{"0.25": 0.25, "1/4": 0.25, "1/0.5": 2} {
		if err := f.UnmarshalText([]byte(text)); err != nil || f != want {
			t.Errorf("--time-scale %s: %v, %v", text, f, err)
		}
	}
	trace := Options{BaseURL: "http://127.0.0.1:1", DatasetName: "trace", DatasetPath: path}
	for want, o := range map[string]Options{
		"--dataset-name trace":    {TimeScale: 2},
		"0.001":                   {DatasetName: "trace", DatasetPath: path, TimeScale: TimeFactor(math.NaN())},
		"last longer than a year": {DatasetName: "trace", DatasetPath: path, TimeScale: 1000},
	} {
		o.BaseURL = trace.BaseURL
		if _, _, err := Run(t.Context(), o, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", o.TimeScale, err, want)
		}
	}
}

// TestStages checks a run with a list of stages, and a sweep.
func TestStages(t *testing.T) {
	e := benchtest.StartEngine(t, sim.Options{})
	r, _ := runWithoutFloor(t, Options{BaseURL: e.URL(), MaxConcurrency: []int{1, 2, 4}, NumPrompts: 25, InputLen: "20", OutputLen: "2", Goodput: []string{"ttft:60000"}})
	if n := len(r.Penstock.Stages); n != 3 || r.Completed != 75 || r.RequestGoodput == nil || !*r.Penstock.Stages[2].Met {
		t.Errorf("%d stages, %d requests, goodput %v", n, r.Completed, r.RequestGoodput)
	}
	r, _ = runWithoutFloor(t, Options{BaseURL: e.URL(), Profile: "sweep", MaxStages: 3, NumPrompts: 20, InputLen: "20", OutputLen: "2"})
	var names []string
	for i := range r.Penstock.Stages {
		names = append(names, strings.Fields(r.Penstock.Stages[i].Name)[0])
	}
	got := strings.Join(names, " ")
	if s := r.Penstock.Search; s == nil || s.Profile != "sweep" || got != "concurrency concurrency rate" && got != "concurrency concurrency concurrency rate" {
		t.Errorf("sweep: stages %s, %+v", got, s)
	}
}

// TestMeasureSaturation checks that the search finds the limit of an engine of unknown size, and
// never starts more clients than it has requests.
func TestMeasureSaturation(t *testing.T) {
	for _, row := range []struct {
		slots, most int
		want        string
	}{
		{4, 1024, "4 at 8 32"},
		{64, 1024, "64 at 8 32 128 512"},
		{300, 1024, "300 at 8 32 128 512 1024"},
		{5000, 1024, "1024 at 8 32 128 512 1024"},
		{64, 50, "50 at 8 32 50"},
		{64, 5, "5 at 5"},
		{0, 1024, "0 at 8"},
	} {
		asked := ""
		highest := measureSaturation(row.most, func(clients int) float64 {
			asked += fmt.Sprintf(" %d", clients)
			return float64(min(clients, row.slots))
		})
		if got := fmt.Sprintf("%v at%s", highest, asked); got != row.want {
			t.Errorf("%d slots, %d requests: %s, want %s", row.slots, row.most, got, row.want)
		}
	}
}

// TestPoissonIsValid checks that a low random number of arrivals is not attributed to the client.
// It runs short stages with seeds for which the number of Poisson arrivals is more than 5 % below
// the nominal rate.
func TestPoissonIsValid(t *testing.T) {
	fastset.SkipIfShort(t, "an open loop of several seconds")
	e := benchtest.StartEngine(t, sim.Options{})
	few := 0
	for seed := range uint64(6) {
		r, _ := runWithoutFloor(t, Options{BaseURL: e.URL(), RequestRate: []string{"40"}, Duration: PositiveDuration(time.Second), Seed: seed, InputLen: "10", OutputLen: "1"})
		st := r.Penstock.Stages[0]
		if st.Scheduled == nil || st.Requests != *st.Scheduled {
			t.Fatalf("seed %d: %d requests, scheduled %v", seed, st.Requests, st.Scheduled)
		}
		if float64(*st.Scheduled) < minAchievedRateShare*40 {
			few++
		}
		for _, why := range r.Penstock.Verdict.Reasons {
			if why.Code == "schedule_missed" && strings.HasPrefix(why.Text, "stage") {
				t.Errorf("seed %d, %d scheduled: %s", seed, *st.Scheduled, why.Text)
			}
		}
	}
	if few == 0 {
		t.Error("no seed scheduled fewer than 95 % of the nominal rate: the test proves nothing")
	}
}

// TestSearchAlone checks that a search without a given concurrency starts with one request at a
// time. If the objectives are missed even then, the report says so and the exit code is
// exit.CheckFailed.
func TestSearchAlone(t *testing.T) {
	fastset.SkipIfShort(t, "a search for the highest rate")
	e := benchtest.StartEngine(t, sim.Options{Slots: 1, Latency: 20 * time.Millisecond})
	o := Options{BaseURL: e.URL(), Profile: "search", NumPrompts: 20, InputLen: "10", OutputLen: "1", Goodput: []string{"e2el:1"}, MaxStages: 2}
	r, _ := runWithoutFloor(t, o)
	if s := r.Penstock.Stages[0]; len(r.Penstock.Stages) != 1 || s.Concurrency == nil || *s.Concurrency != 1 || r.Penstock.Search.Rate != nil {
		t.Fatalf("%d stages, the first %+v, search %+v", len(r.Penstock.Stages), s.Name, r.Penstock.Search)
	}
	var text strings.Builder
	if err := report.WriteText(&text, r); err != nil || !strings.Contains(text.String(), "No load tried met the objectives, not even one request at a time: e2el.") {
		t.Errorf("report: %v, want that no load met the objectives: %s", err, text.String())
	}
	o.Goodput = []string{"e2el:60000"}
	if r, _ = runWithoutFloor(t, o); len(r.Penstock.Stages) < 2 || r.Penstock.Stages[1].Rate == nil {
		t.Errorf("%d stages, no rate", len(r.Penstock.Stages))
	}
}

// TestSearch checks that a search finds the highest rate of an engine that can serve at most 40
// requests per second. A busy machine can only lower the measured rate, so the best of three runs
// counts.
func TestSearch(t *testing.T) {
	fastset.SkipIfShort(t, "a search for the highest rate")
	t.Parallel()
	e := benchtest.StartEngine(t, sim.Options{Slots: 4, Latency: 100 * time.Millisecond})
	var s *result.Search
	for range 3 {
		r, _ := runWithoutFloor(t, Options{BaseURL: e.URL(), Profile: "search", RequestRate: []string{"20"}, Constant: true, NumPrompts: 80, InputLen: "10", OutputLen: "1", Goodput: []string{"e2el:900"}, MaxStages: 5})
		if s = r.Penstock.Search; s != nil && s.Rate != nil && s.Limit != nil && *s.Limit > 20 && *s.Limit <= 160 {
			return
		}
	}
	t.Errorf("search: %+v of an engine with a limit of 40", s)
}

// TestCompareURL checks that a comparison measures by how much a target is slower.
func TestCompareURL(t *testing.T) {
	fastset.SkipIfShort(t, "a comparison over a network")
	t.Parallel()
	slow, fast := benchtest.StartEngine(t, sim.Options{Latency: 300 * time.Millisecond}), benchtest.StartEngine(t, sim.Options{Latency: 50 * time.Millisecond})
	r, _ := runWithoutFloor(t, Options{BaseURL: slow.URL(), CompareURL: fast.URL(), NumPrompts: 60, MaxConcurrency: []int{6}, InputLen: "10", OutputLen: "2"})
	c := r.Penstock.Compare
	if c == nil || c.Pairs != 30 || r.Completed != 30 || c.Total.Completed != 30 {
		t.Fatalf("comparison = %+v, want 30 pairs", c)
	}
	for _, d := range c.Differences {
		noise := (d.High - d.Low) / 2 // large on a busy machine
		if d.Measure == result.TTFT && d.Statistic == "mean" && (d.Low > d.Delta || d.High < d.Delta || d.Significant != (d.Low > 0) || math.Abs(d.Delta-250) > 200+noise) {
			t.Errorf("difference %+v, want about 250 ms", d)
		}
	}
}

// TestDisconnects disconnects clients early, and checks that the engine frees their slots.
func TestDisconnects(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"tokens=2", "prefill", "after=50ms"} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			e := benchtest.StartEngine(t, sim.Options{TokenRate: 4, Latency: time.Second, Slots: 32})
			r, _ := runWithoutFloor(t, Options{BaseURL: e.URL(), NumPrompts: 30, MaxConcurrency: []int{30}, InputLen: "10", OutputLen: "8", LeaveShare: "0.5@" + phase})
			l := r.Penstock.Leave
			if l == nil || l.Left < 5 || l.Verified == nil || !*l.Verified || *l.Leaked != 0 || l.Source != "vllm:num_requests_running" {
				t.Errorf("phase %s: leaving clients %+v, want 5 or more, verified without a leak", phase, l)
			}
			// A client that gets no processor time may leave after the engine has sent everything.
			s := e.Stats()
			if late := int(s.Completed) - r.Completed; s.Aborted == 0 || int(s.Aborted)+late < l.Left {
				t.Errorf("%s: %d left, the engine saw %d and had finished %d", phase, l.Left, s.Aborted, late)
			}
			if r.Failed != 0 || r.Completed+l.Left != 30 {
				t.Errorf("%s: %d completed, %d failed, %d left: %v", phase, r.Completed, r.Failed, l.Left, r.Penstock.Total.Errors)
			}
		})
	}
}

// failingFleet is a fleet with a single engine. After the event "fail", the engine responds with
// 503.
type failingFleet struct{ engine string }

func (f failingFleet) PerformAction(context.Context, string) (string, error) {
	r, err := http.Post(f.engine+"/sim/fault", "application/json", strings.NewReader(`{"fault":"status=503"}`))
	if err == nil {
		r.Body.Close()
	}
	return "fails", err
}

// TestEvents checks that failures after an event in the middle of a run are counted, and that
// expected failures are also counted separately.
func TestEvents(t *testing.T) {
	t.Parallel()
	e := benchtest.StartEngine(t, sim.Options{})
	r, _ := runWithoutFloor(t, Options{BaseURL: e.URL(), RequestRate: []string{"40"}, Duration: PositiveDuration(2 * time.Second), InputLen: "10", OutputLen: "2", Events: []string{"1s:fail", "9s:fail"}, Fleet: failingFleet{e.URL()}, ExpectErrors: []string{"status 503@event", "429"}})
	ev := r.Penstock.Events
	if len(ev) != 2 || ev[0].Error != "" || ev[0].Seen != "fails" || ev[0].Lost == 0 || ev[0].Lost != r.Failed || ev[1].Error == "" {
		t.Errorf("failed %d, events %+v", r.Failed, ev)
	}
	if errs := r.Penstock.Total.Errors; len(errs) != 1 || errs[0].Count != r.Failed || errs[0].Expected != r.Failed {
		t.Errorf("errors %+v: all belong to the event", errs)
	}
}

// TestTokenSources checks how tokens are counted if the target reports no usage.
func TestTokenSources(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"))
	}))
	defer server.Close()
	r, _ := runWithoutFloor(t, Options{BaseURL: server.URL, Model: "m", NumPrompts: 20, MaxConcurrency: []int{1}, InputLen: "10", OutputLen: "1"})
	if r.Penstock.Tokens.Output[result.TokensEstimated] != 20 || *r.TotalOutputTokens != 20 {
		t.Errorf("sources %v, %d tokens", r.Penstock.Tokens, *r.TotalOutputTokens)
	}
}

// TestMeasureClientOverhead checks the measurement of the client against the noopServer.
func TestMeasureClientOverhead(t *testing.T) {
	f, err := measureClientOverhead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f.TTFT.Count != overheadRequestCount || f.ITLError.Count < overheadStreamCount*overheadStreamTokens/4 || f.TTFT.Percentile(50) > 1000 {
		t.Errorf("floor = %+v, want %d rounds and a median TTFT of at most 1 ms", f, overheadRequestCount)
	}
}

// TestLostTokens checks that the verdict detects one stream in thirty that lacks a token.
func TestLostTokens(t *testing.T) {
	var samples []client.Sample
	for i := range 30 {
		s := client.Sample{Dialect: client.FindDialect("chat"), Stream: true, Finish: "length"}
		s.Tokens.Out, s.Tokens.OutSource, s.Flow.Chunks = 10, result.TokensFromUsage, 10
		if i == 7 {
			s.Flow.Chunks = 9
		}
		samples = append(samples, s)
	}
	markLostTokens(samples)
	for i := range samples {
		if lost := slices.Contains(samples[i].Faults.Names(), result.FaultLost); lost != (i == 7) {
			t.Errorf("stream %d: lost %v", i, lost)
		}
	}
}

// TestLoadIsInTheResult checks the members of a result that the notes of a comparison use.
func TestLoadIsInTheResult(t *testing.T) {
	e := benchtest.StartEngine(t, sim.Options{})
	for _, whole := range []bool{false, true} {
		r, _ := runWithoutFloor(t, Options{BaseURL: e.URL(), NumPrompts: 2, MaxConcurrency: []int{2}, InputLen: "uniform:5-9", OutputLen: "4", NoStream: whole})
		l := r.Penstock.Load
		if l.Dataset != "random" || l.InputLength != "uniform:5-9" || l.OutputLength != "4" || l.Streamed == whole {
			t.Errorf("whole answers %v: %+v", whole, l)
		}
	}
}
