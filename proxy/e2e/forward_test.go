package e2e

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests check the endpoints that pass on requests and answers, changing only the model's
// name.

func TestForward(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, model, body, dialect string }{
		{"/v1/embeddings", "vectors", `"input": ["` + rig.Canary + `", "b"], "encoding_format":"float" , "odd": {"a":1e3}`, "embeddings"},
		{"/v1/rerank", "ranks", `"query":"` + rig.Canary + `","documents":["a","b"]`, "rerank"},
		{"/v1/completions", "talk", `"prompt":"` + rig.Canary + `","max_tokens":4`, "completions"},
		{"/v1/score", "ranks", `"text_1":"` + rig.Canary + `","text_2":["a","b"], "odd":1e3`, "score"},
		{"/v1/classify", "ranks", `"input":["` + rig.Canary + `"]`, "classify"},
		{"/v1/pooling", "vectors", `"input":["` + rig.Canary + `"],"encoding_format":"float"`, "pooling"},
	} {
		p := startAudio(t) // a separate edge, because the edge sends probes after a failure
		r := p.Post(c.path, `{ "model" : "`+c.model+`", `+c.body+`}`).WantStatus(200)
		var got struct{ Model string }
		if err := json.Unmarshal([]byte(r.Body), &got); err != nil || got.Model != "" && got.Model != c.model || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: model = %q, %v; want %q in JSON: %.200s", c.path, got.Model, err, c.model, r.Body)
		}
		if sent := string(p.Engines[0].Stats().LastRequest.Body); sent != `{ "model" : "sim", `+c.body+`}` {
			t.Errorf("%s: the engine got %s", c.path, sent)
		}
		if l := p.LastAccessLine(); l.Dialect != c.dialect || l.Model != c.model || l.Pool != "text" || l.PromptTokens == 0 || l.TokensEstimated {
			t.Errorf("%s: last call = %+v, want %s of %s with counted tokens", c.path, l, c.dialect, c.model)
		}
		for body, code := range map[string]string{
			`{"model":"` + c.model + `","model":"x",` + c.body + `}`: "duplicate_member",
			`{"Model":"` + c.model + `",` + c.body + `}`:             "duplicate_member",
			`{` + c.body + `}`:                "missing_parameter",
			`{"model":7}`:                     "invalid_type",
			`[]`:                              "invalid_type",
			`{`:                               "invalid_json",
			`{"model":"ears",` + c.body + `}`: "unsupported_parameter",
			`{"model":"` + c.model + `","kv_transfer_params":{},` + c.body + `}`: "unsupported_parameter",
			`{"model":"` + c.model + `","\u0078-engine":"other",` + c.body + `}`: "unsupported_parameter",
		} {
			p.Post(c.path, body).WantError(400, "invalid_request_error", code)
		}
		p.Post(c.path, `{"model":"none",`+c.body+`}`).WantError(404, "not_found_error", "model_not_found")
		p.Engines[0].SetFault(sim.Fault{Spec: "invalid-json"})
		p.Post(c.path, `{"model":"`+c.model+`",`+c.body+`}`).WantError(502, "api_error", "upstream_bad_response")
		p.Engines[0].SetFault(sim.Fault{Spec: "status=500"})
		p.Post(c.path, `{"model":"`+c.model+`",`+c.body+`}`).WantError(502, "api_error", "upstream_failed")
		p.Engines[0].SetFault()
		if c.dialect != "completions" {
			p.Post(c.path, `{"model":"`+c.model+`","stream":true,`+c.body+`}`).WantError(400, "invalid_request_error", "unsupported_parameter")
		}
	}
}

