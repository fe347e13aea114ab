package load

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"penstock/bench/exit"
	"penstock/bench/load/client"
	"penstock/bench/result"
)

// scrapedMetrics lists the metrics to record, which are those that operators check when latencies
// rise. The values of a metric are summed over all label sets.
var scrapedMetrics = []string{
	"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
	"vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total", "vllm:num_preemptions_total",
	"sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage", "sglang:cache_hit_rate",
	"llamacpp:requests_processing", "llamacpp:requests_deferred", "llamacpp:kv_cache_usage_ratio",
	"penstock_calls_inflight", "penstock_calls_total", "penstock_client_aborts_total", "penstock_client_connections",
	"penstock_upstream_inflight", "penstock_upstream_attempts_total", "penstock_upstream_up",
	"penstock_upstream_breaker_open", "penstock_upstream_stalled", callsMovedMetric, streamsResumedMetric,
	"process_cpu_seconds_total", "process_resident_memory_bytes", "go_goroutines",
}

// An edge counts the calls that it moved to another engine in these metrics. The first counts calls
// whose client had received nothing, and the second counts streams that another engine continued.
const (
	callsMovedMetric     = "penstock_calls_moved_total"
	streamsResumedMetric = "penstock_streams_resumed_total"
)

// inFlightGauges lists groups of gauges. The sum of the gauges in a group is the number of requests
// at a server. The first gauge is the name of the group.
var inFlightGauges = [][]string{
	{"vllm:num_requests_running", "vllm:num_requests_waiting"},
	{"sglang:num_running_reqs", "sglang:num_queue_reqs"},
	{"llamacpp:requests_processing", "llamacpp:requests_deferred"},
	{"penstock_calls_inflight"},
}

// scraper reads a server's metrics page at regular intervals.
type scraper struct {
	source string
	t      *client.Target
	clock  *client.Clock
	open   *atomic.Int64 // number of the client's requests in flight

	mu       sync.Mutex
	readings []metricsReading // ordered by time
	err      string
}

// metricsReading is one sample of the page. values is nil if the read failed.
type metricsReading struct {
	at      int64
	values  map[string]float64
	surplus int // requests at the server minus the client's requests in flight
}

// movedCallCount returns how many calls the edge has moved to another engine.
func (r *metricsReading) movedCallCount() float64 {
	return r.values[callsMovedMetric] + r.values[streamsResumedMetric]
}

// newScrapers returns a scraper for each metrics page that can be read. The pages are those of the
// target, the engines and the edge.
func newScrapers(ctx context.Context, s *settings, first *client.Target, c *client.Clock,
	open *atomic.Int64,
) ([]*scraper, error) {
	type page struct {
		source, base string
		headers      []byte
	}
	pages := []page{{"target", first.Base, first.Headers}}
	for _, u := range s.Engine {
		name, base := splitEngineURL(u)
		pages = append(pages, page{strings.TrimSpace("engine " + name), base, nil})
	}
	if s.Admin != "" {
		pages = append(pages, page{"edge", s.Admin, client.BearerHeader(s.AdminToken)})
	}
	var out []*scraper
	for i, p := range pages {
		t, err := client.NewTarget(p.base, s.Insecure, p.headers)
		if err != nil {
			return nil, err
		}
		x := &scraper{source: p.source, t: t, clock: c, open: open}
		if _, err := x.fetchMetrics(ctx); err == nil {
			out = append(out, x)
		} else if i > 0 { // only the target's page (i = 0) is optional
			flag := "--engine-url is the base URL of an engine"
			if p.source == "edge" {
				flag = "--admin (or PENSTOCK_ADMIN) is the address of an edge's admin listener"
			}
			return nil, exit.Usagef("%s/metrics: %s: %s", t.Base, client.DescribeNetworkError(err), flag)
		}
	}
	return out, nil
}

// splitEngineURL splits a value of --engine-url, which is NAME=URL or a URL.
func splitEngineURL(text string) (name, base string) {
	name, base, ok := strings.Cut(text, "=")
	if !ok || strings.Contains(name, "/") {
		return "", text
	}
	return name, base
}

func (s *scraper) fetchMetrics(ctx context.Context) (map[string]float64, error) {
	p, err := s.t.Fetch(ctx, s.t.Path+"/metrics", nil, s.t.Headers)
	if err != nil {
		return nil, err
	}
	if p.Status != 200 {
		return nil, fmt.Errorf("status %d", p.Status)
	}
	return parseMetrics(p.Body), nil
}

// parseMetrics returns the sampled metrics in a page of Prometheus text.
func parseMetrics(page []byte) map[string]float64 {
	out := map[string]float64{}
	for series, v := range client.ParseMetrics(page) {
		name, _, _ := strings.Cut(string(series), "{")
		if slices.Contains(scrapedMetrics, name) {
			out[name] += v
		}
	}
	return out
}

// requestsAtServer returns the number of requests at the server, and the name of the gauge that
// reports it. ok is false if there is no such gauge.
func requestsAtServer(values map[string]float64) (n int, source string, ok bool) {
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

func (s *scraper) scrapeUntilDone(ctx context.Context, every time.Duration) {
	for ctx.Err() == nil {
		s.scrapeOnce(ctx)
		sleepUnlessDone(ctx, every)
	}
}

func (s *scraper) scrapeOnce(ctx context.Context) {
	before := s.open.Load()
	values, err := s.fetchMetrics(ctx)
	after := s.open.Load()
	if ctx.Err() != nil {
		return
	}
	n, _, _ := requestsAtServer(values)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.err = client.DescribeNetworkError(err)
	}
	s.readings = append(s.readings, metricsReading{s.clock.Now(), values, n - int(max(before, after))})
}

func (s *scraper) successfulReadings() []metricsReading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.readings), func(r metricsReading) bool { return r.values == nil })
}

// telemetryResult returns the columns of the result, with at most one sample per second. A failed
// reading leaves a gap in the columns, because a line drawn across the gap would make a dead engine
// look idle.
func (s *scraper) telemetryResult() result.Telemetry {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := result.Telemetry{
		Source: s.source, URL: s.t.Base, TS: []float64{}, Metrics: map[string][]*float64{},
		Error: s.err,
	}
	var kept []metricsReading
	for _, r := range s.readings {
		if len(kept) == 0 || r.at-kept[len(kept)-1].at >= int64(900*time.Millisecond) {
			kept = append(kept, r)
		}
	}
	for i, r := range kept {
		out.TS = append(out.TS, float64(r.at)/1e9)
		for name, v := range r.values {
			if out.Metrics[name] == nil {
				out.Metrics[name] = make([]*float64, len(kept))
			}
			out.Metrics[name][i] = &v
		}
	}
	return out
}
