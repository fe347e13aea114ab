package report

import (
	"slices"
	"strings"
	"testing"

	"penstock/bench/result"
)

// TestUpstreamLines checks that the line of each upstream shows its responses per second, with a
// gap while its engine was down.
func TestUpstreamLines(t *testing.T) {
	one := 1.0
	p := &result.Penstock{
		Series: result.Series{
			IntervalS: 2, TS: []float64{0, 2, 4, 6}, Upstreams: map[string][]int{"gpu-b": {4, 0, 0, 2}, "gpu-a": {2, 0, 8, 8}},
		},
		Telemetry: []result.Telemetry{
			{Source: "engine gpu-a", TS: []float64{1, 3, 5}, Metrics: map[string][]*float64{"x": {&one, &one, &one}}},
			{Source: "engine gpu-b", TS: []float64{1, 3, 7}, Metrics: map[string][]*float64{"x": {&one, nil, &one}}},
		},
	}
	got := upstreamLines(p)
	if len(got) != 2 || got[0].Label != "gpu-a" || got[1].Label != "gpu-b" {
		t.Fatalf("lines = %+v, want gpu-a and gpu-b", got)
	}
	text := func(l plotLine) (out []string) {
		for _, v := range l.Y {
			if v == nil {
				out = append(out, "dead")
			} else {
				out = append(out, result.NumberText(*v))
			}
		}
		return out
	}
	if a, b := text(got[0]), text(got[1]); !slices.Equal(a, []string{"1.000", "0", "4.000", "4.000"}) || !slices.Equal(b, []string{"2.000", "dead", "dead", "1.000"}) {
		t.Errorf("lines = %v and %v, want 1, 0, 4, 4 and 2, dead, dead, 1", a, b)
	}
	for _, name := range []string{"c", "d", "e", "f", "g", "h", "i", "j"} {
		p.Series.Upstreams[name] = []int{9, 9, 9, 9}
	}
	if got = upstreamLines(p); len(got) != maxUpstreams || got[0].Label != "c" {
		t.Errorf("the busiest of ten: %+v", got)
	}
	if p.Series.Upstreams = map[string][]int{"gpu-a": {1, 1, 1, 1}}; upstreamLines(p) != nil {
		t.Error("one upstream has all requests: it needs no plot")
	}
}

// TestDescribePlot checks that the description of a plot contains the range and the highest point
// of each line.
func TestDescribePlot(t *testing.T) {
	c := plot{Title: "Time", XUnit: "s", YUnit: "ms", X: []float64{0, 10, 20}, Lines: []plotLine{
		{Label: "p50", Y: []*float64{new(3.0), nil, new(7.0)}}, {Label: "objective", Y: []*float64{new(5.0), new(5.0), new(5.0)}},
	}}
	if got, want := describePlot(&c), "Time, over 0 to 20.00 s. p50: 3.000 ms to 7.000 ms, highest at 20.00 s. objective: 5.000 ms."; got != want {
		t.Errorf("words = %s, want %s", got, want)
	}
	if c.YMax = new(1.0); !strings.Contains(describePlot(&c), "p50: 300.00 %") {
		t.Errorf("words = %s, want p50: 300.00 %% in them", describePlot(&c))
	}
}

// TestSubject checks that the report names the scenario rather than a port if the scenario started
// the fleet.
func TestSubject(t *testing.T) {
	r := &result.Result{Penstock: &result.Penstock{
		Target: result.Target{BaseURL: "http://127.0.0.1:43210"}, Scenario: &result.Scenario{Name: "x", Text: "y", Explain: "a\n\nb", OwnFleet: true},
		Telemetry: []result.Telemetry{{Source: "engine gpu-a", URL: "http://127.0.0.1:43211", TS: []float64{1, 2}, Metrics: map[string][]*float64{"vllm:num_requests_running": {new(1.0), new(2.0)}}}},
	}}
	html := htmlOf(t, r)
	if strings.Contains(html, "127.0.0.1:4321") || !strings.Contains(html, "<p>b</p>") || !strings.Contains(html, `"note":"gpu-a"`) {
		t.Error(html[strings.Index(html, "<main>"):])
	}
	if r.Penstock.Scenario.OwnFleet = false; !strings.Contains(htmlOf(t, r), "127.0.0.1:43210") {
		t.Error("somebody's own target is not named")
	}
}
