package status

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock/proxy/fleet"
	"penstock/proxy/front/plaintext"
	"penstock/proxy/telemetry/observe"
	"penstock/routing"
	"penstock/upstreams"
	"penstock/upstreams/engine"
	"penstock/upstreams/residency"
	"penstock/upstreams/wake"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// sample returns the state of an edge with two upstreams, one of which is down, and calls in every
// state. The names are hostile.
func sample() *Status {
	const hostile = `<img src=x onerror=alert(1)>"'`
	up := func(label, state string) Upstream {
		return Upstream{
			Status: upstreams.Status{
				Name: label, Label: label, URL: "http://127.0.0.1:1/" + hostile, EngineTitle: "vLLM", State: state, StateSeconds: 130, Mode: "ready", Breaker: "closed", ReportAge: 2, ReportFresh: true,
				Limits: upstreams.Limits{Shared: true, Text: 8, Vision: 8, Audio: 8, Source: "config"}, Pools: []upstreams.PoolStatus{{Pool: "text", Active: 3, Limit: 8}},
				Report: &upstreams.LoadReport{EngineLoad: engine.EngineLoad{Running: 5, Waiting: 1, KVUsage: 0.42}, Source: "/metrics"}, Others: 2, Check: &upstreams.LastProbe{OK: true, Status: 200, Milliseconds: 3.2},
				Attempts: map[string]uint64{"client_gone": 4, "timeout": 1}, Abandoned: map[string]uint64{},
			},
			History: observe.History{StepSeconds: 5, TokensPerSecond: []float64{0, 10, 20}, TTFTMillis: []float64{-1, 20, 30}, TTFTP50Millis: 25, TTFTP95Millis: 29, Ended: 7},
		}
	}
	down := up("gpu-"+hostile, "down")
	down.LastFailure = &upstreams.LastFailure{During: "probe", Reason: "connect"}
	rate := 41.5
	return &Status{
		Now: now, Started: now.Add(-time.Hour), Since: now.Add(-time.Minute), Version: 3, InFlight: 2, Operable: true,
		Generations: []ConfigGeneration{{2, now.Add(-time.Hour), 1}, {3, now.Add(-time.Minute), 1}},
		LastReload:  &Reload{At: now, Source: "file", Problems: []string{"edge.yaml:3:1: " + hostile}, Version: 3},
		Upstreams:   []Upstream{up("gpu-a", "up"), down},
		Models: []Model{
			{ID: "m" + hostile, Ready: true, Pools: map[string]Pool{"text": {Active: 8, Total: 8, Others: 2, Sources: []string{"config", "engine"}}}, Slots: Slots{8, 8}, Queue: &Queue{Waiting: 2, Depth: 5, Wait: 3}, Targets: []Target{{Upstream: "gpu-a", Eligible: true}, {Upstream: hostile, Why: "upstream is down"}}},
			{ID: "two", Ready: true, Separate: true, Pools: map[string]Pool{"text": {Total: 8}, "vision": {Total: 2}, "audio": {}}, Slots: Slots{0, 10}},
		},
		Calls: []Call{
			{ID: "req_running", Start: now, State: "queued", Model: "m", Key: hostile, Dialect: "chat", Pool: "text"},
			{ID: "req_done", Start: now, State: CallDone, Status: 200, Model: "m", Upstream: "gpu-a", Cached: 1000, Fresh: 24, Generated: 50, GenSpeed: &rate, Duration: 1234},
			{ID: "req_failed", Start: now, State: CallFailed, Status: 502, Code: "upstream_failed", Model: "m", Attempts: 2},
			{ID: "req_left", Start: now, State: CallLeft, Status: 499, Phase: "stalled", Model: "m"},
		},
		Refusals: []Reason{{Code: "rate_limited", Status: 429, Limit: "concurrency", Model: "m", Key: hostile, Count: 3, Last: now.Add(-4 * time.Second)}},
	}
}

