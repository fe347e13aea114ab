package load

import (
	"testing"

	"penstock/bench/load/client"
)

// TestParseMetrics checks that the values of all series of a sampled metric are added up.
func TestParseMetrics(t *testing.T) {
	got := parseMetrics([]byte("vllm:num_requests_running{a=\"b\"} 3\nvllm:num_requests_running{a=\"c\"} 4 17\nvllm:num_requests_running_x 9\nother 1\nvllm:num_requests_running{} NaN"))
	if len(got) != 1 || got["vllm:num_requests_running"] != 7 {
		t.Errorf("metrics = %v, want vllm:num_requests_running 7 alone", got)
	}
}

// TestTelemetryGap checks that an engine's columns have a gap for the time when its metrics page
// did not respond. The engine must have the name given in the flag.
func TestTelemetryGap(t *testing.T) {
	v := map[string]float64{"vllm:num_requests_running": 6}
	s := &scraper{source: "engine gpu-b", t: &client.Target{}, readings: []metricsReading{{1e9, v, 0}, {2e9, nil, 0}, {3e9, nil, 0}, {4e9, v, 0}}}
	got := s.telemetryResult().Metrics["vllm:num_requests_running"]
	if len(got) != 4 || got[0] == nil || got[1] != nil || got[2] != nil || got[3] == nil {
		t.Errorf("readings = %v, want a gap of two between two values", got)
	}
	for text, want := range map[string][2]string{
		"gpu-b=http://10.0.0.2:8000": {"gpu-b", "http://10.0.0.2:8000"}, "http://10.0.0.2/?a=b": {"", "http://10.0.0.2/?a=b"}, "10.0.0.2:8000": {"", "10.0.0.2:8000"},
	} {
		if name, base := splitEngineURL(text); name != want[0] || base != want[1] {
			t.Errorf("splitEngineURL(%s) = %q, %q; want %q", text, name, base, want)
		}
	}
}