func TestCompletions_Stream(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	body := `{"model":"talk","prompt":["a","b"],"n":2,"max_tokens":3,"stream":true%s}`
	r := p.Post("/v1/completions", fmt.Sprintf(body, `,"stream_options":{"include_usage":true}`)).WantStatus(200)
	events := r.Events()
	if last := events[len(events)-1]; last.Data != "[DONE]" {
		t.Errorf("ends with %s", last.Data)
	}
	for _, e := range events[:len(events)-1] {
		var got struct{ Object, Model string }
		if err := json.Unmarshal([]byte(e.Data), &got); err != nil || got.Model != "talk" || got.Object != "text_completion" {
			t.Fatalf("event = %s, %v; want a text_completion of talk", e.Data, err)
		}
	}
	if l := p.LastAccessLine(); !l.Stream || l.CompletionTokens != 12 || l.TokensEstimated {
		t.Errorf("last call = %+v, want a stream of 12 counted tokens", l)
	}
	p.Post("/v1/completions", fmt.Sprintf(body, "")).WantStatus(200)
	if l := p.LastAccessLine(); l.CompletionTokens < 12 || !l.TokensEstimated {
		t.Errorf("last call = %+v, want 12 tokens or more, estimated", l)
	}
	for _, fault := range []string{"cut-after=2", "no-finish;done=1", "error-in-stream=2"} {
		p.Engines[0].SetFault(sim.Fault{Spec: fault})
		r := p.Post("/v1/completions", fmt.Sprintf(body, "")).WantStatus(200)
		events := r.Events()
		if last := events[len(events)-1].Data; !strings.HasPrefix(last, `{"error":{`) || r.Err != nil {
			t.Errorf("%s ends with %s, %v", fault, last, r.Err)
		}
	}
}

// TestWhole_Aborted checks that an unstreamed answer that the engine aborted is not passed on.
// Ollama aborts an answer if its runner dies.
func TestWhole_Aborted(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	for path, c := range map[string]struct {
		status int
		body   string
	}{
		"/v1/chat/completions": {502, `"messages":[{"role":"user","content":"Go."}]`},
		"/v1/completions":      {502, `"prompt":"Go."`},
		"/v1/responses":        {502, `"input":"Go."`},
		"/v1/messages":         {529, `"max_tokens":9,"messages":[{"role":"user","content":"Go."}]`},
	} {
		p.Engines[0].SetFault(sim.Fault{Spec: "no-finish"})
		if r := p.Post(path, `{"model":"talk",`+c.body+`}`).WantStatus(c.status); !strings.Contains(r.Body, "upstream_bad_response") {
			t.Errorf("%s: answer = %s, want upstream_bad_response", path, r.Body)
		}
		p.Engines[0].SetFault()
		p.Post(path, `{"model":"talk",`+c.body+`}`).WantStatus(200)
	}
}

// TestCompletions_NoChoices checks that an unstreamed completion without choices counts as a bad
// response.
func TestCompletions_NoChoices(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: rig.QuietProbes})
	for _, fault := range []string{"no-choices", "no-choices;empty=1"} {
		r := p.Post("/v1/completions", `{"model":"sim","prompt":"x [[sim {\"fault\":\"`+fault+`\"}]]","max_tokens":4}`)
		r.WantRefused(rig.Chat, rig.RefusalBadResponse)
	}
}

