package sim

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/profile"
	"penstock/bench/sim/scheduler"
	"penstock/bench/sim/textgen"
	"penstock/bench/sim/wire"
)

// pageHealth: what /health says; SGLang takes a second, because it generates a token to find out.
func (e *Engine) pageHealth(x *exchange) {
	if !x.client.pause(x.p.Health) {
		return
	}
	sick := e.sick.Load()
	switch x.p.Family {
	case "tgi":
		if sick {
			x.fail(profile.APIError{Status: 503, Message: "unhealthy"})
			return
		}
	case "trtllm":
		switch {
		case sick:
			x.send(x.p.PlainText(503, "LLM is unavailable. Please check the server logs for more details."))
			return
		case x.req.path == "/health_generate":
			x.send(x.p.PlainText(200, "Generation health check OK"))
			return
		}
	case "speaches":
		if !sick {
			x.send(x.p.PlainText(200, "OK"))
			return
		}
	}
	switch {
	case sick && x.p.Family == "whisper":
		x.json(503, []byte(`{"status":"loading model"}`))
	case sick:
		x.reply(503, "", nil)
	case x.p.Is("llamacpp openai whisper"):
		x.json(200, []byte(`{"status":"ok"}`))
	case x.p.Family == "kokoro":
		x.json(200, []byte(`{"status":"healthy"}`))
	default:
		x.reply(200, "", nil)
	}
}

func (e *Engine) pageModels(x *exchange) {
	created := e.started.Unix()
	if x.p.Family == "tgi" {
		created = 0
	}
	b := []byte{'{'}
	names := *e.models.Load()
	if x.p.Family == "llamacpp" {
		b = append(b, `"models":[`...)
		for i, n := range names {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"name":`...)
			b = wire.AppendString(b, n)
			b = append(b, `,"model":`...)
			b = wire.AppendString(b, n)
			b = append(b,
				`,"modified_at":"","size":"","digest":"","type":"model","description":"","tags":[""],"capabilities":["completion"],"parameters":"","details":{"parent_model":"","format":"gguf","family":"","families":[""],"parameter_size":"","quantization_level":""}}`...)
		}
		b = append(b, `],`...)
	}
	b = append(b, `"object":"list","data":[`...)
	for i, n := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = e.appendCard(b, n, created)
	}
	b = append(b, "]}"...)
	x.json(200, b)
}

func (e *Engine) appendCard(b []byte, name string, created int64) []byte {
	b = append(b, `{"id":`...)
	b = wire.AppendString(b, name)
	b = fmt.Appendf(b, `,"object":"model","created":%d,"owned_by":`, created)
	switch e.p.Family {
	case "llamacpp":
		b = append(b, `"llamacpp","aliases":[`...)
		b = wire.AppendString(b, name)
		return fmt.Appendf(b, `],"tags":[],"architecture":%s,"meta":%s}`, llamaArchitecture, e.llamaMeta())
	case "vllm", "sglang":
		b = wire.AppendString(b, e.p.Family)
		b = append(b, `,"root":`...)
		b = wire.AppendString(b, name)
		b = fmt.Appendf(b, `,"parent":null,"max_model_len":%d`, e.o.MaxModelLen)
		if e.p.Family == "vllm" {
			b = fmt.Appendf(b,
				`,"permission":[{"id":"modelperm-sim","object":"model_permission","created":%d,"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}]`, created)
		}
		return append(b, '}')
	case "speaches":
		owner, _, _ := strings.Cut(name, "/")
		b = wire.AppendString(b, owner)
		return append(b, `,"language":["en"],"task":"automatic-speech-recognition"}`...)
	case "tgi":
		b = wire.AppendString(b, name)
		return append(b, '}')
	}
	return append(wire.AppendString(b, owners[e.p.Family]), '}')
}

const llamaArchitecture = `{"input_modalities":["text"],"output_modalities":["text"]}`

// llamaMeta is what llama.cpp's server tells of a loaded model.
func (e *Engine) llamaMeta() string {
	return fmt.Sprintf(`{"vocab_type":2,"n_vocab":1042,"n_ctx":%d,"n_ctx_train":%d,"n_embd":1088,"n_params":3315136,"size":6636800,"ftype":"F16"}`,
		e.o.MaxModelLen, e.o.MaxModelLen)
}

// owners are what cards without further members say.
var owners = map[string]string{
	"ollama": "library", "openai": "penstock-sim", "trtllm": "tensorrt_llm",
	"lmstudio": "organization_owner", "kokoro": "kokoro",
}

// pageModel is one card.
func (e *Engine) pageModel(x *exchange, name string) {
	for _, n := range *e.models.Load() {
		if n == name || x.p.Latest && n == name+":latest" {
			x.json(200, e.appendCard(nil, name, e.started.Unix()))
			return
		}
	}
	err := x.p.UnknownModelError(name)
	x.fail(err)
}

func (e *Engine) pageVersion(x *exchange) {
	ctype := x.p.JSONType
	if x.p.Family == "ollama" {
		ctype = profile.OllamaType
	}
	x.reply(200, ctype, []byte(`{"version":"0.0.0+sim"}`))
}

func (e *Engine) pageLoad(x *exchange) {
	r, w, _ := e.slots.Load()
	x.json(200, fmt.Appendf(nil, `{"server_load":%d}`, r+w))
}

func (e *Engine) pageRoot(x *exchange) {
	x.reply(200, "text/plain; charset=utf-8", []byte("Ollama is running"))
}

// pageTags lists models the way Ollama's own pages do: every one is loaded.
func (e *Engine) pageTags(x *exchange) {
	b := []byte(`{"models":[`)
	for i, n := range *e.models.Load() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = wire.AppendString(b, n)
		b = append(b, `,"model":`...)
		b = wire.AppendString(b, n)
		b = fmt.Appendf(b,
			`,"size":21999123,"digest":"%s","details":{"parent_model":"","format":"gguf","family":"llama","families":["llama"],"parameter_size":"3.32M","quantization_level":"F16"`, profile.Hex32(uint64(i)))
		if x.req.path == "/api/ps" {
			b = fmt.Appendf(b, `},"expires_at":"%s","size_vram":0,"context_length":%d}`,
				time.Now().Add(5*time.Minute).UTC().Format(time.RFC3339), e.o.MaxModelLen)
		} else {
			b = fmt.Appendf(b, `,"context_length":%d,"embedding_length":1088},"modified_at":"%s","capabilities":["completion"]}`,
				e.o.MaxModelLen, e.started.UTC().Format(time.RFC3339Nano))
		}
	}
	x.reply(200, profile.OllamaType, append(b, "]}"...))
}

