package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"penstock/bench/sim/scheduler"
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

// total is the sum of all that was observed, in seconds.
func (h *histogram) total() float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sum
}

func (h *histogram) append(b []byte, name, labels string) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	b = fmt.Appendf(b, "# HELP %s Histogram of %s.\n# TYPE %s histogram\n", name, strings.TrimPrefix(name, "vllm:"), name)
	more, alone := "", ""
	if labels != "" {
		more, alone = labels+",", "{"+labels+"}"
	}
	sum := int64(0)
	for i, le := range bounds {
		sum += h.counts[i]
		b = fmt.Appendf(b, "%s_bucket{%sle=\"%g\"} %d\n", name, more, le, sum)
	}
	b = fmt.Appendf(b, "%s_bucket{%sle=\"+Inf\"} %d\n", name, more, h.n)
	b = fmt.Appendf(b, "%s_count%s %d\n", name, alone, h.n)
	return fmt.Appendf(b, "%s_sum%s %g\n", name, alone, h.sum)
}

// metricsText is a page of metrics as it is written.
type metricsText struct {
	b      []byte
	labels string // of every series, without braces; empty: none
}

// add writes a metric with its head; more are further labels.
func (m *metricsText) add(kind, name, help string, v float64, more ...string) {
	m.b = fmt.Appendf(m.b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	m.series(name, v, more...)
}

// series writes one line.
func (m *metricsText) series(name string, v float64, more ...string) {
	if m.labels != "" {
		more = append([]string{m.labels}, more...)
	}
	m.b = append(m.b, name...)
	if len(more) > 0 {
		m.b = fmt.Appendf(m.b, "{%s}", strings.Join(more, ","))
	}
	m.b = fmt.Appendf(m.b, " %v\n", v)
}

func (m *metricsText) gauge(name, help string, v float64)   { m.add("gauge", name, help, v) }
func (m *metricsText) counter(name, help string, v float64) { m.add("counter", name, help, v) }

func (m *metricsText) histogram(h *histogram, name string) { m.b = h.append(m.b, name, m.labels) }

// pageMetrics is the engine's Prometheus text.
func (e *Engine) pageMetrics(x *exchange) {
	model := ""
	if names := *e.models.Load(); len(names) > 0 {
		model = names[0]
	}
	m := metricsText{labels: `model_name="` + model + `"`}
	ctype := "text/plain; version=0.0.4; charset=utf-8"
	switch x.p.Family {
	case "vllm":
		m.labels = `engine="0",` + m.labels
		e.metricsOfVLLM(&m)
	case "sglang":
		e.metricsOfSGLang(&m)
	case "llamacpp":
		m.labels, ctype = "", "text/plain; version=0.0.4"
		x.t.Lines = fmt.Appendf(x.t.Lines, "Process-Start-Time-Unix: %d\r\n", e.started.Unix())
		e.metricsOfLlama(&m)
	case "tgi":
		m.labels, ctype = "", x.p.TextType
		e.metricsOfTGI(&m)
	case "trtllm":
		e.metricsOfTRT(&m)
	}
	x.reply(200, ctype, m.b)
}

func (e *Engine) metricsOfVLLM(m *metricsText) {
	running, waiting, _ := e.slots.Load()
	asked, hit := e.cache.Counts()
	c := &e.counters
	load := "vllm:"
	if e.p.Name == "vllm-omni" {
		load = "vllm:omni_"
	}
	m.gauge(load+"num_requests_running", "Number of requests in model execution batches.", float64(running))
	m.gauge(load+"num_requests_waiting", "Number of requests waiting to be processed.", float64(waiting))
	m.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", e.kvUsage())
	m.counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.",
		float64(asked))
	m.counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", float64(hit))
	m.counter("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.",
		float64(c.preempted.Load()))
	m.counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.", float64(c.prompted.Load()))
	m.counter("vllm:generation_tokens_total", "Number of generation tokens processed.", float64(c.generated.Load()))
	m.add("histogram", "vllm:iteration_tokens_total_count", "Histogram of number of tokens per engine_step.",
		float64(c.steps.Load()))
	m.add("counter", "vllm:request_success_total", "Count of successfully processed requests.",
		float64(c.completed.Load()), `finished_reason="stop"`)
	m.series("vllm:request_success_total", float64(c.aborted.Load()), `finished_reason="abort"`)
	m.add("gauge", "vllm:cache_config_info", "Information of the LLMEngine CacheConfig", 1,
		fmt.Sprintf(`block_size="%d",num_gpu_blocks="%d"`, scheduler.BlockTokens, e.kvSize()/scheduler.BlockTokens))
	m.histogram(&e.times.ttft, "vllm:time_to_first_token_seconds")
	m.histogram(&e.times.queue, "vllm:request_queue_time_seconds")
	m.histogram(&e.times.e2e, "vllm:e2e_request_latency_seconds")
}