// numbersEngine starts an engine that answers embeddings requests with numbers, even if
// encoding_format demands base64. SGLang, LM Studio and older versions of Ollama do the same. The
// embedding of input i has i/2 in its first dimension.
func numbersEngine(t *testing.T) *httptest.Server {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/v1/embeddings" {
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"sim","object":"model"}]}`)
			return
		}
		q := struct {
			Input      any
			Dimensions int
		}{Dimensions: 3}
		_ = json.NewDecoder(r.Body).Decode(&q)
		inputs, list := q.Input.([]any)
		if _, tokens := append(inputs, nil)[0].(float64); tokens || !list {
			inputs = []any{q.Input}
		}
		type item struct {
			Object    string    `json:"object"`
			Index     int       `json:"index"`
			Embedding []float64 `json:"embedding"`
		}
		var data []item
		for i := range inputs {
			v := make([]float64, q.Dimensions)
			for d := range v {
				v[d] = float64(float32(1) / float32(d+3))
			}
			v[0] = float64(i) / 2
			data = append(data, item{"embedding", i, v})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "model": "sim", "data": data, "usage": map[string]int{"prompt_tokens": 3, "total_tokens": 3}})
	}))
	t.Cleanup(engine.Close)
	return engine
}

// TestEmbeddings_Form checks that a client receives the engine's numbers in the requested format.
// OpenAI's SDKs for Node and Python request base64 and decode any answer as base64.
func TestEmbeddings_Form(t *testing.T) {
	t.Parallel()
	engine := numbersEngine(t)
	for _, profile := range []string{"sglang", "ollama", "lmstudio"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: fake, url: "` + engine.URL + `", engine: ` + profile + `, probe: { timeout: 15s } }]
models: [{ id: vectors, kind: embedding, deployments: [{ upstream: fake, served: sim }] }]
`})
			for name, c := range map[string]struct {
				input               string
				vectors, dimensions int
			}{
				"one input":       {`"a"`, 1, 3},
				"a list":          {`["a","b"]`, 2, 3},
				"tokens":          {`[1,2,3]`, 1, 3},
				"lists of tokens": {`[[1,2],[3],[4]]`, 3, 3},
				"dimensions":      {`["a","b"]`, 2, 8},
				// This answer is passed on unchanged.
				"large": {`["a"` + strings.Repeat(`,"a"`, 99) + `]`, 100, 1024},
			} {
				ask := `{"model":"vectors","input":` + c.input + `,"dimensions":` + strconv.Itoa(c.dimensions)
				var coded struct {
					Data []struct{ Embedding []byte }
				}
				r := p.Post("/v1/embeddings", ask+`,"encoding_format":"base64"}`).WantStatus(200)
				if err := json.Unmarshal([]byte(r.Body), &coded); err != nil {
					t.Fatalf("%s: %v, want a JSON error: %.200s", name, err, r.Body)
				}
				client := p.sdk()
				got, err := client.Embeddings.New(context.Background(), openai.EmbeddingNewParams{}, option.WithRequestBody("application/json", []byte(ask+"}")))
				if err != nil || len(got.Data) != c.vectors || len(coded.Data) != c.vectors {
					t.Fatalf("%s: %v, %d and %d vectors", name, err, len(got.Data), len(coded.Data))
				}
				for i, one := range got.Data {
					bits := coded.Data[i].Embedding
					if len(one.Embedding) != c.dimensions || len(bits) != 4*c.dimensions {
						t.Fatalf("%s: %d numbers, %d bytes", name, len(one.Embedding), len(bits))
					}
					for d, f := range one.Embedding {
						want := float32(1) / float32(d+3)
						if d == 0 {
							want = float32(i) / 2
						}
						if float32(f) != want || math.Float32frombits(binary.LittleEndian.Uint32(bits[4*d:])) != want {
							t.Fatalf("%s: vector %d has %g in dimension %d, want %g", name, i, f, d, want)
						}
					}
				}
			}
		})
	}
}