func TestPage(t *testing.T) {
	s := sample()
	starting, asleep, stalled := s.Upstreams[1], s.Upstreams[1], s.Upstreams[0]
	starting.Wake = &wake.Status{Away: 300, Starting: 42, Took: 90}
	asleep.Wake = &wake.Status{Away: 600, Starting: -1}
	stalled.State, stalled.Progress = "stalled", upstreams.ProgressStatus{By: upstreams.ProgressByCounters}
	stalled.Residency = &residency.Snapshot{Places: 1, Models: []residency.Resident{
		{Model: "small", Resident: true, Seconds: 61}, {Model: "big", Waiting: 3}, {Model: s.Models[0].ID, Resident: true, Loading: true, Seconds: 9},
	}}
	s.Upstreams = append(s.Upstreams, starting, asleep, stalled)
	s.SetVerdict(nil)
	body, err := s.Page()
	if err != nil {
		t.Fatal(err)
	}
	page := string(body)
	for _, want := range []string{
		"<!doctype html>", `id="upstreams"`, "8 <small>of 8</small>", "limit from config, engine", "2 <small>waiting of 5</small>", "vision", "200 in 3.2 ms", "5 running, 1 in its queue", "cache 42 %", "2 by other clients",
		"for 2 min", "connect", "25 ms <small>/ 29 ms", "0 <small>of 7", "engine queues beyond", `href="/runbook#PenstockUpstreamDown">PenstockUpstreamDown</a>`, ">Drain<", ">Maintenance<", "▸ queued", "✕ 502", "second attempt", "client left", "stalled", "1000", "42</td>", "rate_limited", "429, concurrency",
		"▸ waking", "for 42 s, last time " + FormatDuration(90*time.Second), "away for 10 min: a call wakes it", "✕ stalled", "progress by its counters", "progress by its answers",
		"small: in memory for " + FormatDuration(61*time.Second), "big: not in memory, <b>3</b> wait", ": loads for 9 s", "1 at a time",
		"#3", "#2", "not loaded, #3 stays in force, keys included", "edge.yaml:3:1",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "<img") || strings.Contains(page, `onerror=alert(1)>"`) {
		t.Error("a name has become markup")
	}
	if strings.Contains(page, " style=") || strings.Contains(page, " onclick=") {
		t.Error("an attribute that the policy forbids")
	}
	for _, foreign := range []string{"src=\"", "@import", "url(", "http-equiv=\"Content"} {
		if strings.Contains(page, foreign) {
			t.Errorf("the page holds %s: it asks for nothing but itself", foreign)
		}
	}
	for _, id := range Sections {
		text, err := s.Section(id)
		if err != nil || !strings.Contains(page, text) || !strings.Contains(page, `id="`+id+`"`) {
			t.Errorf("section %s: %v, want it in the page", id, err)
		}
	}
	s.Upstreams[0].Mode, s.Upstreams[0].ModeSeconds = "drain", 2
	if text, _ := s.Section("upstreams"); !strings.Contains(text, "draining</span> <small>2 s</small>") {
		t.Errorf("the time of the mode is not shown:\n%s", text)
	}
	if text := string(s.TerminalText(80)); !strings.Contains(text, "draining 2 s") {
		t.Errorf("the time of the mode is not shown:\n%s", text)
	}
	s.Operable = false
	if text, _ := s.Section("upstreams"); strings.Contains(text, "<form") || !strings.Contains(text, "admin.token") {
		t.Error("buttons without a token")
	}
	empty := &Status{Now: now}
	empty.SetVerdict(nil)
	if _, err := empty.Page(); err != nil {
		t.Error(err)
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		change func(*Status)
		level  string
		text   string
	}{
		{func(s *Status) { s.Upstreams, s.LastReload, s.Models[0].Queue = s.Upstreams[:1], nil, nil }, LevelOK, "Healthy: 1 of 1 upstream takes calls, 2 calls in flight, 1 waiting within the engines."},
		{func(s *Status) { s.Upstreams, s.LastReload = s.Upstreams[:1], nil }, LevelOK, "2 calls in flight, 2 waiting for a slot, 1 waiting within the engines."},
		{func(*Status) {}, LevelDegraded, "is down for 2 min (no connection); the configuration on disk is invalid, so the previous one stays in force, keys included (edge.yaml:3:1: "},
		{func(s *Status) { s.Upstreams[0].Mode, s.Upstreams[0].ModeSeconds = "drain", 2 }, LevelDegraded, "gpu-a is in drain mode for 2 s"},
		{func(s *Status) { s.Upstreams[0].Breaker = "open" }, LevelDegraded, "answers its probes but fails its calls (breaker open)"},
		{func(s *Status) {
			s.Upstreams[0].Breaker, s.Upstreams[0].LastFailure = "open", &upstreams.LastFailure{During: "call", Reason: "bad_response", Status: 401}
		}, LevelDegraded, "answers its probes but fails its calls (bad response, status 401: look at its api_key; breaker open)"},
		{func(s *Status) {
			s.Upstreams[0].Breaker, s.Upstreams[0].LastFailure = "open", &upstreams.LastFailure{During: "call", Reason: "status", Status: 404}
		}, LevelDegraded, "fails its calls (status 404: look at its url, and at served of its models; breaker open)"},
		{func(s *Status) {
			s.Upstreams[0].Breaker, s.Upstreams[0].LastFailure = "open", &upstreams.LastFailure{During: "probe", Reason: "timeout"}
		}, LevelDegraded, "fails its calls (breaker open)"},
		{func(s *Status) { s.Upstreams[0].Missing = []string{"x"} }, LevelDegraded, "gpu-a does not serve x"},
		{func(s *Status) { s.Models[1].Ready = false }, LevelOut, "Out: no engine serves two. Trouble: "},
		{func(s *Status) {
			s.Upstreams, s.LastReload, s.Certificate = s.Upstreams[:1], nil, &Certificate{NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(-time.Hour)}
		}, LevelFailing, "Failing: the certificate expired on "},
		{func(s *Status) {
			s.Upstreams, s.LastReload, s.Certificate = s.Upstreams[:1], nil, &Certificate{NotBefore: now.Add(time.Hour), NotAfter: now.Add(2 * time.Hour)}
		}, LevelFailing, "Failing: the certificate is not valid before "},
		{func(s *Status) {
			s.Upstreams, s.LastReload, s.Certificate = s.Upstreams[:1], nil, &Certificate{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
		}, LevelOK, "Healthy: "},
		{func(s *Status) { s.Upstreams, s.LastReload, s.Unsaved = s.Upstreams[:1], nil, 31 }, LevelDegraded, "Degraded: the ledger has not been written for 31 s"},
		{func(s *Status) { s.Upstreams, s.LastReload, s.RejectsConnections = s.Upstreams[:1], nil, true }, LevelDegraded, "Degraded: clients are turned away"},
		// A new process may be taking over.
		{func(s *Status) { s.Upstreams, s.LastReload, s.OnAdminPort = s.Upstreams[:1], nil, 1 }, LevelOK, "Healthy: "},
		{func(s *Status) {
			s.Upstreams, s.LastReload, s.OnAdminPort, s.AdminPortShared = s.Upstreams[:1], nil, 1, true
		}, LevelDegraded, "Degraded: the admin port is shared with 1 other edge"},
		{func(s *Status) { s.Upstreams, s.LastReload, s.Unsaved = s.Upstreams[:1], nil, 2 }, LevelOK, "Healthy: "},
		{func(s *Status) { s.Draining = true }, LevelDraining, "Shutting down: 2 calls left."},
	} {
		s := sample()
		c.change(s)
		s.SetVerdict(nil)
		if s.Verdict.Level != c.level || !strings.Contains(s.Verdict.Text, c.text) {
			t.Errorf("%+v, want %s with %q", s.Verdict, c.level, c.text)
		}
	}
}

// TestDiscoveries checks that the page and the terminal show the sources of discovered upstreams
// and the age of their answers. A source that does not answer must count as a problem.
func TestDiscoveries(t *testing.T) {
	s := sample()
	s.Upstreams, s.LastReload = s.Upstreams[:1], nil
	s.Upstreams[0].Origin = "pod llm/vllm-0"
	s.Discoveries = []Discovery{
		{upstreams.DiscoveryStatus{Source: "DNS vllm", Targets: 1, Age: 70}},
		{upstreams.DiscoveryStatus{Source: "InferencePool llm/llama", Age: -1, Stale: 2, Trouble: "not said so soon"}},
		{upstreams.DiscoveryStatus{Source: "pods llm/app=<b>:8000", Targets: 2, Age: 700, Stale: 600, Trouble: "the API server refuses the token (401)"}},
	}
	s.SetVerdict(nil)
	const stale = "2 endpoints as of 10 min ago: the API server refuses the token (401)"
	if v := s.Verdict; v.Level != LevelDegraded || !strings.Contains(v.Text, stale) || strings.Contains(v.Text, "DNS") || strings.Contains(v.Text, "InferencePool") {
		t.Errorf("verdict = %+v, want degraded with %q alone", v, stale)
	}
	body, err := s.Page()
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"page":     strings.NewReplacer("&lt;b&gt;", "<b>").Replace(string(body)),
		"terminal": string(s.TerminalText(120)),
	} {
		for _, want := range []string{
			"DNS vllm: 1 endpoint, known for 1 min", "InferencePool llm/llama: 0 endpoints, nothing known yet", "pods llm/app=<b>:8000: " + stale,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s lacks %q:\n%s", what, want, text)
			}
		}
	}
	if page := string(body); !strings.Contains(page, "pod llm/vllm-0") || strings.Contains(page, "app=<b>") {
		t.Error("the page does not say where an upstream comes from, or as markup")
	}
	s.Discoveries = s.Discoveries[:2]
	if s.SetVerdict(nil); s.Verdict.Level != LevelOK {
		t.Errorf("a discovery that has just failed is a trouble: %+v", s.Verdict)
	}
}

