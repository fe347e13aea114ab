package engine

import (
	"testing"

	"penstock/config"
)

// How many tokens an engine's cache has room for, by pages as vLLM and SGLang show them.
func TestCacheTokens(t *testing.T) {
	metrics := &config.EngineLoad{
		Format: config.LoadMetrics, Running: []string{"running"},
		Cache: []string{"vllm:cache_config_info", "sglang:max_total_num_tokens"},
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
	loads := &config.EngineLoad{Format: "json", Running: []string{"loads.*.running"}, Cache: []string{"loads.*.max_total_num_tokens"}}
	if l, ok := readLoad(loads, []byte(`{"loads":[{"running":1,"max_total_num_tokens":1000},{"running":2,"max_total_num_tokens":2000}]}`)); !ok || l.CacheTokens != 3000 {
		t.Errorf("%d tokens of two ranks", l.CacheTokens)
	}
}

// llama.cpp's room is the contexts of its slots together, as its page of slots has them.
func TestCacheTokensOfSlots(t *testing.T) {
	specs, err := bundledSpecs()
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range specs["llamacpp"].Load {
		if source.Path != "/slots" {
			continue
		}
		page := `[{"id":0,"n_ctx":2048,"is_processing":true},{"id":1,"n_ctx":2048,"is_processing":false},{"id":2,"n_ctx":2048,"is_processing":false}]`
		if l, ok := readLoad(&source, []byte(page)); !ok || l.CacheTokens != 6144 || l.Running != 1 {
			t.Errorf("three slots of 2048 tokens: %+v %t", l, ok)
		}
		return
	}
	t.Error("llama.cpp has no page of slots")
}
