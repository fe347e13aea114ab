package sim

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/generate"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/scheduler"
	"penstock/bench/sim/textgen"
)

// auxiliaryHandlers lists engine actions other than inference. Each entry names the profiles or
// families that support the action.
var auxiliaryHandlers = map[string]struct {
	only string
	do   func(*Engine, *exchange, *fastjson.Value)
}{
	"/tokenize":                 {"vllm llamacpp sglang openai", serveTokenize},
	"/v1/messages/count_tokens": {"vllm llamacpp", serveCountTokens},
	"/models/load":              {"llamacpp-router", loadOrUnloadModel},
	"/models/unload":            {"llamacpp-router", loadOrUnloadModel},
	"/v1/load_lora_adapter":     {"vllm", loadAdapter},
	"/v1/unload_lora_adapter":   {"vllm", unloadAdapter},
}

// serveTokenize answers /tokenize with the correct number of tokens, but with made-up ids.
func serveTokenize(e *Engine, x *exchange, v *fastjson.Value) {
	var q generate.Request
	d := newDecoder(x)
	q.Prompt.Reset(e.o.Seed)
	for _, name := range []string{"prompt", "content"} {
		q.Prompt.Add(v.GetStringBytes(name))
	}
	for i, m := range v.GetArray("messages") {
		if _, err := d.AddMessage(&q, i, m); err != nil {
			x.replyError(*err)
			return
		}
	}
	n := q.Prompt.Tokens()
	if q.Prompt.Bytes == 0 {
		n = 0
	}
	ids := make([]byte, 0, 6*n)
	for i := range n {
		if i > 0 {
			ids = append(ids, ',')
		}
		ids = strconv.AppendUint(ids, textgen.MixHash(q.Prompt.Hash, uint64(i))%32000, 10)
	}
	if x.p.Family == "llamacpp" {
		if v.GetBool("with_pieces") {
			ids = append(bytes.ReplaceAll(append([]byte(`{"id":`), ids...), []byte(","), []byte(`,"piece":"?"},{"id":`)),
				`,"piece":"?"}`...)
		}
		x.replyJSON(fmt.Appendf(nil, `{"tokens":[%s]}`, ids))
		return
	}
	x.replyJSON(fmt.Appendf(nil, `{"count":%d,"max_model_len":%d,"tokens":[%s],"token_strs":null}`, n, e.o.MaxModelLen,
		ids))
}

// serveCountTokens answers requests to count tokens in the Messages API. It counts all text in
// system, messages and tools.
func serveCountTokens(e *Engine, x *exchange, v *fastjson.Value) {
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
			v.GetObject().Visit(func(key []byte, v *fastjson.Value) {
				if string(key) != "type" {
					walk(v)
				}
			})
		}
	}
	if system := v.Get("system"); system != nil {
		all.AddString("system\n")
		all.Extra += scheduler.MessageTokens
		walk(system)
	}
	for _, m := range v.GetArray("messages") {
		all.AddString("\n")
		all.Extra += scheduler.MessageTokens
		walk(m)
	}
	if tools := v.Get("tools"); tools != nil {
		walk(tools)
	}
	x.replyJSON(fmt.Appendf(nil, `{"input_tokens":%d}`, all.Tokens()))
}

func loadOrUnloadModel(e *Engine, x *exchange, v *fastjson.Value) {
	name := string(v.GetStringBytes("model"))
	if _, ok := e.resolveModel(name); !ok {
		x.replyError(x.p.UnknownModelError(name))
		return
	}
	load, was := x.req.path == "/models/load", e.loaded.IsLoaded(name)
	switch {
	case load && was:
		x.replyError(profile.APIError{Status: 400, Message: "model is already running"})
		return
	case !load && !was:
		x.replyError(profile.APIError{Status: 400, Message: "model is not running"})
		return
	case load:
		e.loaded.Load(name)
	default:
		e.loaded.Unload(name)
	}
	x.replyJSON([]byte(`{"success":true}`))
}

// loadAdapter adds a LoRA adapter to the served models, as vLLM does if its configuration allows
// this at run time.
func loadAdapter(e *Engine, x *exchange, v *fastjson.Value) {
	name := string(v.GetStringBytes("lora_name"))
	if name == "" || len(v.GetStringBytes("lora_path")) == 0 {
		x.replyError(profile.APIError{Status: 400, Message: "Both 'lora_name' and 'lora_path' must be provided."})
		return
	}
	if !setAdapter(e, name, true) {
		x.replyError(profile.APIError{Status: 400, Message: "The lora adapter '" + name + "' has already been loaded."})
		return
	}
	x.reply(http.StatusOK, x.p.TextType, []byte("Success: LoRA adapter '"+name+"' added successfully."))
}

func unloadAdapter(e *Engine, x *exchange, v *fastjson.Value) {
	name := string(v.GetStringBytes("lora_name"))
	if !setAdapter(e, name, false) {
		x.replyError(profile.APIError{Status: 404, Message: "The lora adapter '" + name + "' cannot be found."})
		return
	}
	x.reply(http.StatusOK, x.p.TextType, []byte("Success: LoRA adapter '"+name+"' removed successfully."))
}