func TestRows(t *testing.T) {
	ended := func(o observe.Outcome, stream bool) observe.EndedCall {
		return observe.EndedCall{Record: observe.Record{
			Model: "m", Start: now, Outcome: o, Stream: stream, Status: 200, PromptTokens: 100, CachedTokens: 60, CompletionTokens: 21,
			TTFT: 200 * time.Millisecond, UpstreamTTFT: 100 * time.Millisecond, Phase: observe.PhaseStalled,
		}, End: now.Add(1200 * time.Millisecond)}
	}
	calls := mergeCalls([]Call{{ID: "b", Start: now.Add(time.Second), State: "waiting"}, {ID: "a", Start: now, State: "streaming"}}, []observe.EndedCall{ended(observe.OutcomeOK, true), ended(observe.OutcomeOK, false), ended(observe.OutcomeStreamBroken, true), ended(observe.OutcomeClientGone, true)})
	if calls[0].ID != "a" || calls[1].ID != "b" || !calls[0].Running() || calls[2].Running() {
		t.Errorf("calls = %+v, want a and b running, then an ended one", calls[:3])
	}
	done := calls[2]
	if done.State != CallDone || done.Fresh != 40 || done.Cached != 60 || *done.PromptSpeed != 400 || *done.GenSpeed != 20 || done.Duration != 1200 {
		t.Errorf("call = %+v, want it done with 40 new and 60 cached tokens in 1.2 s", done)
	}
	if calls[3].GenSpeed != nil || calls[3].PromptSpeed != nil {
		t.Error("the speeds of a whole answer are not known")
	}
	if calls[4].State != CallFailed || calls[5].State != CallLeft || calls[5].Phase != "stalled" {
		t.Errorf("calls = %+v, want a failed one and one whose client left", calls[4:])
	}
	if text, _ := json.Marshal(calls[3]); !strings.Contains(string(text), `"generated_tokens_per_second":null`) {
		t.Errorf("call = %s, want null for the unknown speed", text)
	}
}

