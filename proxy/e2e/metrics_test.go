package e2e

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
	"penstock/proxy/telemetry/observe"
)

// These tests check the complete metrics page with the rules of Prometheus' linter, and the queries
// in the dashboard and the alert rules.

var (
	sampleLine = regexp.MustCompile(`^([a-z_][a-z0-9_]*)(\{.*\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
)

// lint returns the problems of a metrics page: wrong names, HELP and TYPE lines, suffixes or units,
// incomplete or non-monotonic histograms, duplicates, and families whose series are not contiguous.
func lint(page string) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	type family struct {
		help, kind string
		closed     bool
	}
	families := map[string]*family{}
	seen := map[string]bool{}
	buckets := map[string][]float64{} // maps a series without le to its counts, in order
	counts := map[string]float64{}
	sums := map[string]bool{}
	current := ""
	enter := func(name string) *family {
		if current != name && families[current] != nil {
			families[current].closed = true
		}
		f := families[name]
		if f == nil {
			f = &family{}
			families[name] = f
		}
		if f.closed {
			bad("%s: not in one place", name)
		}
		current = name
		return f
	}
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, help, _ := strings.Cut(rest, " ")
			f := enter(name)
			if f.help != "" || f.kind != "" {
				bad("%s: HELP twice or late", name)
			}
			if f.help = help; len(help) < 5 {
				bad("%s: no help", name)
			}
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			f := enter(name)
			if f.kind != "" {
				bad("%s: TYPE twice", name)
			}
			f.kind = kind
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			bad("not a sample: %q", line)
			continue
		}
		name, labels := m[1], m[2]
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			bad("%s: value %q", name, m[3])
		}
		if seen[name+labels] {
			bad("%s%s: twice", name, labels)
		}
		seen[name+labels] = true
		if inner := strings.Trim(labels, "{}"); inner != "" {
			if left := strings.Trim(labelPair.ReplaceAllString(inner, ""), ","); left != "" {
				bad("%s: labels %s", name, labels)
			}
		}
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if b, ok := strings.CutSuffix(name, suffix); ok && families[b] != nil && families[b].kind == "histogram" {
				base = b
			}
		}
		f := enter(base)
		if f.help == "" || f.kind == "" {
			bad("%s: without HELP and TYPE", base)
		}
		switch {
		case f.kind == "counter" && !strings.HasSuffix(base, "_total"):
			bad("%s: a counter ends in _total", base)
		case f.kind != "counter" && strings.HasSuffix(base, "_total"):
			bad("%s: only a counter ends in _total", base)
		case f.kind == "counter" && value < 0:
			bad("%s: a counter below zero", base)
		case f.kind == "histogram" && base == name:
			bad("%s: a bare sample of a histogram", base)
		case f.kind == "histogram" && !strings.HasSuffix(base, "_seconds"):
			bad("%s: a histogram without a unit", base)
		}
		for _, unit := range []string{"_ms", "_millis", "_milliseconds", "_minutes", "_kb", "_mb", "_percent"} {
			if strings.HasSuffix(strings.TrimSuffix(base, "_total"), unit) {
				bad("%s: use base units (seconds, bytes, ratio)", base)
			}
		}
		if base == name {
			continue
		}
		key, le := base, ""
		for _, p := range labelPair.FindAllStringSubmatch(labels, -1) {
			if p[1] == "le" {
				le = p[2]
			} else {
				key += "," + p[0]
			}
		}
		switch strings.TrimPrefix(name, base) {
		case "_bucket":
			if _, err := strconv.ParseFloat(le, 64); err != nil {
				bad("%s: le %q", key, le)
			}
			buckets[key] = append(buckets[key], value)
			if le == "+Inf" {
				counts[key] = value
			}
		case "_sum":
			sums[key] = true
		case "_count":
			if inf, ok := counts[key]; !ok || inf != value {
				bad("%s: count %v, +Inf bucket %v", key, value, inf)
			}
		}
	}
	for key, b := range buckets {
		if !slices.IsSorted(b) {
			bad("%s: buckets are not cumulative", key)
		}
		if !sums[key] {
			bad("%s: no sum", key)
		}
	}
	for name, f := range families {
		if f.kind == "" {
			bad("%s: no TYPE", name)
		}
	}
	return problems
}

func TestLintFindsFaults(t *testing.T) {
	for page, want := range map[string]string{
		"a_total 1\n": "without HELP",
		"# HELP a Some.\n# TYPE a counter\na 1\n":                                                                  "ends in _total",
		"# HELP a_total Some.\n# TYPE a_total gauge\na_total 1\n":                                                  "only a counter",
		"# HELP a_ms Some.\n# TYPE a_ms gauge\na_ms 1\n":                                                           "base units",
		"# HELP a Some.\n# TYPE a gauge\na 1\na 2\n":                                                               "twice",
		"# HELP a Some.\n# TYPE a gauge\na{x=\"1\" 2\n":                                                            "not a sample",
		"# HELP a Some.\n# TYPE a gauge\na{x=\"1\"}\n":                                                             "not a sample",
		"# HELP a_seconds Some.\n# TYPE a_seconds histogram\na_seconds_bucket{le=\"1\"} 1\na_seconds_count 2\n":    "+Inf",
		"# HELP a Some.\n# TYPE a gauge\na 1\n# HELP b Some.\n# TYPE b gauge\nb 1\na{x=\"1\"} 1\n":                 "one place",
		"# HELP a_seconds Some.\n# TYPE a_seconds histogram\na_seconds_bucket{le=\"+Inf\"} 1\na_seconds_count 1\n": "no sum",
	} {
		if got := strings.Join(lint(page), "; "); !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", page, got, want)
		}
	}
}

// wantShown checks that the page contains each family of observe.MetricFamilies for which among
// returns true.
func wantShown(t *testing.T, page string, among func(name string) bool) {
	t.Helper()
	for _, f := range observe.MetricFamilies() {
		if among(f.Name) && !strings.Contains(page, "# TYPE "+f.Name+" "+string(f.Kind)+"\n") {
			t.Errorf("%s is described and not shown", f.Name)
		}
	}
}

// TestMetricsPage sends calls with every outcome to an edge and lints the page.
func TestMetricsPage(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{
		Engines: []sim.Options{{TokenRate: 100}, {TokenRate: 100}}, Upstream: "concurrency: 1, probe: { interval: 100ms }",
		Model: "queue: { depth: 1, wait: 60s }", Key: "limits: { requests_per_minute: 100000, concurrency: 4 }", Timeouts: "write: 300ms",
		Models: `- { id: 'odd "name" \ of ünïcode', deployments: [{ upstream: up-0, served: sim }, { upstream: up-1, served: sim, traffic: 10% }], shadow: { model: sim, share: 0.0001% } }`,
	})
	begun := rig.StartWatch()
	streamed := p.ChatRequest(`"stream":true,"max_tokens":20`)
	p.Post(chatPath, streamed).WantStatus(200)
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	p.Post(chatPath, rig.ChatBody(`odd \"name\" \\ of ünïcode`, "")).WantStatus(200)
	p.Post(chatPath, rig.ChatBody("none", "")).WantStatus(404)
	p.Post("/v1/responses", `{"model":"sim","input":"x","tools":[{"type":"function","name":"f"},{"type":"web_search"}]}`).WantStatus(200)
	for _, e := range p.Engines {
		e.SetFault(sim.Fault{Spec: "status=503"})
	}
	for range 6 {
		p.Post(chatPath, p.ChatRequest(""))
	}
	for _, e := range p.Engines {
		e.SetFault()
	}
	rig.WaitFor(t, rig.WaitTimeout, "both engines are used again", func() bool { return p.Metric("penstock_upstream_breaker_open") == 0 })
	held := []*rig.Stream{}
	for range 2 { // occupies both slots
		held = append(held, p.OpenStream(chatPath, p.ChatRequest(endlessStream)))
	}
	done := make(chan int, 1)
	go func() { done <- p.Post(chatPath, p.ChatRequest("")).Status }()
	rig.WaitFor(t, rig.WaitTimeout, "one waits", func() bool { return p.Metric("penstock_model_queue_waiting") == 1 })
	p.Post(chatPath, p.ChatRequest("")).WantStatus(429)
	for _, s := range held {
		s.Next()
		s.Disconnect()
	}
	if status := rig.Receive(t, rig.WaitTimeout, "the call that waited is answered", done); status != 200 {
		t.Errorf("the call that waited got %d", status)
	}
	rig.WaitFor(t, rig.WaitTimeout, "the engines' counts were read after the clients left", func() bool {
		return p.Metric("penstock_upstream_abandoned_total", `slot="freed"`) == 2
	})
	p.WaitIdle()
	page := p.MetricsText()
	for _, problem := range lint(page) {
		t.Error(problem)
	}
	wantOpenMetrics(t, p)
	// The edge of this test does not have these metrics. For example, it uses neither traces nor
	// TLS.
	missing := []string{"penstock_log_dropped_total", "penstock_spans_dropped_total", "penstock_stream_aborts_total", "penstock_certificate_expiry_timestamp_seconds", "penstock_admin_certificate_expiry_timestamp_seconds", "penstock_certificate_not_before_timestamp_seconds", "penstock_admin_certificate_not_before_timestamp_seconds", "penstock_suspect_markup_total", "penstock_model_tier", "penstock_overflow_calls_total", "penstock_fallback_calls_total", "penstock_class_calls_total", "penstock_class_queue_waiting", "penstock_acme_failures", "penstock_acme_waiting", "penstock_acme_orders_total", "penstock_discovered_models", "penstock_discovered_models_left_out", "penstock_upstream_lacks"}
	elsewhere := []string{fleetMetrics, ledgerMetrics, discoveryMetrics, issuerMetrics, hookMetrics} // other tests check these metrics
	wantShown(t, page, func(name string) bool {
		return !slices.Contains(missing, name) && !slices.ContainsFunc(elsewhere, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
	// A timestamp of 0 would fire the alert forever.
	if strings.Contains(page, "certificate_expiry_timestamp_seconds") || strings.Contains(page, "certificate_not_before_timestamp_seconds") {
		t.Error("an edge without TLS tells when its certificate expires")
	}
	for name, want := range map[string]float64{
		`penstock_queue_seconds_count{dialect="chat",model="sim"}`:       1,
		`penstock_limit_refusals_total{limit="pool"}`:                    1,
		`penstock_client_aborts_total{phase="streaming"}`:                2,
		`penstock_config_generation_calls_inflight{generation="1"}`:      0,
		`penstock_upstream_abandoned_total{upstream="up-0",slot="held"}`: 0,
	} {
		if got, ok := p.Metrics()[name]; !ok || got != want {
			t.Errorf("%s is %v (%t), want %v", name, got, ok, want)
		}
	}
	if n := p.Metric("penstock_overhead_seconds_count"); n < 5 {
		t.Errorf("%v overheads, want 5 or more", n)
	}
	if sum, n := p.Metric("penstock_overhead_seconds_sum"), p.Metric("penstock_overhead_seconds_count"); sum/n > 0.1+begun.StepDelay().Seconds() {
		t.Errorf("the edge says that it adds %v s a call: it counts somebody else's time as its own", sum/n)
	}
	// On a busy machine, tokens may be received in groups.
	rig.WaitFor(t, rig.WaitTimeout, "gaps between the tokens are measured", func() bool {
		p.Post(chatPath, streamed).WantStatus(200)
		return p.Metric("penstock_itl_seconds_count") >= 5
	})
}

// TestDashboards checks that every metric in the dashboard and the alert rules exists, and that
// histograms are queried as histograms.
func TestDashboards(t *testing.T) {
	exposed := map[string]bool{}
	for _, f := range observe.MetricFamilies() {
		if f.Kind == observe.KindHistogram {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				exposed[f.Name+suffix] = true
			}
			continue
		}
		exposed[f.Name] = true
	}
	names := regexp.MustCompile(`\b(?:penstock|process|go)_[a-z_]+`)
	for _, file := range []string{"grafana.json", "alerts.yaml"} {
		text, err := os.ReadFile("../../.deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		used := map[string]bool{}
		for _, name := range names.FindAllString(string(text), -1) {
			used[name] = true
		}
		for _, name := range slices.Sorted(maps.Keys(used)) {
			if !exposed[name] {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
		if len(used) < 10 {
			t.Errorf("%s names only %d metrics", file, len(used))
		}
	}
}

// TestIdleModel checks that a model's idle time is 0 while a call is running, and grows after the
// call. Autoscalers read this metric.
func TestIdleModel(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	idle := func() float64 { return p.Metric("penstock_model_idle_seconds", `model="sim"`) }
	release := p.hold(1, p.ChatRequest(endlessStream))
	if got := idle(); got != 0 {
		t.Errorf("%v s beside a call", got)
	}
	release()
	p.WaitIdle()
	begun := idle()
	rig.WaitFor(t, rig.WaitTimeout, "it grows", func() bool { return idle() > begun+0.2 })
	asked := time.Now()
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	p.WaitIdle()
	if got := idle(); got > time.Since(asked).Seconds() {
		t.Errorf("%v s behind another call", got)
	}
}
