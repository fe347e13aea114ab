package rig

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// WaitIdle waits until no call is in flight, all slots are free, and no engine is working.
func (e *Edge) WaitIdle() {
	e.T.Helper()
	begun := StartWatch()
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		left := e.busyReason()
		if left == "" {
			begun.WantImmediate(e.T, "it comes to rest")
			return
		}
		if begun.exceeds(WaitTimeout) {
			e.T.Errorf("not at rest: %s", left)
			return
		}
		time.Sleep(pause)
	}
}

func (e *Edge) busyReason() string {
	for i, engine := range e.Engines {
		if s := engine.Stats(); s.Running+s.Waiting > 0 {
			return fmt.Sprintf("engine %d: %d running, %d waiting", i, s.Running, s.Waiting)
		}
	}
	s := e.Status()
	if s.InFlight != 0 {
		return fmt.Sprintf("%d calls in flight", s.InFlight)
	}
	for _, u := range s.Upstreams {
		for _, p := range u.Pools {
			if p.Active != 0 {
				return fmt.Sprintf("upstream %s: %d active in pool %s", u.Name, p.Active, p.Pool)
			}
		}
	}
	for _, m := range e.Catalog() {
		if c := m.Capacity; c.Active != 0 || c.Available != c.Total {
			return fmt.Sprintf("the catalog has model %s with %+v", m.ID, c)
		}
	}
	for name, v := range e.Metrics() {
		if v != 0 && (strings.Contains(name, "inflight") || name == "penstock_body_memory_bytes" ||
			name == "penstock_reply_memory_bytes") {
			return fmt.Sprintf("%s = %v", name, v)
		}
	}
	return ""
}

func checkIdleMetrics(e *Edge) {
	e.T.Helper()
	text := e.MetricsText()
	WantNoLeak(e.T, "the metrics", text, e.Key)
	for name, v := range parseMetrics(text) {
		if v != 0 && (strings.HasPrefix(name, "penstock_panics_total") || strings.Contains(name, "double_release")) {
			e.T.Errorf("%s is %v", name, v)
		}
	}
	var lines, finished, counted int
	begun := StartWatch()
	for ; !begun.exceeds(WaitTimeout); time.Sleep(time.Millisecond) { // a call is counted before it is logged
		lines, finished, counted = len(e.AccessLines()), int(e.Metric("penstock_calls_finished_total")), int(e.Metric("penstock_calls_total"))
		// No lines means that the access log is disabled or written elsewhere.
		told := lines == finished || lines == 0
		if lines < finished { // the log drops and counts lines if its buffer is full
			told = told || lines+int(e.Metric("penstock_log_dropped_total")) >= finished
		}
		if told && (counted == finished || e.Setup.Forgets && counted < finished) {
			begun.WantImmediate(e.T, "every call is counted and in the log")
			return
		}
	}
	e.T.Errorf("%d access lines, and %d calls were counted, %d of them by model", lines, finished, counted)
}

func (e *Edge) checkLog() {
	e.T.Helper()
	WantNoLeak(e.T, "the log", e.Log.String(), e.Key)
	for line := range strings.Lines(e.Log.String()) {
		if !json.Valid([]byte(line)) {
			e.T.Errorf("a line of the log is not JSON: %.2000s", line)
		}
		if strings.Contains(line, `"msg":"panic"`) {
			e.T.Logf("%.4000s", line)
		}
	}
	ids := map[string]bool{}
	for _, l := range e.AccessLines() {
		if ids[l.RequestID] {
			e.T.Errorf("two access lines for %s", l.RequestID)
		}
		ids[l.RequestID] = true
		if l.Outcome == "" || l.Outcome == "internal" {
			e.T.Errorf("a call ended as %q: %+v", l.Outcome, l)
		}
	}
}

// AccessLine is one line of the access log.
type AccessLine struct {
	Msg              string  `json:"msg"`
	RequestID        string  `json:"request_id"`
	Key              string  `json:"key"`
	Dialect          string  `json:"dialect"`
	Model            string  `json:"model"`
	Upstream         string  `json:"upstream"`
	Pool             string  `json:"pool"`
	Stream           bool    `json:"stream"`
	Status           int     `json:"status"`
	Code             string  `json:"code"`
	Outcome          string  `json:"outcome"`
	Cause            string  `json:"cause"`
	Attempts         int     `json:"attempts"`
	Failed           []any   `json:"failed_attempts"`
	Tier             int     `json:"tier"`
	Asked            string  `json:"asked_model"`
	Resumed          int     `json:"resumed"`
	PromptTokens     int     `json:"prompt_tokens"`
	CompletionTokens int     `json:"completion_tokens"`
	TokensEstimated  bool    `json:"tokens_estimated"`
	QueueMS          float64 `json:"queue_ms"`
	BytesIn          int64   `json:"bytes_in"`
	BytesOut         int64   `json:"bytes_out"`
}

// AccessLines returns the access lines so far.
func (e *Edge) AccessLines() []AccessLine {
	var out []AccessLine
	for line := range strings.Lines(e.Log.String()) {
		var l AccessLine
		if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "call" {
			out = append(out, l)
		}
	}
	return out
}

// AccessLinesWhenIdle waits until the edge is idle, and returns the access lines. A call's line is written after
// the client has received the last byte.
func (e *Edge) AccessLinesWhenIdle() []AccessLine {
	e.T.Helper()
	e.WaitIdle()
	// If there were no line, checkIdleMetrics would assume that the access log is disabled.
	WaitFor(e.T, WaitTimeout, "there is an access line", func() bool { return len(e.AccessLines()) > 0 })
	checkIdleMetrics(e)
	return e.AccessLines()
}

// LastAccessLine waits like AccessLinesWhenIdle, and returns the last access line.
func (e *Edge) LastAccessLine() AccessLine {
	e.T.Helper()
	all := e.AccessLinesWhenIdle()
	return all[len(all)-1]
}