// TestTerminalBrokenStream checks that a stream that broke after its 200 does not look successful,
// with or without colours.
func TestTerminalBrokenStream(t *testing.T) {
	s := Status{Now: now, Calls: []Call{{ID: "req_broken", Start: now, State: CallFailed, Status: 200, Code: "upstream_bad_response", Model: "m"}}}
	if text := string(s.TerminalText(80)); !strings.Contains(text, "✕ bad_response") || strings.Contains(text, "200") {
		t.Errorf("terminal = %s, want bad_response and no 200", text)
	}
}

func TestSparkline(t *testing.T) {
	if s := newSparkline([]float64{-1, -1}); s.Some {
		t.Error("nothing is drawn as something")
	}
	s := newSparkline([]float64{-1, 5, 10, -1, 2})
	if !s.Some || s.Peak != 10 || strings.Count(s.Line, "M") != 2 || strings.Count(s.Area, "Z") != 2 {
		t.Errorf("spark = %+v, want two lines with peak 10", s)
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0 s", 59 * time.Second: "59 s", 5 * time.Minute: "5 min", 125 * time.Minute: "2 h 5 min", 50 * time.Hour: "2 d 2 h"} {
		if got := FormatDuration(d); got != want {
			t.Errorf("FormatDuration(%v) = %s, want %s", d, got, want)
		}
	}
	for v, want := range map[float64]string{0: "–", -1: "–", 0.5: "0.5 ms", 250.4: "250 ms", 1234: "1.23 s", 61000: "1 min"} {
		if got := formatMillis(v); got != want {
			t.Errorf("millis(%v) = %s, want %s", v, got, want)
		}
	}
}

