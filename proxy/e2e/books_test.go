package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// What the edge says of itself: metrics and access lines.

// metrics reads the admin listener's metrics: the whole line up to the value is the name.
func (p *penstock) metrics() map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(p.metricsText()) {
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

func (p *penstock) metricsText() string {
	p.t.Helper()
	req, err := http.NewRequest(http.MethodGet, p.admin+"/metrics", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+adminToken) // for the tests that set one
	res, err := p.client.Do(req)
	if err != nil {
		p.t.Fatalf("metrics: %v", err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		p.t.Fatalf("metrics: status %d, %v", res.StatusCode, err)
	}
	return string(b)
}

// metric is the sum of the series whose line holds name and every one of labels.
func (p *penstock) metric(name string, labels ...string) float64 {
	p.t.Helper()
	sum := 0.0
	for line, v := range p.metrics() {
		base, _, _ := strings.Cut(line, "{")
		if base == name && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(line, l) }) {
			sum += v
		}
	}
	return sum
}

// series are the names of all series, without those of the Go runtime and the process.
func (p *penstock) series() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(p.metrics())) {
		if strings.HasPrefix(name, "penstock_") {
			out = append(out, name)
		}
	}
	return out
}

// callLine is one line of the access log.
type callLine struct {
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
	Attempts         int     `json:"attempts"`
	PromptTokens     int     `json:"prompt_tokens"`
	CompletionTokens int     `json:"completion_tokens"`
	TokensEstimated  bool    `json:"tokens_estimated"`
	QueueMS          float64 `json:"queue_ms"`
	BytesIn          int64   `json:"bytes_in"`
	BytesOut         int64   `json:"bytes_out"`
}

// calls are the access lines so far.
func (p *penstock) calls() []callLine {
	p.t.Helper()
	var out []callLine
	for line := range strings.Lines(p.log.String()) {
		var l callLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			p.t.Errorf("a log line is not JSON: %s", line)
			continue
		}
		if l.Msg == "call" {
			out = append(out, l)
		}
	}
	return out
}

// lastCall waits for the edge to be at rest and returns the newest access line.
func (p *penstock) lastCall() callLine {
	p.t.Helper()
	p.rest()
	all := p.calls()
	if len(all) == 0 {
		p.t.Fatal("there is no access line")
	}
	return all[len(all)-1]
}

// waitFor polls until cond holds, and fails the test when it does not within limit. It returns how long it took.
func waitFor(t testing.TB, limit time.Duration, what string, cond func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for !cond() {
		if time.Since(begun) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(200 * time.Microsecond)
	}
	return time.Since(begun)
}

// logBuffer is the log of an edge in memory.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Sync implements zapcore.WriteSyncer.
func (l *logBuffer) Sync() error { return nil }

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
