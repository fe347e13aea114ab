package engine

import (
	"context"
	"testing"
	"time"

	"penstock/config"
	"penstock/upstreams/http1"
)

// TestCacheTokens checks that the cache size in tokens is read from the pages of vLLM and SGLang.
func TestCacheTokens(t *testing.T) {
	metrics := &config.EngineLoad{
		Running: []string{"running"},
		Cache:   []string{"vllm:cache_config_info", "sglang:max_total_num_tokens"},
	}
	for page, want := range map[string]int{
		"running 1\n": 0,
		"running 1\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\"} 1.0\n":                                                                                             16000,
		"running 1\nvllm:cache_config_info{engine=\"0\",block_size=\"16\",num_gpu_blocks=\"1000\"} 1\nvllm:cache_config_info{engine=\"1\",block_size=\"16\",num_gpu_blocks=\"500\"} 1\n": 24000,
		"running 1\nsglang:max_total_num_tokens{model_name=\"m\"} 400000.0\n":                                                                                                            400000,
		"running 1\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"-1000\"} 1.0\n":                                                                                            0,
		"running 1\nvllm:cache_config_info{block_size=\"NaN\",num_gpu_blocks=\"Inf\"} 1.0\n":                                                                                             0,
		"running 1\nvllm:cache_config_info{block_size=\"1e30\",num_gpu_blocks=\"1e30\"} 1.0\n":                                                                                           1 << 40,
	} {
		if l, ok := readLoad(metrics, []byte(page)); !ok || l.CacheTokens != want {
			t.Errorf("%s: %d tokens, want %d", page, l.CacheTokens, want)
		}
	}
	loads := &config.EngineLoad{Running: []string{"loads.*.running"}, Cache: []string{"loads.*.max_total_num_tokens"}}
	if l, ok := readLoad(loads, []byte(`{"loads":[{"running":1,"max_total_num_tokens":1000},{"running":2,"max_total_num_tokens":2000}]}`)); !ok || l.CacheTokens != 3000 {
		t.Errorf("%d tokens of two ranks", l.CacheTokens)
	}
}

// TestLlamaCppPages reads the pages of llama.cpp's server, build 11669. /props contains the number
// of slots. /metrics, or /slots if the server has no /metrics, contains the load. Only /slots
// contains the number of tokens in all slots.
func TestLlamaCppPages(t *testing.T) {
	const props = `{"default_generation_settings":{"params":{},"n_ctx":2048},"total_slots":4,"model_alias":"markov","is_sleeping":false}`
	const metrics = "# TYPE llamacpp:requests_processing gauge\nllamacpp:prompt_tokens_total 1960\nllamacpp:prompt_tokens_cached_total 6\n" +
		"llamacpp:tokens_predicted_total 3\nllamacpp:n_decode_total 4\nllamacpp:requests_processing 2\nllamacpp:requests_deferred 1\n"
	const idle = `[{"id":0,"n_ctx":2048,"speculative":false,"is_processing":false},{"id":1,"n_ctx":2048,"speculative":false,"is_processing":false},` +
		`{"id":2,"n_ctx":2048,"speculative":false,"is_processing":false},{"id":3,"n_ctx":2048,"speculative":false,"is_processing":false}]`
	const busy = `[{"id":0,"n_ctx":2048,"is_processing":true,"n_prompt_tokens_processed":22,"next_token":[{"n_remain":200,"n_decoded":5}]},` +
		`{"id":1,"n_ctx":2048,"is_processing":true,"n_prompt_tokens_processed":28,"next_token":[{"n_remain":200,"n_decoded":0}]}]`
	const disabled = `{"error":{"code":501,"message":"This server does not support this endpoint.","type":"not_supported_error"}}`
	profile := mustProfile(t, "llamacpp")
	for name, c := range map[string]struct {
		pages map[string]string // pages served with status 200
		slots int
		cache int    // total tokens in all slots
		path  string // path of the page with the load, or empty
		load  EngineLoad
	}{
		"with --metrics": {
			map[string]string{"/props": props, "/metrics": metrics, "/slots": busy},
			4, 8192, "/metrics",
			EngineLoad{Running: 2, Waiting: 1, Queue: true, Counts: true, Progress: 1967},
		},
		"idle without":      {map[string]string{"/props": props, "/slots": idle}, 4, 8192, "/slots", EngineLoad{CacheTokens: 8192}},
		"busy without":      {map[string]string{"/props": props, "/slots": busy}, 4, 8192, "/slots", EngineLoad{Running: 2, Counts: true, Progress: 55, CacheTokens: 4096}},
		"with /props alone": {map[string]string{"/props": props}, 4, 8192, "", EngineLoad{}},
		"with none":         {nil, 0, 0, "", EngineLoad{}},
	} {
		get := func(_ context.Context, path string, _ time.Duration) (http1.Page, error) {
			if page, ok := c.pages[path]; ok {
				return http1.Page{Status: 200, Body: []byte(page)}, nil
			}
			return http1.Page{Status: 501, Body: []byte(disabled)}, nil
		}
		r := PageReader{get, profile, time.Second}
		if n, cache, ok := r.ReadSlots(t.Context()); n != c.slots || cache != c.cache || ok != (c.slots > 0) {
			t.Errorf("%s: %d slots for %d tokens %t, want %d for %d", name, n, cache, ok, c.slots, c.cache)
		}
		if l, _, path, ok := r.ReadLoad(t.Context(), 0); l != c.load || path != c.path || ok != (c.path != "") {
			t.Errorf("%s: %+v of %q %t, want %+v of %q", name, l, path, ok, c.load, c.path)
		}
	}
}
