package overhead

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/bench/exit"
	"penstock/bench/load"
	"penstock/bench/result"
)

// measurement is one measurement.
type measurement struct {
	name     string
	engine   []string // flags of the simulator behind every target
	options  load.Options
	edgeOnly bool // only the edge speaks this dialect
	direct   bool // measured without a proxy, too
	timed    bool // it measures time as the client sees it, so that what disturbs the client puts it in doubt
	rows     []measuredLine
}

// measuredLine is a line of the report that a measurement gives.
type measuredLine struct {
	name, unit, text string
	value            func(m *trial) float64
}

// trial is what one run of a test against one target gave.
type trial struct {
	result  *result.Result
	cpu     float64 // microseconds of the proxy's processor time
	before  float64 // bytes of its resident memory
	highest float64
	streams int
}

// preflightRequests are what a run sends before it measures.
const preflightRequests = 2

// tests are the measurements that were asked for.
func (c *Cmd) tests() ([]measurement, error) {
	rate := strconv.FormatFloat(c.Rate, 'f', -1, 64)
	request := load.Options{
		MaxConcurrency: []int{32}, Duration: load.Span(c.Duration), NoStream: true, InputLen: "256",
		OutputLen: "200", IgnoreEOS: true,
	}
	steady := request
	steady.MaxConcurrency, steady.RequestRate, steady.Burstiness = nil, []string{rate}, math.Inf(1)
	steady.Warmup = min(c.Duration/4, time.Second)
	stream := load.Options{
		MaxConcurrency: []int{c.Streams}, NumPrompts: load.Count(c.Streams), InputLen: "64",
		OutputLen: "200", IgnoreEOS: true,
	}
	messages := stream
	messages.Backend = "messages"
	// All are open before the first ends; that they open within a second, not at once, keeps a busy
	// machine from losing some.
	hold := load.Options{
		MaxConcurrency: []int{c.Hold}, NumPrompts: load.Count(c.Hold), Spread: time.Second,
		InputLen: "64", OutputLen: "4", IgnoreEOS: true,
	}
	paced := []string{"--token-rate=50"}
	perToken := func(m *trial) float64 {
		if m.result.TotalOutputTokens == nil {
			return math.NaN()
		}
		return m.cpu / float64(*m.result.TotalOutputTokens)
	}
	latency := func(p float64) measuredLine {
		return measuredLine{
			name: "latency_p" + result.PercentileName(p), unit: "ms",
			text:  fmt.Sprintf("end to end at %s requests/s, p%s", rate, result.PercentileName(p)),
			value: func(m *trial) float64 { return m.result.Penstock.Total.Latency[result.E2EL].Quantile(p) },
		}
	}
	all := []measurement{
		{name: "request", options: request, rows: []measuredLine{{
			name: "request", unit: "µs", text: "CPU of a request: 1 KB in, 1 KB out, not streamed, 32 at once",
			value: func(m *trial) float64 { return m.cpu / float64(m.result.Completed+preflightRequests) },
		}}},
		{name: "latency", options: steady, direct: true, timed: true, rows: []measuredLine{latency(50), latency(99)}},
		{name: "token", engine: paced, options: stream, rows: []measuredLine{{
			name: "token", unit: "µs", text: fmt.Sprintf("CPU of a streamed token: %d streams, a token each 20 ms", c.Streams),
			value: perToken,
		}}},
		{name: "messages", engine: paced, options: messages, edgeOnly: true, rows: []measuredLine{{
			name: "messages", unit: "µs", text: "the same, Messages translated to chat and back", value: perToken,
		}}},
		{name: "memory", engine: []string{"--token-rate=1"}, options: hold, rows: []measuredLine{{
			name: "memory", unit: "KiB", text: fmt.Sprintf("resident memory of a held stream, of %d", c.Hold),
			value: func(m *trial) float64 { return max(0, m.highest-m.before) / 1024 / float64(m.streams) },
		}}},
	}
	var out []measurement
	for _, name := range c.Tests {
		i := slices.IndexFunc(all, func(t measurement) bool { return t.name == name })
		if i < 0 {
			return nil, exit.Usagef("unknown test %q: want request, latency, token, messages or memory", name)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// failures are the requests that failed, in one line; empty for none.
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

// doubt says why what was measured is not to be trusted: requests that failed and, of times that
// the client saw, what the verdict holds against them. It is empty when there is nothing.
func (t *measurement) doubt(m *trial) string {
	if t.timed && !m.result.Penstock.Verdict.Valid {
		return m.result.Penstock.Verdict.Invalidating()
	}
	return m.failures()
}
