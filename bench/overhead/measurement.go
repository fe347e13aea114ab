package overhead

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"penstock/bench/load"
	"penstock/bench/result"
)

// measurement describes one measurement.
type measurement struct {
	name       string
	engine     []string // flags of the simulator behind every target
	options    load.Options
	translated string // the dialect of the requests, which the edge translates; the other proxies get chat
	tls        bool   // clients speak TLS
	many       bool   // the edge's configuration has many keys and upstreams
	edgeOnly   bool   // only the edge is measured
	direct     bool   // also measured without a proxy
	timed      bool   // it measures time at the client, so any disturbance of the client makes it doubtful
	// play measures. If it is nil, a load with the options is sent.
	play func(ctx context.Context, s *stage) (*trial, error)
	rows []measuredLine
}

// measuredLine is a line of the report that a measurement produces.
type measuredLine struct {
	name, unit, text string
	value            func(m *trial) float64
}

// trial is the result of one run of a test against one target.
type trial struct {
	result  *result.Result // nil if no load was played
	calm    *result.Result // the same load without the measured action; nil for most
	cpu     float64        // processor time of the proxy, in microseconds
	before  float64        // its resident memory, in bytes
	highest float64
	held    int           // streams or connections that it held
	took    time.Duration // the measured times
}

// preflightRequests is the number of requests that a run sends before it measures.
const preflightRequests = 2

// perRequest returns the processor time per request.
func perRequest(m *trial) float64 { return m.cpu / float64(m.result.Completed+preflightRequests) }

// perToken returns the processor time per streamed token.
func perToken(m *trial) float64 {
	if m.result.TotalOutputTokens == nil {
		return math.NaN()
	}
	return m.cpu / float64(*m.result.TotalOutputTokens)
}

// perHeld returns the memory per held stream or connection.
func perHeld(m *trial) float64 { return max(0, m.highest-m.before) / 1024 / float64(m.held) }

// failures lists the failed requests in one line; empty if there are none.
func (m *trial) failures() string {
	if m.result.Failed == 0 {
		return ""
	}
	var kinds []string
	for _, e := range m.result.Penstock.Total.Errors {
		kinds = append(kinds, fmt.Sprintf("%d x %s", e.Count, e.Label()))
	}
	return fmt.Sprintf("%d of %d requests failed: %s", m.result.Failed, m.result.NumPrompts, strings.Join(kinds, ", "))
}

// doubt returns the reason why a measurement cannot be trusted. Either requests failed, or it
// measures times at the client and the verdict has findings. It returns "" if the measurement can
// be trusted.
func (t *measurement) doubt(m *trial) string {
	if m.result == nil {
		return ""
	}
	if t.timed && !m.result.Penstock.Verdict.Valid {
		return m.result.Penstock.Verdict.Invalidating()
	}
	return m.failures()
}