// TestSomeEngines checks that a call to an endpoint that only some engines support goes to one of
// these engines. The catalog must list the endpoint for models with such an engine. For other
// models, the call must receive a 404 with a reason.
func TestSomeEngines(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{Record: true, Profile: "vllm"}, {Record: true, Profile: "ollama"}}, Config: `
timeouts: { linger: 0s, drain: 5s, idle: 60s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}", engine: vllm }, { name: up-1, url: "{{up-1}}", engine: ollama }]
models:
  - { id: both, deployments: [{ upstream: up-1, served: sim }, { upstream: up-0, served: sim, tier: 1 }] }
  - { id: other, deployments: [{ upstream: up-1, served: sim }] }
  - { id: guards, supported_endpoints: [/v1/moderations, /v1/score], deployments: [{ upstream: up-0, served: sim }] }
`})
	for path, c := range map[string]struct{ sent, want string }{
		"/tokenize":   {`{ "model" : "sim", "prompt": "12345678"}`, `{"count":2,"max_model_len":32768,"tokens":[`},
		"/detokenize": {`{ "model" : "sim", "tokens": [1,2]}`, `{"prompt":"w1 w2"}`},
	} {
		if r := p.Post(path, strings.Replace(c.sent, "sim", "both", 1)).WantStatus(200); !strings.HasPrefix(r.Body, c.want) {
			t.Errorf("%s: answer = %s, want it to begin with %s", path, r.Body, c.want)
		}
		if sent := p.Engines[0].Stats().LastRequest; string(sent.Body) != c.sent || sent.Target != path {
			t.Errorf("%s: the engine got %s %s", path, sent.Target, sent.Body)
		}
		if l := p.LastAccessLine(); l.Dialect != path[1:] || l.Model != "both" || l.PromptTokens != 0 || l.Attempts != 1 {
			t.Errorf("%s: last call = %+v, want one attempt of both without tokens", path, l)
		}
		p.Post(path, strings.Replace(c.sent, "sim", "other", 1)).WantError(404, "not_found_error", "not_found")
	}
	if n := p.Engines[1].Stats().Requests; n != 0 {
		t.Errorf("an engine without the endpoint was asked %d times", n)
	}
	p.Post("/v1/score", `{"model":"guards","text_1":"a","text_2":"b"}`).WantStatus(200)
	p.Post("/v1/moderations", `{"model":"both","input":"a"}`).WantError(400, "invalid_request_error", "unsupported_parameter")
	p.Post("/v1/pooling", `{"model":"guards","input":"a","encoding_format":"bytes"}`).WantError(400, "invalid_request_error", "invalid_value")
	if r := p.Post("/v1/tokenize", "{}").WantStatus(404); !strings.Contains(r.Body, "Send it to /tokenize") {
		t.Errorf("answer = %s, want the path to send it to", r.Body)
	}
	// vLLM responds this way for an unsuitable model.
	p.Engines[0].SetFault(sim.Fault{Spec: "status=404;html=1"})
	p.Post("/v1/score", `{"model":"guards","text_1":"a","text_2":"b"}`).WantError(404, "not_found_error", "not_found")
	for id, want := range map[string]string{"both": "/tokenize,/detokenize", "other": "", "guards": "/v1/moderations,/v1/score"} {
		got := ""
		for _, path := range p.entry(id)["supported_endpoints"].([]any) {
			if path := path.(string); strings.Contains(path, "tokenize") || id == "guards" {
				got += "," + path
			}
		}
		if strings.TrimPrefix(got, ",") != want {
			t.Errorf("%s is listed at %s, want %s", id, got, want)
		}
	}
}

// TestRerank_Form checks that a ranking in SGLang's format reaches clients in the usual format and
// does not count as an engine failure.
func TestRerank_Form(t *testing.T) {
	t.Parallel()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/v1/rerank" {
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"sim","object":"model"}]}`)
			return
		}
		_, _ = io.WriteString(w, `[{"score":0.25,"document":"a","index":0,"meta_info":{"prompt_tokens":9}},{"score":0.75,"document":"b","index":1}]`)
	}))
	t.Cleanup(engine.Close)
	p := start(t, rig.Setup{Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: fake, url: "` + engine.URL + `", engine: sglang, probe: { timeout: 15s } }]
models: [{ id: ranks, kind: rerank, deployments: [{ upstream: fake, served: sim }] }]
`})
	for more, want := range map[string]string{
		``:                                    `{"index":1,"relevance_score":0.75,"document":{"text":"b"}},{"index":0,"relevance_score":0.25,"document":{"text":"a"}}`,
		`,"top_n":1,"return_documents":false`: `{"index":1,"relevance_score":0.75}`,
	} {
		r := p.Post("/v1/rerank", `{"model":"ranks","query":"q","documents":["a","b"]`+more+`}`).WantStatus(200)
		if r.Body != `{"object":"list","model":"ranks","results":[`+want+`]}` {
			t.Errorf("%s: answer = %s, want the results %s", more, r.Body, want)
		}
	}
}

// TestRerank_TextEmbeddingsInference checks that an engine detected as Text Embeddings Inference
// receives requests in its format, and that clients receive answers in the usual format.
func TestRerank_TextEmbeddingsInference(t *testing.T) {
	t.Parallel()
	var asked atomic.Value
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/health":
		case "/info":
			_, _ = io.WriteString(w, `{"model_id":"org/r","model_type":{"reranker":{}},"max_concurrent_requests":512,"max_input_length":512,"tokenization_workers":4,"version":"1.9.0"}`)
		case "/rerank":
			body, _ := io.ReadAll(r.Body)
			asked.Store(string(body))
			_, _ = io.WriteString(w, `[{"index":1,"text":"b","score":0.75},{"index":0,"text":"a","score":0.25}]`)
		default:
			w.WriteHeader(404)
		}
	}))
	t.Cleanup(engine.Close)
	p := start(t, rig.Setup{Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: fake, url: "` + engine.URL + `", probe: { timeout: 15s } }]
