package endpoint

import (
	"testing"

	"penstock/translate/chat"
)

// TestEstimate checks that the estimated output covers all choices of an answer.
func TestEstimate(t *testing.T) {
	for body, want := range map[string]int{
		`"prompt":"a"`:                                                               defaultOutputTokens,
		`"prompt":"a","max_tokens":10`:                                               10,
		`"prompt":"a","max_tokens":10,"n":4`:                                         40,
		`"prompt":"a","max_tokens":10,"n":2,"best_of":6`:                             60,
		`"prompt":["a","b"],"max_tokens":10,"n":2`:                                   40,
		`"prompt":["a","b"],"max_tokens":10,"best_of":3`:                             60,
		`"messages":[{"role":"user","content":"a"}],"max_tokens":5`:                  5,
		`"messages":[{"role":"user","content":"a"}],"max_tokens":5,"n":128`:          640,
		`"prompt":"a","n_predict":7`:                                                 7,
		`"prompt":"a","max_tokens":10,"n_predict":7`:                                 7,
		`"prompt":"a","max_tokens":1,"n_predict":3000`:                               1,
		`"messages":[{"role":"user","content":"a"}],"n_predict":7`:                   7,
		`"messages":[{"role":"user","content":"a"}],"max_tokens":1,"n_predict":3000`: 1,
		// llama.cpp
		`"prompt":"a","max_tokens":10,"n_cmpl":4`:                                    40,
		`"prompt":["a","b"],"max_tokens":10,"n_cmpl":2,"n":2`:                        40,
		`"messages":[{"role":"user","content":"a"}],"max_tokens":5,"n_cmpl":4`:       20,
		`"messages":[{"role":"user","content":"a"}],"max_tokens":5,"n":2,"n_cmpl":2`: 10,
		// vLLM and TensorRT-LLM
		`"messages":[{"role":"user","content":"a"}],"max_tokens":5,"n":2,"best_of":6`:                                   30,
		`"messages":[{"role":"user","content":"a"}],"max_tokens":5,"best_of":"6"`:                                       30,
		`"messages":[{"role":"user","content":"a"}],"max_tokens":5,"sampling_params":{"n":" 6.0"}`:                      30,
		`"messages":[{"role":"user","content":"a"}],"max_tokens":5,"sampling_params":{"best_of":true}`:                  5,
		`"messages":[{"role":"user","content":"a"}],"max_tokens":5,"best_of":6,"use_beam_search":true`:                  30,
		`"messages":[{"role":"user","content":"a"}],"sampling_params_list":[{"max_tokens":9},5,{"max_tokens":7,"n":2}]`: 14,
		// SGLang
		`"messages":[{"role":"user","content":"a"}],"max_tokens":5,"sampling_params":{"n":3}`:                 15,
		`"messages":[{"role":"user","content":"a"}],"max_tokens":5,"sampling_params":{"max_new_tokens":3000}`: 5,
		`"messages":[{"role":"user","content":"a"}],"sampling_params":{"max_new_tokens":7,"N":2}`:             14,
		`"prompt":["a","b"],"max_tokens":10,"sampling_params":{"n":3,"max_tokens":7}`:                         42,
		// Ollama
		`"messages":[{"role":"user","content":"a"}],"options":{"num_predict":7}`: 7,

		`"messages":[{"role":"user","content":"a"}],"n":2`: 2 * defaultOutputTokens,
	} {
		body = `{"model":"m",` + body + `}`
		var c completionRequest
		c.initCodec(&c.parsed, "", 0)
		b := chatBase{chat: new(pendingChat)}
		var got int
		if err := c.parsed.DecodeCompletion([]byte(body)); err == nil {
			if err := c.parsed.CheckRules(new(chat.ModelRules)); err != nil {
				t.Fatal(err)
			}
			_, got, _ = c.EstimateTokens(4)
		} else if err := b.chat.Decode([]byte(body)); err == nil {
			if err := b.chat.CheckRules(new(chat.ModelRules)); err != nil {
				t.Fatal(err)
			}
			_, got, _ = b.EstimateTokens(4)
		} else {
			t.Fatal(body, err)
		}
		if got != want {
			t.Errorf("%s: %d tokens are expected, want %d", body, got, want)
		}
	}
}
