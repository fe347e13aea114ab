package bench

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sampled are the metrics that are kept of a page: what people look at when latencies go up. Values of several label sets are added.
var sampled = []string{
	"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
	"vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total", "vllm:num_preemptions_total",
	"sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage", "sglang:cache_hit_rate",
	"llamacpp:requests_processing", "llamacpp:requests_deferred", "llamacpp:kv_cache_usage_ratio",
	"penstock_calls_inflight", "penstock_calls_total", "penstock_client_aborts_total", "penstock_client_connections",
	"penstock_upstream_inflight", "penstock_upstream_attempts_total", "penstock_upstream_up", "penstock_upstream_breaker_open",
	"process_cpu_seconds_total", "process_resident_memory_bytes", "go_goroutines",
}

// inFlightGauges are the sums of gauges that say how many requests a server has in hand, by the name of the first.
var inFlightGauges = [][]string{
	{"vllm:num_requests_running", "vllm:num_requests_waiting"},
	{"sglang:num_running_reqs", "sglang:num_queue_reqs"},
	{"llamacpp:requests_processing", "llamacpp:requests_deferred"},
	{"penstock_calls_inflight"},
}

// scraper samples the metrics page of one server.
type scraper struct {
	run     *run
	source  string
	t       *target
	headers []byte

	mu      sync.Mutex
	times   []int64
	values  []map[string]float64
	surplus []int   // requests that the server has beyond those that the client has open
	missed  []int64 // times at which the page was not answered
	err     string
}

// scrapers returns a scraper for each page of metrics that answers: of the target, the engines and the edge.
func (r *run) scrapers(ctx context.Context) ([]*scraper, error) {
	var out []*scraper
	add := func(source, base string, headers []byte, demanded bool) error {
		t, err := newTarget(base, r.s.Insecure)
		if err != nil {
			return err
		}
		t.clock = r.clock
		s := &scraper{run: r, source: source, t: t, headers: headers}
		if _, err := s.read(ctx); err != nil {
			if demanded {
				return usageError("%s/metrics: %s", t.base, reason(err))
			}
			return nil
		}
		out = append(out, s)
		return nil
	}
	if err := add("target", r.targets[0].base, r.targets[0].headers, false); err != nil {
		return nil, err
	}
	for _, u := range r.s.Engine {
		name, base := engineName(u)
		if err := add(strings.TrimSpace("engine "+name), base, nil, true); err != nil {
			return nil, err
		}
	}
	if r.s.Admin != "" {
		if err := add("edge", r.s.Admin, bearer(r.s.AdminToken), true); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// engineName splits the value of --engine-url, NAME=URL or a URL alone.
func engineName(text string) (name, base string) {
	name, base, ok := strings.Cut(text, "=")
	if !ok || strings.Contains(name, "/") {
		return "", text
	}
	return name, base
}

type statusError int

func (e statusError) Error() string { return "status " + strconv.Itoa(int(e)) }

// read reads the page once.
func (s *scraper) read(ctx context.Context) (map[string]float64, error) {
	p, err := s.t.fetch(ctx, s.t.path+"/metrics", nil, s.headers)
	if err != nil {
		return nil, err
	}
	if p.status != 200 {
		return nil, statusError(p.status)
	}
	return parseMetrics(p.body), nil
}

// parseMetrics takes the sampled metrics from Prometheus text.
func parseMetrics(page []byte) map[string]float64 {
	out := map[string]float64{}
	for line := range bytes.Lines(page) {
		end := bytes.IndexAny(line, "{ \t")
		if end <= 0 || line[0] == '#' {
			continue
		}
		name := string(line[:end])
		if !slices.Contains(sampled, name) {
			continue
		}
		rest := line[end:]
		if i := bytes.LastIndexByte(rest, '}'); i >= 0 {
			rest = rest[i+1:]
		}
		fields := bytes.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		if v, err := strconv.ParseFloat(string(fields[0]), 64); err == nil {
			out[name] += v
		}
	}
	return out
}

// requestsInHand returns how many requests a page says the server has, and by which gauge; ok is false when no gauge says it.
func requestsInHand(values map[string]float64) (n int, source string, ok bool) {
	for _, names := range inFlightGauges {
		if _, ok := values[names[0]]; ok {
			for _, name := range names {
				n += int(values[name])
			}
			return n, names[0], true
		}
	}
	return 0, "", false
}

// watch samples until ctx ends.
func (s *scraper) watch(ctx context.Context, every time.Duration) {
	for ctx.Err() == nil {
		s.once(ctx)
		sleep(ctx, every)
	}
}

func (s *scraper) once(ctx context.Context) {
	before := s.run.live.inFlight.Load()
	values, err := s.read(ctx)
	after := s.run.live.inFlight.Load()
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.err = reason(err)
		s.missed = append(s.missed, s.run.clock.now())
		return
	}
	n, _, _ := requestsInHand(values)
	s.times = append(s.times, s.run.clock.now())
	s.values = append(s.values, values)
	s.surplus = append(s.surplus, n-int(max(before, after)))
}

// reading is one look at the page; values are nil where the page was not answered.
type reading struct {
	at     int64
	values map[string]float64
}

// readings are all of them in order of time.
func (s *scraper) readings() []reading {
	out := make([]reading, 0, len(s.times)+len(s.missed))
	for i, at := range s.times {
		out = append(out, reading{at, s.values[i]})
	}
	for _, at := range s.missed {
		out = append(out, reading{at, nil})
	}
	slices.SortStableFunc(out, func(a, b reading) int { return cmp.Compare(a.at, b.at) })
	return out
}

// report makes the columns of the result, at most one sample for each second. Where the page was not answered they have a gap: a line
// drawn across it would show an engine that is dead as one that is calm.
func (s *scraper) report() Telemetry {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Telemetry{Source: s.source, URL: s.t.base, TS: []float64{}, Metrics: map[string][]*float64{}, Error: s.err}
	last := int64(0)
	var kept []map[string]float64
	for i, p := range s.readings() {
		if p.at-last >= int64(900*time.Millisecond) || i == 0 {
			last = p.at
			out.TS = append(out.TS, float64(p.at)/1e9)
			kept = append(kept, p.values)
		}
	}
	for _, values := range kept {
		for name := range values {
			out.Metrics[name] = nil
		}
	}
	for name := range out.Metrics {
		for _, values := range kept {
			var p *float64
			if v, ok := values[name]; ok {
				p = &v
			}
			out.Metrics[name] = append(out.Metrics[name], p)
		}
	}
	return out
}
