package client

import (
	"maps"
	"testing"
)

func TestMetrics(t *testing.T) {
	page := []byte("other{result=\"ok\"} 7\nother{result=\"error\"} 2\n# HELP a Help of {a}.\na 1\na{b=\"c d\"} 2.5 17\na_b\t3\nnone\n none 4\nempty \nbad x\nunknown NaN\nmuch{le=\"+Inf\"} +Inf\n\n{} 5\nlast 6")
	got := map[string]float64{}
	for series, v := range ParseMetrics(page) {
		if got[string(series)] = v; string(series) == "last" {
			break
		}
	}
	delete(got, `much{le="+Inf"}`)
	if want := map[string]float64{`other{result="ok"}`: 7, `other{result="error"}`: 2, "a": 1, `a{b="c d"}`: 2.5, "a_b": 3, "{}": 5, "last": 6}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if a, ok, none := MetricValue(page, "a"), MetricValue(page, `other{result="ok"}`), MetricValue(page, "a_"); a != 1 || ok != 7 || none != 0 {
		t.Errorf("a is %v, ok %v, a_ %v", a, ok, none)
	}
}

func FuzzMetrics(f *testing.F) {
	f.Add([]byte("vllm:num_requests_running{a=\"b\"} 3\n# x\npenstock_calls_inflight 2 17\nvllm:num_requests_running{} NaN"))
	f.Fuzz(func(t *testing.T, page []byte) {
		for series := range ParseMetrics(page) {
			if len(series) == 0 || series[0] == '#' {
				t.Errorf("series %q of %q, want a name", series, page)
			}
		}
	})
}
