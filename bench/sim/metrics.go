package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// histograms are the latencies that engines report.
type histograms struct{ queue, ttft, e2e histogram }

var bounds = [...]float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

type histogram struct {
	mu     sync.Mutex
	counts [len(bounds) + 1]int64
	sum    float64
	n      int64
}

func (h *histogram) observe(d time.Duration) {
	s := d.Seconds()
	i := 0
	for i < len(bounds) && s > bounds[i] {
		i++
	}
	h.mu.Lock()
	h.counts[i]++
	h.sum += s
	h.n++
	h.mu.Unlock()
}

func (h *histogram) append(b []byte, name, labels string) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	b = fmt.Appendf(b, "# HELP %s Histogram of %s.\n# TYPE %s histogram\n", name, strings.TrimPrefix(name, "vllm:"), name)
	sum := int64(0)
	for i, le := range bounds {
		sum += h.counts[i]
		b = fmt.Appendf(b, "%s_bucket{%s,le=\"%g\"} %d\n", name, labels, le, sum)
	}
	b = fmt.Appendf(b, "%s_bucket{%s,le=\"+Inf\"} %d\n", name, labels, h.n)
	b = fmt.Appendf(b, "%s_count{%s} %d\n", name, labels, h.n)
	return fmt.Appendf(b, "%s_sum{%s} %g\n", name, labels, h.sum)
}

// pageMetrics is the engine's Prometheus text.
func (e *Engine) pageMetrics(x *exchange) {
	var b []byte
	model, _ := e.served("")
	if names := *e.models.Load(); len(names) > 0 {
		model = names[0]
	}
	labels := `engine="0",model_name="` + model + `"`
	if x.p.name == "sglang" {
		labels = `model_name="` + model + `"`
	}
	metric := func(kind, name, help string, v float64, more ...string) {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		if x.p.name == "llamacpp" {
			b = fmt.Appendf(b, "%s %v\n", name, v)
			return
		}
		b = fmt.Appendf(b, "%s{%s} %v\n", name, strings.Join(append([]string{labels}, more...), ","), v)
	}
	running, waiting, _ := e.slots.load()
	used, _ := e.slots.room()
	usage := float64(used) / float64(e.kvSize())
	asked, hit := e.cache.counts()
	c := &e.counters
	prompted, generated := float64(c.prompted.Load()), float64(c.generated.Load())
	switch x.p.name {
	case "vllm":
		metric("gauge", "vllm:num_requests_running", "Number of requests in model execution batches.", float64(running))
		metric("gauge", "vllm:num_requests_waiting", "Number of requests waiting to be processed.", float64(waiting))
		metric("gauge", "vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", usage)
		metric("counter", "vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.", float64(asked))
		metric("counter", "vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", float64(hit))
		metric("counter", "vllm:num_preemptions_total", "Cumulative number of preemption from the engine.", float64(c.preempted.Load()))
		metric("counter", "vllm:prompt_tokens_total", "Number of prefill tokens processed.", prompted)
		metric("counter", "vllm:generation_tokens_total", "Number of generation tokens processed.", generated)
		metric("counter", "vllm:request_success_total", "Count of successfully processed requests.", float64(c.completed.Load()), `finished_reason="stop"`)
		b = fmt.Appendf(b, "vllm:request_success_total{%s,finished_reason=\"abort\"} %d\n", labels, c.aborted.Load())
		metric("gauge", "vllm:cache_config_info", "Information of the LLMEngine CacheConfig", 1,
			fmt.Sprintf(`block_size="%d",num_gpu_blocks="%d"`, blockTokens, e.kvSize()/blockTokens))
		b = e.times.ttft.append(b, "vllm:time_to_first_token_seconds", labels)
		b = e.times.queue.append(b, "vllm:request_queue_time_seconds", labels)
		b = e.times.e2e.append(b, "vllm:e2e_request_latency_seconds", labels)
	case "sglang":
		metric("gauge", "sglang:num_running_reqs", "The number of running requests.", float64(running))
		metric("gauge", "sglang:num_queue_reqs", "The number of requests in the waiting queue.", float64(waiting))
		metric("gauge", "sglang:num_used_tokens", "The number of used tokens.", float64(used))
		metric("gauge", "sglang:token_usage", "The token usage.", usage)
		metric("gauge", "sglang:cache_hit_rate", "The prefix cache hit rate.", e.hitRate())
		metric("gauge", "sglang:gen_throughput", "The generation throughput (token/s).", e.speed(running))
		metric("counter", "sglang:num_retractions_total", "Number of requests that lost their place to make room.", float64(c.preempted.Load()))
		metric("counter", "sglang:prompt_tokens_total", "Number of prefill tokens processed.", prompted)
		metric("counter", "sglang:generation_tokens_total", "Number of generation tokens processed.", generated)
		b = e.times.ttft.append(b, "sglang:time_to_first_token_seconds", labels)
		b = e.times.e2e.append(b, "sglang:e2e_request_latency_seconds", labels)
	case "llamacpp":
		metric("counter", "llamacpp:prompt_tokens_total", "Number of prompt tokens processed, excluding cached tokens", prompted-float64(c.cached.Load()))
		metric("counter", "llamacpp:prompt_tokens_cached_total", "Number of prompt tokens reused from the cache", float64(c.cached.Load()))
		metric("counter", "llamacpp:tokens_predicted_total", "Number of generation tokens processed", generated)
		metric("gauge", "llamacpp:prompt_tokens_seconds", "Average prompt throughput in tokens/s", e.o.PrefillRate)
		metric("gauge", "llamacpp:predicted_tokens_seconds", "Average generation throughput in tokens/s", e.o.TokenRate)
		metric("gauge", "llamacpp:requests_processing", "Number of requests processing", float64(running))
		metric("gauge", "llamacpp:requests_deferred", "Number of requests deferred", float64(waiting))
		metric("gauge", "llamacpp:n_busy_slots_per_decode", "Average number of busy slots per llama_decode() call", float64(running))
	}
	ctype := "text/plain; version=0.0.4"
	if x.p.name != "llamacpp" {
		ctype += "; charset=utf-8"
	}
	x.reply(200, ctype, b)
}