func TestTerminal(t *testing.T) {
	s := sample()
	s.Upstreams[1].Label = "evil\x1b[2J\nname"
	s.LastReload.Problems = []string{"/etc/" + strings.Repeat("long/", 20) + "edge.yaml:3:1: something is wrong with what stands here, and that is the reason (models[0].id)\n  3 | excerpt"}
	long := strings.Repeat("0123456789", 5)
	s.Fleet = &fleet.State{StoreAnswers: true, Members: []fleet.Member{{Name: long, Version: long, Config: "a1b2c3d4e5f6", InFlight: 7, Started: now.Add(-3 * time.Hour).Unix(), Self: true}, {Name: "edge-2", ID: "b", Generation: 4, Calls: 99, Level: LevelOut, Verdict: "Out: no engine serves <b>x\x1b[2J."}}}
	s.SetVerdict(nil)
	text := string(s.TerminalText(80))
	if strings.ContainsAny(text, "\x1b\r") {
		t.Error("an escape came through")
	}
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("a line is %d wide, want at most 80: %s", n, line)
		}
	}
	for _, want := range []string{"Degraded:", "MODEL", " 8/8 ", " 2/5 ", "gpu-a", "up 2 min", "evil?[2J?name", "queued", "502", "rate_limited", "RELOAD FAILED", "edge.yaml:3:1", "…  this  –", "edge-2                     out  ", "#4", "99", "no engine serves <b>x?[2J."} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if at, this := strings.Index(text, "\nedge-2"), strings.Index(text, "this"); at < 0 || at > this {
		t.Errorf("the edge in trouble is not the first:\n%s", text)
	}
	page, err := s.Section("edges")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">✕ out<", "no engine serves &lt;b&gt;x", "<b>#4</b>", ">99<", "this one", `<tr id="edge-b">`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if words := strings.Join(strings.Fields(text), " "); !strings.Contains(words, plaintext.CleanLine(s.Verdict.Text)) || !strings.Contains(words, "and that is the reason") {
		t.Errorf("a sentence is cut:\n%s", text)
	}
	// The JSON must also show the failure.
	body, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back Status
	if err := json.Unmarshal(body, &back); err != nil {
		t.Fatal(err)
	}
	if got := string(back.TerminalText(80)); got != text {
		t.Errorf("after JSON:\n%s\nbefore:\n%s", got, text)
	}
}

// TestTerminalIsNarrow checks that no line is wider than the terminal, for widths of 40 characters
// and more.
func TestTerminalIsNarrow(t *testing.T) {
	s := sample()
	s.SetVerdict(nil)
	for width, most := range map[int]int{20: 40, 40: 40, 41: 41, 59: 59, 80: 80, 200: 200} {
		text := string(s.TerminalText(width))
		for line := range strings.Lines(text) {
			if n := plaintext.LineCells(strings.TrimSuffix(line, "\n")); n > most {
				t.Errorf("%d wide for %d: %s", n, width, line)
			}
		}
		if !strings.Contains(text, "gpu-a") || !strings.Contains(text, "two") {
			t.Errorf("for %d a row is lost:\n%s", width, text)
		}
	}
}

