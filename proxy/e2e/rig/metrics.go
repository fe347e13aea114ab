package rig

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Metrics reads the metrics. A key is a line of the metrics page without its value.
func (e *Edge) Metrics() map[string]float64 { return parseMetrics(e.MetricsText()) }

// MetricsText returns the metrics page as text.
func (e *Edge) MetricsText() string {
	e.T.Helper()
	return e.adminPage("/metrics").Body
}

func parseMetrics(text string) map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		if v, err := strconv.ParseFloat(strings.TrimSpace(line[i:]), 64); err == nil {
			out[line[:i]] = v
		}
	}
	return out
}

// Metric returns the sum of the series whose lines contain name and all labels.
func (e *Edge) Metric(name string, labels ...string) float64 {
	e.T.Helper()
	sum := 0.0
	for line, v := range e.Metrics() {
		base, _, _ := strings.Cut(line, "{")
		if base == name && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(line, l) }) {
			sum += v
		}
	}
	return sum
}

// Series returns the sorted names of all series, with labels. It omits the series of the runtime
// and the process.
func (e *Edge) Series() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(e.Metrics())) {
		if strings.HasPrefix(name, "penstock_") {
			out = append(out, name)
		}
	}
	return out
}