func (e *Engine) pageProps(x *exchange) {
	_, limit := e.slots.Room()
	model, _ := e.served("")
	b := fmt.Appendf(nil,
		`{"default_generation_settings":{"params":{"seed":4294967295,"temperature":0.8},"n_ctx":%d},"total_slots":%d,"model_alias":`, e.o.MaxModelLen, limit)
	b = wire.AppendString(b, model)
	b = fmt.Appendf(b,
		`,"model_path":"%s/model.gguf","model_ftype":"F16","modalities":{"vision":true,"video":false,"audio":false},"media_marker":"<__media__>","endpoint_slots":true,"endpoint_props":false,"endpoint_metrics":true,"ui":false,"ui_settings":{},"bos_token":"","eos_token":"","cors_proxy_enabled":false,"chat_template":"{%%- for message in messages %%}{{- message.content }}{%%- endfor %%}","build_info":"b11669-sim","is_sleeping":false}`, profile.LeakedPath)
	x.json(200, b)
}

func (e *Engine) pageSlots(x *exchange) {
	running, _, _ := e.slots.Load()
	_, limit := e.slots.Room()
	if strings.Contains(x.req.query, "fail_on_no_slot=1") && running >= limit {
		x.fail(profile.APIError{Status: 503, Message: "no slot available"})
		return
	}
	b := []byte{'['}
	for i := range limit {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"id":%d,"n_ctx":%d,"speculative":false,"is_processing":%t}`, i, e.o.MaxModelLen, i < running)
	}
	x.json(200, append(b, ']'))
}

// pageLoads is SGLang's load report, new and old.
func (e *Engine) pageLoads(x *exchange) {
	running, waiting, _ := e.slots.Load()
	used, limit := e.slots.Room()
	size := e.kvSize()
	row := fmt.Appendf(nil,
		`{"dp_rank":0,"num_running_reqs":%d,"num_waiting_reqs":%d,"num_total_reqs":%d,"num_used_tokens":%d,"max_total_num_tokens":%d,"token_usage":%.4f,"gen_throughput":0.0,"cache_hit_rate":%.4f,"utilization":%.4f,"max_running_requests":%d}`,
		running, waiting, running+waiting, used, size, float64(used)/float64(size), e.hitRate(), float64(running)/float64(max(1, limit)), limit)
	if x.req.path == "/get_load" {
		x.json(200, fmt.Appendf(nil, `[{"dp_rank":0,"num_reqs":%d,"num_waiting_reqs":%d,"num_tokens":%d}]`, running+waiting,
			waiting, used))
		return
	}
	x.json(200, fmt.Appendf(nil, `{"timestamp":"%s","version":"0.0.0+sim","dp_rank_count":1,"loads":[%s]}`,
		time.Now().UTC().Format(time.RFC3339), row))
}

func (e *Engine) pageServerInfo(x *exchange) {
	_, limit := e.slots.Room()
	model, _ := e.served("sim")
	b := []byte(`{"model_path":`)
	b = wire.AppendString(b, profile.LeakedPath+"/"+model)
	if strings.Contains(x.req.path, "model_info") {
		x.json(200, append(b,
			`,"is_generation":true,"has_image_understanding":true,"has_audio_understanding":false,"weight_version":"default"}`...))
		return
	}
	b = append(b, `,"served_model_name":`...)
	b = wire.AppendString(b, model)
	b = fmt.Appendf(b,
		`,"api_key":"%s","host":"%s","context_length":%d,"max_running_requests":%d,"max_total_num_tokens":%d,"version":"0.0.0+sim","internal_states":[{}]}`,
		profile.LeakedSecret, profile.LeakedHost, e.o.MaxModelLen, limit, e.kvSize())
	x.json(200, b)
}

// kvSize is what cache usage is relative to.
func (e *Engine) kvSize() int {
	if e.o.KVTokens > 0 {
		return e.o.KVTokens
	}
	_, limit := e.slots.Room()
	return max(1, limit*e.o.MaxModelLen)
}

// kvUsage is how full the room for prompts and answers is, 0 to 1.
func (e *Engine) kvUsage() float64 {
	used, _ := e.slots.Room()
	return float64(used) / float64(e.kvSize())
}

func (e *Engine) hitRate() float64 {
	asked, hit := e.cache.Counts()
	if asked == 0 {
		return 0
	}
	return float64(hit) / float64(asked)
}

// tokenize answers vLLM's and llama.cpp's /tokenize with made-up token numbers, the right count of
// them.
func (e *Engine) tokenize(x *exchange) { x.withJSON(func(v *fastjson.Value) { e.tokenizeOf(x, v) }) }

func (e *Engine) tokenizeOf(x *exchange, v *fastjson.Value) {
	var q chatRequest
	q.prompt.Reset(e.o.Seed)
	for _, name := range []string{"prompt", "content"} {
		q.prompt.Add(v.GetStringBytes(name))
	}
	for i, m := range v.GetArray("messages") {
		if _, err := e.readMessage(&q, i, m); err != nil {
			x.fail(*err)
			return
		}
	}
	n := q.prompt.Tokens()
	if q.prompt.Bytes == 0 {
		n = 0
	}
	ids := make([]byte, 0, 6*n)
	for i := range n {
		if i > 0 {
			ids = append(ids, ',')
		}
		ids = strconv.AppendUint(ids, textgen.Mix(q.prompt.Hash, uint64(i))%32000, 10)
	}
	if x.p.Family == "llamacpp" {
		if v.GetBool("with_pieces") {
			ids = append(bytes.ReplaceAll(append([]byte(`{"id":`), ids...), []byte(","), []byte(`,"piece":"?"},{"id":`)),
				`,"piece":"?"}`...)
		}
		x.json(200, fmt.Appendf(nil, `{"tokens":[%s]}`, ids))
		return
	}
	x.json(200, fmt.Appendf(nil, `{"count":%d,"max_model_len":%d,"tokens":[%s],"token_strs":null}`, n, e.o.MaxModelLen,
		ids))
}

// countTokens answers the Messages dialect's counter: every text below system, messages and tools
// counts.
func (e *Engine) countTokens(x *exchange) {
	x.withJSON(func(v *fastjson.Value) { e.countTokensOf(x, v) })
}

func (e *Engine) countTokensOf(x *exchange, v *fastjson.Value) {
	var all scheduler.Prompt
	all.Reset(e.o.Seed)
	var walk func(v *fastjson.Value)
	walk = func(v *fastjson.Value) {
		switch v.Type() {
		case fastjson.TypeString:
			all.Add(v.GetStringBytes())
		case fastjson.TypeArray:
			for _, one := range v.GetArray() {
				walk(one)
			}
		case fastjson.TypeObject:
			v.GetObject().Visit(func(_ []byte, v *fastjson.Value) { walk(v) })
		}
	}
	for _, name := range []string{"system", "messages", "tools"} {
		if m := v.Get(name); m != nil {
			walk(m)
		}
	}
	x.json(http.StatusOK, fmt.Appendf(nil, `{"input_tokens":%d}`, all.Tokens()))
}