models: [{ id: ranks, kind: rerank, deployments: [{ upstream: fake, served: org/r }] }]
`})
	r := p.Post("/v1/rerank", `{"model":"ranks","query":"q","documents":["a",{"text":"b"}],"top_n":1,"return_documents":true}`).WantStatus(200)
	if want := `{"object":"list","model":"ranks","results":[{"index":1,"relevance_score":0.75,"document":{"text":"b"}}]}`; r.Body != want {
		t.Error(r.Body)
	}
	if want := `{"model":"org/r","query":"q","texts":["a","b"],"top_n":1,"return_text":true}`; asked.Load() != want {
		t.Error(asked.Load())
	}
}

// TestForward_Media checks that no endpoint lets a client make an engine fetch a URL.
func TestForward_Media(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	for _, c := range []struct{ path, body, param string }{
		{"/v1/embeddings", `{"model":"vectors","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://127.0.0.1/"}}]}]}`, "messages[0].content[0].image_url.url"},
		{"/v1/embeddings", `{"model":"vectors","input":"x","image_url":"http://127.0.0.1/"}`, "image_url"},
		{"/v1/rerank", `{"model":"ranks","query":"x","documents":[{"content":[{"type":"image_url","image_url":{"url":"http://127.0.0.1/"}}]}]}`, "documents[0].content[0].image_url.url"},
		{"/v1/audio/speech", `{"model":"voice","input":"x","ref_audio":"http://127.0.0.1:9/x"}`, "ref_audio"},
		{"/v1/completions", `{"model":"talk","prompt":"x","image":"http://127.0.0.1/"}`, "image"},
	} {
		r := p.Post(c.path, c.body)
		r.WantError(400, "invalid_request_error", "invalid_value")
		if !strings.Contains(r.Body, `"param":"`+c.param+`"`) {
			t.Errorf("%s: answer = %s, want the parameter %s", c.path, r.Body, c.param)
		}
	}
}

// TestMessages_Steering checks that members that steer an engine are rejected even in dialects that
// would drop them.
func TestMessages_Steering(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	for _, member := range []string{"priority", "chat_template", "kv_transfer_params", "bootstrap_host", "routed_dp_rank", "disagg_prefill_dp_rank"} {
		const rest = `:1,"model":"talk","max_tokens":4,"messages":[{"role":"user","content":"a"}]}`
		r := p.Post("/v1/messages", `{"`+member+`"`+rest)
		r.WantStatus(400)
		if !strings.Contains(r.Body, member) {
			t.Errorf("answer = %s, want %s in it", r.Body, member)
		}
	}
}

// TestSteering_Inside checks that nested members that steer an engine, such as template arguments,
// are rejected, and that allowed arguments are passed on.
func TestSteering_Inside(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	for _, c := range []struct{ path, rest string }{
		{"/v1/chat/completions", `,"messages":[{"role":"user","content":"a"}]}`},
		{"/v1/messages", `,"max_tokens":4,"messages":[{"role":"user","content":"a"}]}`},
		{"/v1/responses", `,"input":"a"}`},
		{"/v1/completions", `,"prompt":"a"}`},
	} {
		for _, member := range []string{"chat_template_kwargs.chat_template", "chat_template_kwargs.tokenize", "vllm_xargs.kv_transfer_params"} {
			outer, inner, _ := strings.Cut(member, ".")
			r := p.Post(c.path, `{"model":"talk","`+outer+`":{"enable_thinking":false,"`+inner+`":"SECRET"}`+c.rest)
			r.WantStatus(400)
			if !strings.Contains(r.Body, member) || strings.Contains(r.Body, "SECRET") {
				t.Errorf("answer = %s, want %s in it and no secret", r.Body, member)
			}
		}
		p.Post(c.path, `{"model":"talk","chat_template_kwargs":{"enable_thinking":false}`+c.rest).WantStatus(200)
	}
}

// TestAllowMembers checks that members that an operator allows reach the engine in every dialect,
// but only for the model that they are allowed for.
func TestAllowMembers(t *testing.T) {
	t.Parallel()
	engines := recordingEngine()
	engines[0].Priorities = true
	p := start(t, rig.Setup{Engines: engines, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}", engine: vllm }]
models:
  - { id: open, deployments: [{ upstream: up-0, served: sim }], allow_members: [priority] }
  - { id: shut, deployments: [{ upstream: up-0, served: sim }] }
`})
	for path, rest := range map[string]string{
		"/v1/chat/completions": `"messages":[{"role":"user","content":"a"}]`,
		"/v1/messages":         `"max_tokens":4,"messages":[{"role":"user","content":"a"}]`,
		"/v1/responses":        `"input":"a"`,
	} {
		p.Post(path, `{"model":"open","priority":7,`+rest+`}`).WantStatus(200)
		if sent := string(p.Engines[0].Stats().LastRequest.Body); !strings.Contains(sent, `"priority":7`) {
			t.Errorf("%s: the engine was sent %s", path, sent)
		}
		for _, body := range []string{`{"model":"shut","priority":7,` + rest + `}`, `{"model":"open","kv_transfer_params":{},` + rest + `}`, `{"model":"open","x-priority":7,` + rest + `}`} {
			if r := p.Post(path, body).WantStatus(400); !strings.Contains(r.Body, "steers the engine") {
				t.Errorf("%s with %s: answer = %s, want that it steers the engine", path, body, r.Body)
			}
		}
	}
}

