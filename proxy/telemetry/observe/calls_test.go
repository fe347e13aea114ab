package observe

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"penstock/config"
	"penstock/config/instant"
	"penstock/config/testkit/raced"
)

func newTestCalls(t testing.TB) (*Calls, func() string) {
	t.Helper()
	set := metrics.NewSet()
	c := NewCalls(set, zap.NewNop(), config.Log{})
	c.SetConfigured([]string{"m", "n"}, []string{"a", "b"}, nil)
	return c, func() string {
		var b bytes.Buffer
		if err := WritePrometheusText(&b, set.WritePrometheus); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
}

func successfulRecord(model, upstream string) *Record {
	return &Record{
		Dialect: "chat", Model: model, Upstream: upstream, Pool: "text", Key: "k", Start: time.Now().Add(-time.Second), Stream: true, Status: 200, Attempts: 1,
		Outcome: OutcomeOK, PromptTokens: 10, CompletionTokens: 20, CachedTokens: 4, TTFT: 100 * time.Millisecond, UpstreamTTFT: 90 * time.Millisecond, Overhead: 80 * time.Microsecond,
	}
}

func finish(c *Calls, r *Record) {
	c.BeginCall()
	c.FinishCall(r, time.Now())
}

// TestFinishCountsFailures checks that each failed attempt is counted, even if another upstream
// answered the call. It also checks that an unknown status or upstream has no separate series.
func TestFinishCountsFailures(t *testing.T) {
	c, page := newTestCalls(t)
	r := successfulRecord("m", "b")
	r.Failed = []FailedAttempt{
		{Upstream: "a", Cause: "status", EngineStatus: 500},
		{Upstream: "a", Cause: "status", EngineStatus: 998},
		{Upstream: "a", Cause: "status", EngineStatus: 999},
		{Upstream: "b", Cause: "connect"},
		{Upstream: "gone", Cause: "connect"},
	}
	finish(c, r)
	text := page()
	for _, want := range []string{
		`penstock_upstream_failures_total{upstream="a",cause="status",status="500"} 1`,
		`penstock_upstream_failures_total{upstream="a",cause="status",status="other"} 2`,
		`penstock_upstream_failures_total{upstream="b",cause="connect",status="-"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the page lacks %s", want)
		}
	}
	if n := strings.Count(text, "penstock_upstream_failures_total{"); n != 3 {
		t.Errorf("there are %d series", n)
	}
	c.SetConfigured([]string{"m", "n"}, []string{"b"}, nil)
	if n := strings.Count(page(), "penstock_upstream_failures_total{"); n != 1 {
		t.Errorf("%d series are left after one of two upstreams was removed", n)
	}
}

func TestFinishCounts(t *testing.T) {
	c, page := newTestCalls(t)
	fresh := page()
	for _, want := range []string{
		`penstock_limit_refusals_total{limit="pool"} 0`, `penstock_limit_refusals_total{limit="engine"} 0`, `penstock_limit_refusals_total{limit="tokens_per_minute"} 0`,
		`penstock_client_aborts_total{phase="waiting"} 0`, `penstock_client_aborts_total{phase="stalled"} 0`,
	} {
		if !strings.Contains(fresh, want+"\n") {
			t.Errorf("no %s before the first event in\n%s", want, fresh)
		}
	}
	finish(c, successfulRecord("m", "a"))
	finish(c, &Record{Dialect: "chat", Outcome: OutcomeClientError, Status: 401, Code: "invalid_api_key"})
	finish(c, &Record{Dialect: "chat", Model: "m", Outcome: OutcomeLimited, Status: 429, Code: "capacity_full"})
	finish(c, &Record{Dialect: "chat", Model: "m", Outcome: OutcomeLimited, Status: 429, Code: "capacity_full", Upstream: "a", Attempts: 1})
	finish(c, &Record{Dialect: "chat", Outcome: OutcomeLimited, Status: 429, Code: "rate_limited", Limit: "requests_per_minute"})
	finish(c, &Record{Dialect: "chat", Model: "m", Upstream: "a", Attempts: 1, Outcome: OutcomeStreamBroken, Status: 200, Code: "upstream_failed", Committed: true})
	finish(c, &Record{Dialect: "chat", Model: "m", Upstream: "a", Attempts: 1, Outcome: OutcomeClientGone, Status: 499, Code: "client_gone", Phase: PhaseStalled, Committed: true})
	text := page()
	for _, want := range []string{
		`penstock_calls_total{dialect="chat",model="m",upstream="a",outcome="ok"} 1`,
		`penstock_calls_total{dialect="chat",model="-",upstream="-",outcome="client_error"} 1`,
		`penstock_calls_finished_total 7`, `penstock_calls_inflight 0`,
		`penstock_call_duration_seconds_count{dialect="chat",model="m"} 1`, `penstock_ttft_seconds_bucket{dialect="chat",model="m",le="0.1"} 1`,
		`penstock_upstream_ttft_seconds_count{upstream="a"} 1`, `penstock_overhead_seconds_bucket{dialect="chat",le="0.0001"} 1`,
		`penstock_tokens_total{dialect="chat",model="m",kind="prompt"} 10`, `penstock_tokens_total{dialect="chat",model="m",kind="cached"} 4`,
		`penstock_limit_refusals_total{limit="pool"} 1`, `penstock_limit_refusals_total{limit="engine"} 1`, `penstock_limit_refusals_total{limit="requests_per_minute"} 1`,
		`penstock_errors_total{code="invalid_api_key"} 1`, `penstock_errors_total{code="capacity_full"} 2`,
		`penstock_stream_aborts_total{code="upstream_failed"} 1`, `penstock_stream_aborts_total{code="client_gone"} 1`, `penstock_client_aborts_total{phase="stalled"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// TestSeriesGoAway checks that removed models and upstreams leave no series behind, and that calls
// that end later create no series.
func TestSeriesGoAway(t *testing.T) {
	c, page := newTestCalls(t)
	finish(c, successfulRecord("m", "a"))
	finish(c, successfulRecord("n", "b"))
	c.NewMeter("chat", "m", "a")
	c.SetConfigured([]string{"n"}, []string{"b"}, nil)
	finish(c, successfulRecord("m", "a"))
	finish(c, successfulRecord("n", "a"))
	m := c.NewMeter("chat", "m", "a")
	m.RecordEvents(1, instant.Now())
	text := page()
	for _, gone := range []string{`model="m"`, `upstream="a"`} {
		if strings.Contains(text, gone) {
			t.Errorf("%s is still there:\n%s", gone, text)
		}
	}
	for _, want := range []string{
		`penstock_calls_total{dialect="chat",model="n",upstream="b",outcome="ok"} 1`, `penstock_calls_total{dialect="chat",model="-",upstream="-",outcome="ok"} 1`,
		`penstock_calls_total{dialect="chat",model="n",upstream="-",outcome="ok"} 1`, `penstock_calls_finished_total 4`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	c.SetConfigured([]string{"m", "n"}, []string{"a", "b"}, nil)
	finish(c, successfulRecord("m", "a"))
	if want := `penstock_calls_total{dialect="chat",model="m",upstream="a",outcome="ok"} 1`; !strings.Contains(page(), want) {
		t.Errorf("no %s after it came back", want)
	}
}

// TestTotalsOutliveUpstreams checks that a reload that removes an upstream changes no total of
// keys, models or the edge. Only penstock_calls_total names upstreams, so a query must apply rate
// before sum.
func TestTotalsOutliveUpstreams(t *testing.T) {
	c, page := newTestCalls(t)
	c.SetConfigured([]string{"m", "n"}, []string{"a", "b"}, []string{"k"})
	for range 3 {
		r := successfulRecord("m", "a")
		r.Key, r.PromptTokens = "k", 10
		finish(c, r)
	}
	keys := func() string {
		var b bytes.Buffer
		c.AppendKeyMetrics(&b, nil)
		return b.String()
	}
	c.SetConfigured([]string{"m", "n"}, []string{"b"}, []string{"k"})
	if text := page(); strings.Contains(text, `upstream="a"`) || !strings.Contains(text, "penstock_calls_finished_total 3\n") ||
		!strings.Contains(text, `penstock_tokens_total{dialect="chat",model="m",kind="prompt"} 30`) {
		t.Errorf("after the reload:\n%s", text)
	}
	if text := keys(); !strings.Contains(text, `penstock_key_calls_total{key="k"} 3`+"\n") {
		t.Errorf("after the reload:\n%s", text)
	}
}

// TestSuspectMarkup checks that markup is counted by model while the model is configured.
func TestSuspectMarkup(t *testing.T) {
	c, page := newTestCalls(t)
	leaks := func(model string) *Record {
		r := successfulRecord(model, "a")
		r.Markup = "<tool_call>"
		return r
	}
	finish(c, successfulRecord("m", "a"))
	if text := page(); strings.Contains(text, "penstock_suspect_markup_total{") {
		t.Errorf("there from the start:\n%s", text)
	}
	finish(c, leaks("m"))
	finish(c, leaks("m"))
	finish(c, leaks("gone"))
	if want, text := `penstock_suspect_markup_total{model="m",markup="<tool_call>"} 2`, page(); !strings.Contains(text, want+"\n") || strings.Contains(text, "gone") {
		t.Errorf("no %s, or more, in\n%s", want, text)
	}
	c.SetConfigured([]string{"n"}, []string{"a"}, nil)
	finish(c, leaks("m"))
	if text := page(); strings.Contains(text, "penstock_suspect_markup_total{") {
		t.Errorf("outlives its model:\n%s", text)
	}
}

// TestSeriesUnderReloads ends calls while models are added and removed. It checks that only
// configured names have series afterwards.
func TestSeriesUnderReloads(t *testing.T) {
	c, page := newTestCalls(t)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 300 {
				r := successfulRecord([]string{"m", "n"}[(i+w)%2], []string{"a", "b"}[i%2])
				meter := c.NewMeter(r.Dialect, r.Model, r.Upstream)
				meter.RecordEvents(2, instant.Now())
				meter.End(r)
				finish(c, r)
			}
		})
	}
	wg.Go(func() {
		for range 100 {
			c.SetConfigured([]string{"m"}, []string{"a"}, nil)
			c.SetConfigured([]string{"m", "n"}, []string{"a", "b"}, nil)
		}
		c.SetConfigured([]string{"m"}, []string{"a"}, nil)
	})
	wg.Wait()
	text := page()
	if strings.Contains(text, `model="n"`) || strings.Contains(text, `upstream="b"`) {
		t.Error(text)
	}
	if want := "penstock_calls_finished_total 1200\n"; !strings.Contains(text, want) {
		t.Error("calls were lost")
	}
}

// TestSeriesOfACallThatOutlivesItsModel checks that no series remain for a call whose model is
// removed after the call has ended but before its counter is looked up.
func TestSeriesOfACallThatOutlivesItsModel(t *testing.T) {
	c, page := newTestCalls(t)
	m := c.series.model("chat", "n")
	c.SetConfigured([]string{"m"}, []string{"a"}, nil)
	m.endedCallsCounter(c.series, "a", OutcomeOK).Inc()
	text := page()
	if strings.Contains(text, `model="n"`) {
		t.Errorf("a series of the removed model:\n%s", text)
	}
	if want := `penstock_calls_total{dialect="chat",model="-",upstream="a",outcome="ok"} 1`; !strings.Contains(text, want) {
		t.Errorf("no %s in\n%s", want, text)
	}
	c.SetConfigured([]string{"m", "n"}, []string{"a"}, nil)
	m.endedCallsCounter(c.series, "a", OutcomeOK).Inc()
	if want := `penstock_calls_total{dialect="chat",model="n",upstream="a",outcome="ok"} 1`; !strings.Contains(page(), want) {
		t.Errorf("no %s after the model came back", want)
	}
}

// TestServedSeriesUnderReloads checks the cached series of an upstream's calls. A reload that
// removes the upstream must drop them, and calls that end later must not cache them again.
func TestServedSeriesUnderReloads(t *testing.T) {
	c, page := newTestCalls(t)
	count := func(upstream string, want string) {
		t.Helper()
		finish(c, successfulRecord("m", "a"))
		if want = `penstock_calls_total{dialect="chat",model="m",upstream="` + upstream + `",outcome="ok"} ` + want + "\n"; !strings.Contains(page(), want) {
			t.Errorf("no %s in\n%s", want, page())
		}
	}
	c.SetConfigured([]string{"m"}, []string{"a"}, nil)
	count("a", "1")
	count("a", "2")
	c.SetConfigured([]string{"m"}, nil, nil)
	count("-", "1")
	count("-", "2")
	c.SetConfigured([]string{"m"}, []string{"a"}, nil)
	count("a", "1")
	if h := c.series.getOrCreateHistory("m", "a"); h != c.series.getOrCreateServedSeries(servedSeriesKey{"chat", "m", "a"}).history {
		t.Error("calls are recorded in a history that nothing reads")
	}
}

func TestLabelsAreEscaped(t *testing.T) {
	if got := formatLabels("a", "x\"y\\z\nü", "b", ""); got != `{a="x\"y\\z\nü",b=""}` {
		t.Error(got)
	}
}

func TestUndescribedStaysVisible(t *testing.T) {
	var b bytes.Buffer
	_ = WritePrometheusText(&b, func(w io.Writer) {
		fmt.Fprintln(w, "penstock_new_thing 1")
		fmt.Fprintln(w, "go_unknown_thing 1")
	})
	if b.String() != "penstock_new_thing 1\n" {
		t.Errorf("written %q, want penstock_new_thing 1", b.String())
	}
}

// TestHistory checks that events of running streams are counted soon after they are received.
// Tokens without an event of their own must be counted in the time steps in which they were
// generated. Old steps must be removed.
func TestHistory(t *testing.T) {
	c, _ := newTestCalls(t)
	now := time.Now()
	m := c.NewMeter("chat", "m", "a")
	m.RecordEvents(1, instant.FromTime(now))
	m.RecordEvents(8, instant.FromTime(now.Add(flushInterval)))
	c.UpdateHistory(now)
	total := func(h History) (sum float64) {
		for _, v := range h.TokensPerSecond[:len(h.TokensPerSecond)-1] {
			sum += v * h.StepSeconds
		}
		return sum
	}
	later := now.Add(6 * time.Second)
	if got := total(c.Summary(later).Upstream("a")); got != 8 {
		t.Errorf("%v tokens of 8 events", got)
	}
	r := successfulRecord("m", "a")
	r.Start, r.CompletionTokens = now.Add(-20*time.Second), 28
	m.End(r)
	c.BeginCall()
	c.FinishCall(r, now)
	h := c.Summary(later).Upstream("a")
	if got := total(h); got < 27.99 || got > 28.01 {
		t.Errorf("%v tokens of a call with 28", got)
	}
	if h.TTFTP50Millis < 70 || h.TTFTP50Millis > 100 || h.Ended != 1 || h.Failed != 0 {
		t.Errorf("upstream a = %+v, want a TTFT from 70 to 100 ms and 1 call", h)
	}
	if h := c.Summary(now.Add(6 * time.Minute)).Upstream("a"); total(h) != 0 || h.TTFTP95Millis != -1 {
		t.Errorf("after six minutes: %+v", h)
	}
	if h := c.Summary(now).Upstream("nobody"); h.TTFTP50Millis != -1 || h.TokensPerSecond == nil {
		t.Errorf("unknown upstream = %+v, want no TTFT and empty speeds", h)
	}
}

// TestMeterKeeps checks that a stream adds all its measurements to the shared counters soon and in
// batches, and counts events for the upstream that sent them.
func TestMeterKeeps(t *testing.T) {
	c, page := newTestCalls(t)
	now := instant.Now()
	m := c.NewMeter("chat", "m", "a")
	events := 0
	note := func(after time.Duration) {
		now = now.Add(after)
		events++
		m.RecordEvents(events, now)
	}
	want := func(gaps, a, b int64) {
		t.Helper()
		if want := fmt.Sprintf(`penstock_itl_seconds_count{dialect="chat",model="m"} %d`, gaps); !strings.Contains(page(), want+"\n") {
			t.Errorf("not %s after %d events", want, events)
		}
		if gotA, gotB := c.series.getOrCreateHistory("m", "a").liveEvents.Load(), c.series.getOrCreateHistory("m", "b").liveEvents.Load(); gotA != a || gotB != b {
			t.Errorf("%d events of a and %d of b are counted, want %d and %d", gotA, gotB, a, b)
		}
	}
	note(0)
	want(0, 1, 0)
	for range len(m.gaps) - 1 {
		note(time.Millisecond)
	}
	want(0, 1, 0)
	note(time.Millisecond)
	want(16, 17, 0)
	note(time.Millisecond)
	want(16, 17, 0)
	note(flushInterval)
	want(18, 19, 0)
	note(time.Millisecond)
	c.SwitchMeterUpstream(&m, m.model.key.model, "b")
	want(19, 20, 0)
	events = 0
	note(time.Millisecond)
	var r Record
	m.End(&r)
	want(20, 20, 1)
	if r.streamed != 21 {
		t.Errorf("%d events of the stream, want 21", r.streamed)
	}
}

func TestRecent(t *testing.T) {
	c, _ := newTestCalls(t)
	for i := range recentRows + 10 {
		r := successfulRecord("m", "a")
		r.PromptTokens = i
		c.BeginCall()
		c.FinishCall(r, r.Start.Add(time.Duration(i)*time.Millisecond))
		finish(c, &Record{Dialect: "chat", Outcome: OutcomeClientError, Status: 401, Code: "invalid_api_key"})
	}
	calls, refusals := c.Recent.calls.newest(), c.Recent.Refusals.Counts(time.Now())
	if len(calls) != recentRows || calls[0].PromptTokens != recentRows+9 || calls[recentRows-1].PromptTokens != 10 {
		t.Errorf("%d calls, from %d", len(calls), calls[0].PromptTokens)
	}
	if len(refusals) != 1 || refusals[0].Code != "invalid_api_key" || refusals[0].Count != recentRows+10 {
		t.Errorf("refusals = %+v, want %d of invalid_api_key", refusals, recentRows+10)
	}
}

// TestRecentKinds checks that failed, slow and refused calls are stored for an hour in limited
// memory, no matter which calls follow.
func TestRecentKinds(t *testing.T) {
	c, _ := newTestCalls(t)
	now := time.Now()
	made := 0
	add := func(kind string, n int, change func(*Record)) {
		for range n {
			made++
			r := successfulRecord("m", "a")
			copy(r.RequestID[:], fmt.Sprintf("req_%s_%d", kind, made))
			change(r)
			c.Recent.add(r, now)
		}
	}
	add("failed", 3, func(r *Record) {
		r.Outcome, r.Failed = OutcomeUpstreamFail, []FailedAttempt{{Upstream: "a", Cause: "status"}}
	})
	add("slow", 3, func(r *Record) {
		r.UpstreamTTFT, r.Choice = SlowFirstTokenThreshold+1, &RoutingChoice{Reason: "soonest"}
	})
	add("queued", 2, func(r *Record) { r.Queue = SlowQueueThreshold + 1 })
	add("good", 10*maxKeptCalls, func(*Record) {})
	add("refused", maxKeptCalls+10, func(r *Record) { r.Outcome, r.Attempts, r.Status = OutcomeClientError, 0, 401 })
	kinds := func(n int, at time.Time) map[string]int {
		out := map[string]int{}
		for _, e := range c.Recent.Newest(n, at) {
			out[strings.Split(e.RequestID.String(), "_")[1]]++
		}
		return out
	}
	if got, want := kinds(maxKeptCalls*2, now), map[string]int{"failed": 3, "slow": 3, "queued": 2, "good": recentRows, "refused": maxKeptCalls}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := kinds(2, now), map[string]int{"failed": 2, "queued": 2, "good": 2, "refused": 2}; !maps.Equal(got, want) {
		t.Errorf("two of each kind: %v, want %v", got, want)
	}
	if got, want := kinds(maxKeptCalls, now.Add(maxKeptTime+1)), map[string]int{"good": recentRows}; !maps.Equal(got, want) {
		t.Errorf("after an hour: %v, want %v", got, want)
	}
	id := string(append([]byte("req_failed_1"), make([]byte, len(RequestID{})-len("req_failed_1"))...))
	if e, ok := c.Recent.Find(id, now); !ok || len(e.Failed) != 1 {
		t.Errorf("the failed call is not found: %+v", e)
	}
	if _, ok := c.Recent.Find("req_unknown", now); ok {
		t.Error("an unknown call is found")
	}
}

// TestAllocations checks that counting, storing and measuring a call does not allocate.
func TestAllocations(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector allocates")
	}
	c, _ := newTestCalls(t)
	r, now := successfulRecord("m", "a"), time.Now()
	finish(c, r)
	if n := testing.AllocsPerRun(100, func() {
		c.BeginCall()
		meter := c.NewMeter("chat", "m", "a")
		meter.RecordEvents(1, instant.FromTime(now))
		meter.RecordEvents(2, instant.FromTime(now))
		meter.End(r)
		c.FinishCall(r, now)
	}); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

func BenchmarkFinish(b *testing.B) {
	for _, l := range []struct {
		name string
		log  config.Log
	}{{"metrics", config.Log{}}, {"metrics+log", config.Log{Access: true}}, {"metrics+console", config.Log{Access: true, Format: "console"}}} {
		b.Run(l.name, func(b *testing.B) {
			sink := NewLogSink(io.Discard, nil)
			defer sink.Close()
			log, err := NewLogger(config.Log{Level: "info", Format: "json"}, sink)
			if err != nil {
				b.Fatal(err)
			}
			c := NewCalls(metrics.NewSet(), log, l.log)
			c.SetConfigured([]string{"m"}, []string{"a"}, nil)
			r, now := successfulRecord("m", "a"), time.Now()
			b.ReportAllocs()
			for b.Loop() {
				c.BeginCall()
				c.FinishCall(r, now)
			}
		})
	}
	b.Run("meter", func(b *testing.B) {
		c, _ := newTestCalls(b)
		m, now := c.NewMeter("chat", "m", "a"), instant.Now()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			m.RecordEvents(i, now)
		}
	})
}

// BenchmarkMeter measures streams of the same model, one on each core.
func BenchmarkMeter(b *testing.B) {
	c, _ := newTestCalls(b)
	b.RunParallel(func(pb *testing.PB) {
		m, now := c.NewMeter("chat", "m", "a"), instant.Now()
		for i := 1; pb.Next(); i++ {
			now = now.Add(20 * time.Millisecond)
			m.RecordEvents(i, now)
		}
	})
}

// TestTTFTOfStreams checks that the duration of an unstreamed answer is never shown as a time to
// first token.
func TestTTFTOfStreams(t *testing.T) {
	c, text := newTestCalls(t)
	whole := successfulRecord("m", "a")
	whole.Stream, whole.TTFT, whole.UpstreamTTFT = false, 30*time.Second, 30*time.Second
	finish(c, whole)
	for _, want := range []string{`penstock_call_duration_seconds_count{dialect="chat",model="m"} 1`, `penstock_ttft_seconds_count{dialect="chat",model="m"} 0`, `penstock_upstream_ttft_seconds_count{upstream="a"} 0`} {
		if !strings.Contains(text(), want+"\n") {
			t.Errorf("no %s in\n%s", want, text())
		}
	}
	if h := c.Summary(time.Now()).Upstream("a"); h.TTFTP95Millis != -1 || h.Ended != 1 {
		t.Errorf("upstream a = %+v, want 1 call without a TTFT", h)
	}
}

// TestInFlightUntilLogged checks that a call is in flight until its line has been written. The log
// may therefore be closed once no call is in flight.
func TestInFlightUntilLogged(t *testing.T) {
	var c *Calls
	var atLine, counted int64
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(io.Discard), zap.InfoLevel), zap.Hooks(func(zapcore.Entry) error {
		atLine, counted = c.InFlight(), int64(c.FinishedCount())
		return nil
	}))
	c = NewCalls(metrics.NewSet(), log, config.Log{Access: true, Level: "info"})
	c.BeginCall()
	c.FinishCall(&Record{Start: time.Now(), Outcome: OutcomeOK}, time.Now())
	if atLine != 1 || counted != 1 || c.InFlight() != 0 {
		t.Errorf("at its line %d are in flight and %d have finished; behind it %d are in flight", atLine, counted, c.InFlight())
	}
}

// TestFailedCallsEndToo checks that the number of calls that ended in the last minutes includes
// failed calls.
func TestFailedCallsEndToo(t *testing.T) {
	c, _ := newTestCalls(t)
	now := time.Now()
	for _, o := range []Outcome{OutcomeOK, OutcomeUpstreamFail, OutcomeUpstreamFail, OutcomeClientGone} {
		r := successfulRecord("m", "a")
		r.Outcome = o
		c.BeginCall()
		c.FinishCall(r, now)
	}
	if h := c.Summary(now).Upstream("a"); h.Ended != 4 || h.Failed != 2 || h.Minute.Calls != 4 {
		t.Errorf("upstream a = %+v, want 4 calls, 2 of them failed", h)
	}
}