// TestTerminalHasArms checks that a model's arms are listed below the model.
func TestTerminalHasArms(t *testing.T) {
	s := sample()
	s.Models[1].Arms = []Arm{{routing.Arm{Name: "new", Share: 0.05}, 12, 1}, {routing.Arm{Name: "odd\x1b[2J", Share: 0.125}, 3, 0}}
	s.SetVerdict(nil)
	text := string(s.TerminalText(80))
	for _, want := range []string{"\n  arm new: 5% of the calls, 12 ended there, 1 of its own elsewhere\n  arm odd?[2J: 12.5% of the calls, 3 ended there\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

// TestDomains checks that the page, the terminal and the verdict name the domains whose
// certificates are missing, have expired, or are not renewed.
func TestDomains(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	day := 24 * time.Hour
	failed := Domain{Name: "a.test", Failures: 2, Problem: "it answers 503", Next: now.Add(time.Minute)}
	until := func(end time.Time) Domain {
		d := failed
		d.NotBefore, d.NotAfter = now.Add(-day), end
		return d
	}
	for _, c := range []struct {
		domain       Domain
		text, refuse string
		delays       []string
	}{
		{Domain{Name: "a.test", NotAfter: now.Add(day)}, "certificate of a.test: until 2026-01-03T03:04:05Z", "", nil},
		{Domain{Name: "a.test"}, "certificate of a.test: not obtained yet", "there is no certificate of a.test yet", nil},
		{
			Domain{Name: "a.test", NotAfter: now.Add(day), Problem: "the store is away"},
			"certificate of a.test: until 2026-01-03T03:04:05Z, the store is away", "",
			[]string{"the certificate of a.test, which ends in 1 d 0 h, is not renewed: the store is away"},
		},
		{
			failed, "certificate of a.test: not obtained yet, 2 attempts failed, the next is at 2026-01-02T03:05:05Z: it answers 503",
			"there is no certificate of a.test yet (2 attempts failed, the next is at 2026-01-02T03:05:05Z: it answers 503)", nil,
		},
		{
			until(now.Add(day)), "certificate of a.test: until 2026-01-03T03:04:05Z, 2 attempts failed, the next is at 2026-01-02T03:05:05Z: it answers 503", "",
			[]string{"the certificate of a.test, which ends in 1 d 0 h, is not renewed: 2 attempts failed, the next is at 2026-01-02T03:05:05Z: it answers 503"},
		},
		{
			until(now.Add(-day)), "certificate of a.test: until 2026-01-01T03:04:05Z, 2 attempts failed, the next is at 2026-01-02T03:05:05Z: it answers 503",
			"the certificate of a.test expired on 2026-01-01T03:04:05Z (2 attempts failed, the next is at 2026-01-02T03:05:05Z: it answers 503)", nil,
		},
	} {
		all := &Certificate{Domains: []Domain{c.domain}}
		if got := c.domain.Text(); got != c.text {
			t.Errorf("%q, want %q", got, c.text)
		}
		if got := all.Trouble(now); got != c.refuse {
			t.Errorf("%q, want %q", got, c.refuse)
		}
		if got := all.overdueRenewals(now); !slices.Equal(got, c.delays) {
			t.Errorf("%q, want %q", got, c.delays)
		}
	}
}

// TestIssuers checks that the page, the terminal and the verdict name the issuers whose keys are
// missing.
func TestIssuers(t *testing.T) {
	for _, c := range []struct {
		issuer  Issuer
		text    string
		trouble bool
	}{
		{Issuer{Name: "corp", Keys: 2, Age: 70}, "issuer corp: 2 keys, fetched 1 min ago", false},
		{Issuer{Name: "corp", Keys: 1, Age: -1}, "issuer corp: 1 key of a file", false},
		{Issuer{Name: "corp", Keys: 2, Age: 70, Trouble: "it answers 503"}, "issuer corp: 2 keys as of 1 min ago: it answers 503", true},
		{Issuer{Name: "corp", Age: -1, Trouble: "refused"}, "issuer corp: its tokens are refused, for its keys have not been fetched yet: refused", true},
	} {
		if got := c.issuer.Text(); got != c.text || (c.issuer.Problem() != "") != c.trouble {
			t.Errorf("%+v: %q, want %q", c.issuer, got, c.text)
		}
	}
}