// startBare starts an edge with the model talk and one engine. The engine lists the model, and
// serve answers all other requests.
func startBare(t *testing.T, serve http.HandlerFunc) *penstock {
	t.Helper()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/models") {
			_, _ = io.WriteString(w, `{"data":[{"id":"talk"}]}`)
			return
		}
		serve(w, r)
	}))
	t.Cleanup(engine.Close)
	p := start(t, rig.Setup{Cold: true, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: bare, url: "` + engine.URL + `", engine: openai }]
models: [{ id: talk, deployments: [{ upstream: bare }] }]
`})
	rig.WaitFor(t, rig.WaitTimeout, "the upstream is up", func() bool { return p.Metric("penstock_upstream_up") == 1 })
	return p
}

// TestCompletions_EndpointMissing checks that an engine without the legacy endpoint still serves
// chat calls for its model.
func TestCompletions_EndpointMissing(t *testing.T) {
	t.Parallel()
	p := startBare(t, http.NotFound)
	p.Post("/v1/completions", `{"model":"talk","prompt":"x"}`).WantError(502, "api_error", "upstream_failed")
	if s := p.Get("/v1/models").Body; !strings.Contains(s, `"is_ready":true`) {
		t.Errorf("the model is gone: %s", s)
	}
}

// TestStreams_NullFrames checks llama.cpp's stream for a completion with more than one prompt,
// which starts with null. The edge must skip null rather than count it as the first event.
func TestStreams_NullFrames(t *testing.T) {
	t.Parallel()
	p := startBare(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: null\n\n")
		w.(http.Flusher).Flush()
		time.Sleep(50 * time.Millisecond)
		choice := `"text":"x"`
		if r.URL.Path == chatPath {
			choice = `"delta":{"content":"x"}`
		}
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,`+choice+`,"finish_reason":"stop"},{"index":1,`+choice+`,"finish_reason":"stop"}]}`+"\n\ndata: null\n\ndata: [DONE]\n\n")
	})
	for path, body := range map[string]string{
		"/v1/completions": `{"model":"talk","stream":true,"prompt":["a","b"]}`,
		chatPath:          `{"model":"talk","stream":true,"n":2,"messages":[{"role":"user","content":"a"}]}`,
	} {
		r := p.Post(path, body)
		r.WantStatus(200)
		if events := r.Events(); len(events) != 2 || strings.Contains(r.Body, "null\n") {
			t.Errorf("%s: answer = %s, want two events", path, r.Body)
		}
	}
	p.WaitIdle()
	if took := p.Metric("penstock_ttft_seconds_sum"); took < 0.1 {
		t.Errorf("two first tokens came after %v s together", took)
	}
}

