package client

import (
	"bytes"
	"iter"
	"math"
	"strconv"
)

// ParseMetrics parses Prometheus text. It yields each series, including its labels as written, and
// the value. It skips series whose value is not a number.
func ParseMetrics(page []byte) iter.Seq2[[]byte, float64] {
	return func(yield func([]byte, float64) bool) {
		for line := range bytes.Lines(page) {
			end := bytes.LastIndexByte(line, '}') + 1
			if end == 0 {
				end = bytes.IndexAny(line, " \t")
			}
			if end <= 0 || line[0] == '#' {
				continue
			}
			fields := bytes.Fields(line[end:]) // a timestamp may follow
			if len(fields) == 0 {
				continue
			}
			v, err := strconv.ParseFloat(string(fields[0]), 64)
			if err == nil && !math.IsNaN(v) && !yield(line[:end], v) {
				return
			}
		}
	}
}

// MetricValue returns the value of a series, or 0 if it is missing.
func MetricValue(page []byte, series string) float64 {
	for name, v := range ParseMetrics(page) {
		if string(name) == series {
			return v
		}
	}
	return 0
}
