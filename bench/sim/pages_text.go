package sim

import (
	"fmt"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/profile"
	"penstock/bench/sim/scheduler"
	"penstock/bench/sim/wire"
)

// pageInfo is Text Generation Inference's description of itself.
func (e *Engine) pageInfo(x *exchange) {
	_, limit := e.slots.Room()
	model, _ := e.served("")
	o := wire.Members{'{'}
	o.Text("model_id", model)
	o.Raw("model_sha", "null")
	o.Raw("model_pipeline_tag", `"text-generation"`)
	o.Number("max_concurrent_requests", limit)
	o.Number("max_best_of", 2)
	o.Number("max_stop_sequences", 4)
	o.Number("max_input_tokens", e.o.MaxModelLen-1)
	o.Number("max_total_tokens", e.o.MaxModelLen)
	o.Number("validation_workers", 2)
	o.Number("max_client_batch_size", 4)
	o.Text("router", "text-generation-router")
	o.Text("version", "0.0.0+sim")
	o.Raw("sha", "null")
	o.Raw("docker_label", "null")
	x.json(200, append(o, '}'))
}

// pageIterations is trtllm-serve's /metrics: what has happened since somebody last asked, and
// nothing the second time.
func (e *Engine) pageIterations(x *exchange) {
	running, waiting, _ := e.slots.Load()
	used, _ := e.slots.Room()
	said := e.counters.generated.Load()
	if said == e.iterations.Swap(said) && running == 0 {
		x.json(200, []byte("[]"))
		return
	}
	x.json(200, fmt.Appendf(nil,
		`[{"iter":%d,"iterLatencyMS":7.0,"numActiveRequests":%d,"numQueuedRequests":%d,"kvCacheStats":{"maxNumBlocks":%d,"usedNumBlocks":%d,"tokensPerBlock":%d,"cacheHitRate":%.4f}}]`,
		said, running, waiting, e.kvSize()/scheduler.BlockTokens, used/scheduler.BlockTokens, scheduler.BlockTokens,
		e.hitRate()))
}

// pageStudioModels is LM Studio's own list of models, old and new. A model is loaded once it has
// been asked for.
func (e *Engine) pageStudioModels(x *exchange) {
	old := x.req.path == "/api/v0/models"
	o := wire.Members(`{"models":[`)
	if old {
		o = wire.Members(`{"object":"list","data":[`)
	}
	for i, n := range *e.models.Load() {
		if i > 0 {
			o = append(o, ',')
		}
		loaded := e.loaded.Has(n)
		o = append(o, '{')
		if old {
			o.Text("id", n)
			o.Text("object", "model")
			o.Text("type", "vlm")
			o.Text("publisher", "sim")
			o.Text("arch", "sim")
			o.Text("compatibility_type", "gguf")
			o.Text("quantization", "Q4_K_M")
			o.Text("state", map[bool]string{true: "loaded", false: "not-loaded"}[loaded])
			o.Number("max_context_length", e.o.MaxModelLen)
			if loaded {
				o.Number("loaded_context_length", e.o.MaxModelLen)
			}
		} else {
			o.Text("type", "llm")
			o.Text("key", n)
			o.Text("display_name", n)
			o.Raw("loaded_instances", "[")
			if loaded {
				o = append(o, '{')
				o.Text("id", n)
				o.Raw("config", fmt.Sprintf(`{"context_length":%d}`, e.o.MaxModelLen))
				o = append(o, '}')
			}
			o = append(o, ']')
			o.Number("max_context_length", e.o.MaxModelLen)
			o.Raw("capabilities", `{"vision":true,"trained_for_tool_use":true}`)
		}
		o = append(o, '}')
	}
	x.json(200, append(o, "]}"...))
}

// pageRouterModels is the list of llama.cpp's router: what is loaded, and the command line of each
// child with its paths.
func (e *Engine) pageRouterModels(x *exchange) {
	b := []byte(`{"data":[`)
	for i, n := range *e.models.Load() {
		if i > 0 {
			b = append(b, ',')
		}
		state, meta := "unloaded", ""
		if e.loaded.Has(n) {
			state, meta = "loaded", `,"meta":`+e.llamaMeta()
		}
		o := append(wire.Members(b), '{')
		o.Text("id", n)
		o.Raw("aliases", "[]")
		o.Raw("tags", "[]")
		o.Text("object", "model")
		o.Text("owned_by", "llamacpp")
		o.Number("created", int(e.started.Unix()))
		o.Raw("status", "{")
		o.Text("value", state)
		o.Raw("args", `["/usr/bin/llama-server","--model",`)
		o = append(wire.AppendString(o, profile.LeakedPath+"/"+n+".gguf"), ']')
		o.Text("preset", "["+n+"]\nmodel = "+profile.LeakedPath+"/"+n+".gguf\n\n")
		o = append(o, '}')
		o.Raw("architecture", llamaArchitecture)
		o.Text("source", "models_dir")
		o.Raw("can_remove", "false")
		o.Number("context_length", e.o.MaxModelLen)
		b = append(append(o, meta...), '}')
	}
	x.json(200, append(b, `],"object":"list"}`...))
}

// pageRouterProps: the router describes itself, and a model only by name.
func (e *Engine) pageRouterProps(x *exchange) {
	if x.req.queried("model") != "" {
		e.ofModel(x, (*Engine).pageProps)
		return
	}
	x.json(200,
		[]byte(`{"role":"router","max_instances":1,"models_autoload":true,"model_alias":"llama-server","model_path":"none","default_generation_settings":{"params":null,"n_ctx":0},"ui_settings":{},"build_info":"b11669-sim","cors_proxy_enabled":false}`))
}

func (e *Engine) pageRouterMetrics(x *exchange) { e.ofModel(x, (*Engine).pageMetrics) }
func (e *Engine) pageRouterSlots(x *exchange)   { e.ofModel(x, (*Engine).pageSlots) }

// ofModel shows a page of the child that the query names.
func (e *Engine) ofModel(x *exchange, page func(*Engine, *exchange)) {
	name := x.req.queried("model")
	if name == "" {
		x.fail(profile.APIError{Status: 400, Message: "model name is missing from the request"})
		return
	}
	if _, ok := e.served(name); !ok {
		x.fail(x.p.UnknownModelError(name))
		return
	}
	x.child = true
	page(e, x)
}

// routerLoad loads or unloads a model by hand.
func (e *Engine) routerLoad(x *exchange) {
	x.withJSON(func(v *fastjson.Value) { e.loadOrUnload(x, v) })
}

func (e *Engine) loadOrUnload(x *exchange, v *fastjson.Value) {
	name := string(v.GetStringBytes("model"))
	if _, ok := e.served(name); !ok {
		x.fail(x.p.UnknownModelError(name))
		return
	}
	load, was := x.req.path == "/models/load", e.loaded.Has(name)
	switch {
	case load && was:
		x.fail(profile.APIError{Status: 400, Message: "model is already running"})
		return
	case !load && !was:
		x.fail(profile.APIError{Status: 400, Message: "model is not running"})
		return
	case load:
		e.loaded.Add(name)
	default:
		e.loaded.Drop(name)
	}
	x.json(200, []byte(`{"success":true}`))
}
