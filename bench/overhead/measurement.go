package overhead

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"penstock/bench/load"
	"penstock/bench/overhead/rawload"
	"penstock/bench/result"
)

type measurement struct {
	name    string
	engine  []string // flags of the simulated engine
	options load.Options
	// dialect of requests that the edge translates; the other proxies receive chat requests
	translated     string
	tls            bool // clients use TLS
	useLargeConfig bool // use a configuration with many keys and upstreams
	edgeOnly       bool // measure only the edge
	direct         bool // also measure without a proxy
	// Load between the engine and the client of package rawload; nil if package load is used.
	raw *rawload.Load
	// Times are measured at the client, so any disturbance of the client invalidates them.
	timed bool
	// perform performs the measurement. If perform is nil, the measurement sends a load with the
	// options.
	perform func(ctx context.Context, s *startedTarget) (*targetResult, error)
	rows    []measuredRow
}

// measuredRow describes a report row that results from a measurement.
type measuredRow struct {
	name, unit, text string
	value            func(m *targetResult) float64
	withoutProxy     bool // whether the row has a value without a proxy; used only by raw loads
}

// targetResult is the result of one measurement of one target.
type targetResult struct {
	result      *result.Result  // nil if no load was sent
	undisturbed *result.Result  // result of the same load without reloads; usually nil
	raw         *rawload.Result // nil unless a raw load was sent
	cpu         float64         // CPU time of the proxy in microseconds
	userShare   float64         // share of cpu in user mode
	before      float64         // resident memory of the proxy in bytes
	highest     float64
	held        int           // number of streams or connections held open
	took        time.Duration // the measured durations
}

// preflightRequests is how many requests a run sends before the load.
const preflightRequests = 2

func cpuPerRequest(m *targetResult) float64 {
	return m.cpu / float64(m.result.Completed+preflightRequests)
}

func cpuPerToken(m *targetResult) float64 {
	if m.result.TotalOutputTokens == nil {
		return math.NaN()
	}
	return m.cpu / float64(*m.result.TotalOutputTokens)
}

func kilobytesPerConnection(m *targetResult) float64 {
	return max(0, m.highest-m.before) / 1024 / float64(m.held)
}

// failureText describes the failed requests in one line, or returns "".
func (m *targetResult) failureText() string {
	if m.result.Failed == 0 {
		return ""
	}
	var kinds []string
	for _, e := range m.result.Penstock.Total.Errors {
		kinds = append(kinds, fmt.Sprintf("%d x %s", e.Count, e.Label()))
	}
	return fmt.Sprintf("%d of %d requests failed: %s", m.result.Failed, m.result.NumPrompts, strings.Join(kinds, ", "))
}

// distrustReason explains why a measurement is not trustworthy, or returns "". A measurement is not
// trustworthy if requests failed. A measurement of client-side times is also not trustworthy if the
// verdict is invalid.
func (t *measurement) distrustReason(m *targetResult) string {
	if m.raw != nil {
		return t.rawDistrustReason(m)
	}
	if m.result == nil {
		return ""
	}
	if t.timed && !m.result.Penstock.Verdict.Valid {
		return m.result.Penstock.Verdict.InvalidatingText()
	}
	return m.failureText()
}