func (e *Engine) metricsOfSGLang(m *metricsText) {
	running, waiting, _ := e.slots.Load()
	used, _ := e.slots.Room()
	c := &e.counters
	m.gauge("sglang:num_running_reqs", "The number of running requests.", float64(running))
	m.gauge("sglang:num_queue_reqs", "The number of requests in the waiting queue.", float64(waiting))
	m.gauge("sglang:num_used_tokens", "The number of used tokens.", float64(used))
	m.gauge("sglang:token_usage", "The token usage.", e.kvUsage())
	m.gauge("sglang:cache_hit_rate", "The prefix cache hit rate.", e.hitRate())
	m.gauge("sglang:gen_throughput", "The generation throughput (token/s).", e.speed(running))
	m.counter("sglang:num_retractions_total", "Number of requests that lost their place to make room.",
		float64(c.preempted.Load()))
	m.counter("sglang:prompt_tokens_total", "Number of prefill tokens processed.", float64(c.prompted.Load()))
	m.counter("sglang:generation_tokens_total", "Number of generation tokens processed.", float64(c.generated.Load()))
	m.add("counter", "sglang:realtime_tokens_total", "Number of tokens processed, as they are.",
		float64(c.steps.Load()), `mode="decode"`)
	m.histogram(&e.times.ttft, "sglang:time_to_first_token_seconds")
	m.histogram(&e.times.e2e, "sglang:e2e_request_latency_seconds")
}

func (e *Engine) metricsOfLlama(m *metricsText) {
	running, waiting, _ := e.slots.Load()
	c := &e.counters
	cached := float64(c.cached.Load())
	m.counter("llamacpp:prompt_tokens_total", "Number of prompt tokens processed, excluding cached tokens",
		float64(c.prompted.Load())-cached)
	m.counter("llamacpp:prompt_tokens_cached_total", "Number of prompt tokens reused from the cache", cached)
	m.counter("llamacpp:prompt_seconds_total", "Total time spent processing prompts", e.times.ttft.total())
	m.counter("llamacpp:tokens_predicted_total", "Number of generation tokens processed", float64(c.generated.Load()))
	m.counter("llamacpp:tokens_predicted_seconds_total", "Total time spent generating tokens", e.times.e2e.total())
	m.counter("llamacpp:n_decode_total",
		"Total number of llama_decode() calls, excluding speculative decoding and multimodal decoding", float64(c.steps.Load()))
	m.counter("llamacpp:n_tokens_max", "Largest observed sequence length (prompt + generation)",
		float64(c.prompted.Load()+c.generated.Load()))
	m.counter("llamacpp:spec_decode_num_draft_tokens_total", "Speculative: Total draft tokens generated", 0)
	m.counter("llamacpp:spec_decode_num_accepted_tokens_total",
		"Speculative: Total draft tokens accepted by the target model", 0)
	m.counter("llamacpp:spec_decode_num_drafts_total", "Speculative: Total number of drafts", 0)
	m.gauge("llamacpp:prompt_tokens_seconds", "Average prompt throughput in tokens/s", e.o.PrefillRate)
	m.gauge("llamacpp:predicted_tokens_seconds", "Average generation throughput in tokens/s", e.o.TokenRate)
	m.gauge("llamacpp:requests_processing", "Number of requests processing", float64(running))
	m.gauge("llamacpp:requests_deferred", "Number of requests deferred", float64(waiting))
	m.gauge("llamacpp:n_busy_slots_per_decode", "Average number of busy slots per llama_decode() call", float64(running))
}

// metricsOfTGI: the names that its router registers; its counters carry no _total.
func (e *Engine) metricsOfTGI(m *metricsText) {
	running, waiting, _ := e.slots.Load()
	c := &e.counters
	m.gauge("tgi_queue_size", "Current queue size", float64(waiting))
	m.gauge("tgi_batch_current_size", "Current batch size", float64(running))
	m.gauge("tgi_batch_current_max_tokens", "Maximum tokens for the current batch", float64(e.kvSize()))
	m.counter("tgi_request_count", "Total number of requests", float64(c.requests.Load()))
	m.add("counter", "tgi_batch_inference_count", "Number of inferences of batches", float64(c.steps.Load()),
		`method="next_token"`)
	m.counter("tgi_request_success", "Number of successful requests", float64(c.completed.Load()))
	m.add("counter", "tgi_request_failure", "Number of failed requests", float64(c.rejected.Load()), `err="validation"`)
	m.histogram(&e.times.queue, "tgi_request_queue_duration")
	m.histogram(&e.times.e2e, "tgi_request_duration")
}

// metricsOfTRT is trtllm-serve's Prometheus page, which is there when it returns performance
// metrics.
func (e *Engine) metricsOfTRT(m *metricsText) {
	running, waiting, _ := e.slots.Load()
	m.gauge("trtllm_num_requests_running", "Number of requests currently running", float64(running))
	m.gauge("trtllm_num_requests_waiting", "Number of requests waiting to be scheduled", float64(waiting))
	m.gauge("trtllm_kv_cache_utilization", "KV cache utilization", e.kvUsage())
	m.gauge("trtllm_kv_cache_hit_rate", "KV cache hit rate", e.hitRate())
	m.gauge("trtllm_kv_cache_max_blocks", "Total number of KV cache blocks", float64(e.kvSize()/scheduler.BlockTokens))
	m.add("counter", "trtllm_request_success_total", "Count of successfully processed requests",
		float64(e.counters.completed.Load()), `finished_reason="stop"`)
	m.histogram(&e.times.ttft, "trtllm_time_to_first_token_seconds")
	m.histogram(&e.times.queue, "trtllm_request_queue_time_seconds")
	m.histogram(&e.times.e2e, "trtllm_e2e_request_latency_seconds")
}