// imageEngine starts an engine that serves images. seen points to the last request.
func imageEngine(t *testing.T) (url string, seen *string) {
	seen = new(string)
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/v1/images/generations":
			b, _ := io.ReadAll(r.Body)
			*seen = string(b)
			_, _ = io.WriteString(w, `{"created":1,"data":[{"b64_json":"AAAA"}],"usage":{"input_tokens":3,"output_tokens":5,"total_tokens":8}}`)
		case "/v1/images/edits":
			if err := r.ParseMultipartForm(8 << 20); err != nil {
				http.Error(w, err.Error(), 400)
				return
			}
			f := r.MultipartForm
			*seen = fmt.Sprint(f.Value["model"], f.Value["prompt"], len(f.File["image[]"]), len(f.File["mask"]))
			_, _ = io.WriteString(w, `{"created":1,"model":"inner","data":[{"b64_json":"AAAA"}]}`)
		default:
			_, _ = io.WriteString(w, `{"data":[]}`)
		}
	}))
	t.Cleanup(engine.Close)
	return engine.URL, seen
}

func TestImages(t *testing.T) {
	t.Parallel()
	url, seen := imageEngine(t)
	p := start(t, rig.Setup{Cold: true, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}", operations: [images] }]
upstreams: [{ name: draws, url: "` + url + `", engine: openai }]
models:
  - { id: pictures, kind: image, deployments: [{ upstream: draws, served: inner }] }
  - { id: retouch, kind: image-edit, deployments: [{ upstream: draws, served: inner }] }
`})
	rig.WaitFor(t, rig.WaitTimeout, "the upstream is up", func() bool { return p.Metric("penstock_upstream_up") == 1 })
	p.Post("/v1/images/generations", `{"model":"pictures","prompt":"`+rig.Canary+`","n":1}`).WantStatus(200)
	if *seen != `{"model":"inner","prompt":"`+rig.Canary+`","n":1}` {
		t.Errorf("the engine got %s", *seen)
	}
	if l := p.LastAccessLine(); l.PromptTokens != 3 || l.CompletionTokens != 5 || l.Dialect != "images" {
		t.Errorf("last call = %+v, want images with 3 and 5 tokens", l)
	}
	big := strings.Repeat("\x89PNG", 200<<10)
	r := p.upload("/v1/images/edits", formPart{"image[]", "a.png", big}, formPart{"image[]", "b.png", "x"}, formPart{"mask", "m.png", "x"}, text("prompt", rig.Canary), text("model", "retouch")).WantStatus(200)
	if *seen != "[inner] ["+rig.Canary+"] 2 1" || !strings.Contains(r.Body, `"model":"retouch"`) {
		t.Errorf("the engine got %s, the client %s", *seen, r.Body)
	}
	p.upload("/v1/images/edits", text("model", "retouch"), text("prompt", "x")).WantError(400, "invalid_request_error", "missing_parameter")
	p.upload("/v1/images/edits", formPart{"image", "a.png", "x"}).WantError(400, "invalid_request_error", "missing_parameter")
	p.upload("/v1/images/edits", text("model", "pictures"), formPart{"image", "a.png", "x"}).WantError(400, "invalid_request_error", "unsupported_parameter")
	p.Post("/v1/embeddings", `{"model":"pictures","input":"x"}`).WantError(403, "permission_error", "operation_not_allowed")

	image, err := p.sdkImages()
	if err != nil || len(image.Data) != 1 {
		t.Errorf("image = %+v, %v; want one", image, err)
	}
}

func (p *penstock) sdkImages() (*openai.ImagesResponse, error) {
	client := p.sdk()
	return client.Images.Generate(context.Background(), openai.ImageGenerateParams{Model: "pictures", Prompt: rig.Canary})
}

func TestSDK_Forward(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	client, ctx := p.sdk(), context.Background()
	vectors, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: "vectors", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{rig.Canary, "b"}}})
	if err != nil || len(vectors.Data) != 2 || vectors.Model != "vectors" || vectors.Usage.PromptTokens == 0 {
		t.Errorf("vectors = %+v, %v; want 2 of the model vectors and a usage", vectors, err)
	}
	params := openai.CompletionNewParams{Model: "talk", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(rig.Canary)}, MaxTokens: openai.Int(5)}
	whole, err := client.Completions.New(ctx, params)
	if err != nil || len(whole.Choices) != 1 || whole.Model != "talk" {
		t.Errorf("completion = %+v, %v; want one choice of talk", whole, err)
	}
	text := ""
	s := client.Completions.NewStreaming(ctx, params)
	for s.Next() {
		if c := s.Current(); len(c.Choices) > 0 {
			text += c.Choices[0].Text
		}
	}
	if s.Err() != nil || text == "" {
		t.Errorf("streamed text = %q, %v; want some", text, s.Err())
	}
}

// TestForward_Large checks that large answers that the edge only passes on are complete and have
// the public name, and that their tokens are counted.
func TestForward_Large(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	form := func(model, file string, fields ...string) (string, string) {
		const boundary = "b0undary"
		body := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + model + "\r\n"
		for _, f := range fields {
			name, value, _ := strings.Cut(f, "=")
			body += "--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
		}
		body += "--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + file + "\"; filename=\"a\"\r\n\r\nxyz\r\n--" + boundary + "--\r\n"
		return body, "Content-Type: multipart/form-data; boundary=" + boundary
	}
	spoken, formType := form("ears", "file", "response_format=verbose_json")
	for _, c := range []struct{ path, model, body, kind string }{
		{"/v1/embeddings", "vectors", `{"model":"vectors","input":"a"}`, "Content-Type: application/json"},
		{"/v1/rerank", "ranks", `{"model":"ranks","query":"a","documents":["a","b"]}`, "Content-Type: application/json"},
		{"/v1/completions", "talk", `{"model":"talk","prompt":"a","max_tokens":4}`, "Content-Type: application/json"},
		{"/v1/audio/transcriptions", "ears", spoken, formType},
	} {
		small := p.Post(c.path, c.body, c.kind).WantStatus(200)
		for _, fault := range []string{"padded=400000", "padded=70000;at=end", "chunked+padded=400000"} {
			p.Engines[0].SetFault(sim.Fault{Spec: fault})
			r := p.Post(c.path, c.body, c.kind).WantStatus(200)
			p.Engines[0].SetFault()
			got := map[string]any{}
			if err := json.Unmarshal([]byte(r.Body), &got); err != nil || r.Err != nil || r.Header.Get("Content-Type") != small.Header.Get("Content-Type") {
				t.Errorf("%s, %s: %v, %v; want whole JSON", c.path, fault, err, r.Err)
			}
			if name, named := got["model"]; named && name != c.model || len(got["padding"].(string)) < 60_000 {
				t.Errorf("%s, %s: model = %v, want %s with its padding", c.path, fault, name, c.model)
			}
			if l := p.LastAccessLine(); l.Outcome != "ok" || l.Model != c.model || c.model != "ears" && (l.PromptTokens == 0 || l.TokensEstimated) {
				t.Errorf("%s, %s: last call = %+v, want ok with counted tokens", c.path, fault, l)
			}
			p.Post(c.path, c.body, c.kind).WantStatus(200) // the connection must still work
		}
	}
}

// TestCompletions_WholeForStream checks an engine that sends an unstreamed answer even though a
// stream was requested, and an engine that sends the stream with a different Content-Type.
func TestCompletions_WholeForStream(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string][2]string{
		"whole":      {"application/json", `{"object":"text_completion","choices":[{"text":"Good.","index":0}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`},
		"plain text": {"text/plain", `data: {"choices":[{"text":"Good.","index":0,"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"},
	} {
		engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", reply[0])
			if r.URL.Path != "/v1/completions" {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"sim","object":"model"}]}`)
				return
			}
			_, _ = io.WriteString(w, reply[1])
		}))
		t.Cleanup(engine.Close)
		p := start(t, rig.Setup{Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: fake, url: "` + engine.URL + `", engine: openai, probe: { timeout: 15s } }]
models: [{ id: sim, deployments: [{ upstream: fake, served: sim }] }]
`})
		r := p.Post("/v1/completions", `{"model":"sim","prompt":"x","stream":true}`).WantStatus(200)
		if !strings.Contains(r.Body, `"text":"Good."`) || !strings.Contains(r.Body, `"finish_reason":"stop"`) || !strings.HasSuffix(r.Body, "data: [DONE]\n\n") {
			t.Errorf("%s: answer = %s, want Good., the finish stop and [DONE]", name, r.Body)
		}
	}
}
