package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long the harness waits for what should come at once: long, because the machine may be busy.
const patience = 15 * time.Second

// waitFor polls until cond holds, and fails the test when it does not within limit. It returns how long it took.
func waitFor(t testing.TB, limit time.Duration, what string, cond func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for pause := time.Millisecond; !cond(); pause = min(2*pause, 20*time.Millisecond) { // a look is mostly some requests
		if time.Since(begun) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(pause)
	}
	return time.Since(begun)
}

// rest waits until no call is in flight, every slot is free on the state page and in the catalog, and no engine works.
func (e *edge) rest() {
	e.t.Helper()
	var left string
	for deadline, pause := time.Now().Add(patience), time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if left = e.busy(); left == "" {
			return
		}
		if time.Now().After(deadline) {
			e.t.Errorf("not at rest: %s", left)
			return
		}
		time.Sleep(pause)
	}
}

// busy says what is still going on, or nothing.
func (e *edge) busy() string {
	for i, engine := range e.engines {
		if s := engine.Stats(); s.Running+s.Waiting > 0 {
			return fmt.Sprintf("engine %d: %d running, %d waiting", i, s.Running, s.Waiting)
		}
	}
	s := e.status()
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
	for _, m := range e.catalog() {
		if c := m.Capacity; c.Active != 0 || c.Available != c.Total {
			return fmt.Sprintf("the catalog has model %s with %+v", m.ID, c)
		}
	}
	for name, v := range e.metrics() {
		if v != 0 && (strings.Contains(name, "inflight") || name == "penstock_body_memory_bytes") {
			return fmt.Sprintf("%s = %v", name, v)
		}
	}
	return ""
}

// state is what the tests read of the state page.
type state struct {
	Version   int64           `json:"version"`
	Draining  bool            `json:"draining"`
	InFlight  int64           `json:"in_flight"`
	Upstreams []upstreamState `json:"upstreams"`
	Models    []struct {
		ID    string `json:"id"`
		Ready bool   `json:"ready"`
	} `json:"models"`
}

// upstreamState is one upstream of the state page.
type upstreamState struct {
	Name    string   `json:"name"`
	State   string   `json:"state"`
	Suspect bool     `json:"suspect"`
	Breaker string   `json:"breaker"`
	Missing []string `json:"missing"`
	Pools   []struct {
		Pool   string `json:"pool"`
		Active int    `json:"active"`
		Limit  int    `json:"limit"`
	} `json:"pools"`
	LastFailure *struct {
		Reason string `json:"reason"`
		Status int    `json:"status"`
	} `json:"last_failure"`
}

// upstream finds one by its name.
func (e *edge) upstream(name string) upstreamState {
	e.t.Helper()
	for _, u := range e.status().Upstreams {
		if u.Name == name {
			return u
		}
	}
	e.t.Fatalf("there is no upstream %s", name)
	return upstreamState{}
}

// status reads the state page.
func (e *edge) status() *state {
	e.t.Helper()
	r := e.fetch("GET", e.admin+"/status").wantStatus(200)
	wantSecret(e.t, "the state page", r.body, e.key)
	s := new(state)
	if err := json.Unmarshal([]byte(r.body), s); err != nil {
		e.t.Fatalf("the state page: %v\n%s", err, r.body)
	}
	return s
}

// model is what the tests read of a catalog entry.
type model struct {
	ID       string `json:"id"`
	IsReady  bool   `json:"is_ready"`
	Capacity struct {
		Available int `json:"available_concurrency"`
		Total     int `json:"total_concurrency"`
		Active    int `json:"active_requests"`
	} `json:"capacity"`
}

// catalog reads the public list of models. It may be up to a second old where the edge keeps it.
func (e *edge) catalog() []model {
	e.t.Helper()
	var list struct{ Data []model }
	r := e.fetch("GET", e.url+"/v1/models").wantStatus(200)
	if err := json.Unmarshal([]byte(r.body), &list); err != nil {
		e.t.Fatalf("the catalog: %v\n%s", err, r.body)
	}
	return list.Data
}

// metrics reads the admin listener's metrics: the whole line up to the value is the name.
func (e *edge) metrics() map[string]float64 { return parseMetrics(e.metricsText()) }

func (e *edge) metricsText() string {
	e.t.Helper()
	return e.fetch("GET", e.admin+"/metrics").wantStatus(200).body
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

// metric is the sum of the series whose line holds name and every one of labels.
func (e *edge) metric(name string, labels ...string) float64 {
	e.t.Helper()
	sum := 0.0
	for line, v := range e.metrics() {
		base, _, _ := strings.Cut(line, "{")
		if base == name && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(line, l) }) {
			sum += v
		}
	}
	return sum
}

// callLine is one line of the access log.
type callLine struct {
	Msg       string  `json:"msg"`
	RequestID string  `json:"request_id"`
	Key       string  `json:"key"`
	Dialect   string  `json:"dialect"`
	Model     string  `json:"model"`
	Upstream  string  `json:"upstream"`
	Stream    bool    `json:"stream"`
	Status    int     `json:"status"`
	Code      string  `json:"code"`
	Outcome   string  `json:"outcome"`
	Attempts  int     `json:"attempts"`
	QueueMS   float64 `json:"queue_ms"`
	BytesIn   int64   `json:"bytes_in"`
	BytesOut  int64   `json:"bytes_out"`
}

// calls are the access lines so far.
func (p *process) calls() []callLine {
	p.t.Helper()
	var out []callLine
	for line := range strings.Lines(p.log.String()) {
		var l callLine
		if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "call" {
			out = append(out, l)
		}
	}
	return out
}

// lastCall waits until the edge is at rest and all calls are told of, and returns the newest access line.
func (e *edge) lastCall() callLine {
	e.t.Helper()
	e.rest()
	e.checkBooks()
	all := e.calls()
	if len(all) == 0 {
		e.t.Fatal("there is no access line")
	}
	return all[len(all)-1]
}

// buffer collects what a process writes.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
