package profile

import (
	"strconv"
	"time"
)

// textProfiles are the engines that write text. llama.cpp's server and Ollama were measured, vLLM,
// SGLang, TensorRT-LLM and Text Generation Inference read in their sources, LM Studio in its
// documentation and in reports about it.
var textProfiles = []Profile{
	{
		Name:   "vllm",
		Plays:  "vLLM: uvicorn, nested errors, [DONE] after an error event, ids chatcmpl-tool-…, metrics with labels, transcriptions streamed as chunks; closes idle connections after 5 s",
		Server: "uvicorn", Dated: true, Lower: true,
		JSONType: "application/json", SSEType: "text/event-stream; charset=utf-8",
		Reasoning: "reasoning", HeadFirst: true, ErrorDone: true, Typed: true, Auth: "v1",
		Idle:     5 * time.Second,
		CallID:   func(n uint64) string { return "chatcmpl-tool-" + Hex32(n) },
		AnswerID: func(n uint64) string { return "chatcmpl-" + Hex32(n) },
		Page404:  `{"detail":"Not Found"}`,
	},
	{
		Name:  "openai",
		Plays: "any server that follows OpenAI, nothing special about it; the edge knows it as the simulator itself",
		Dated: true, JSONType: "application/json", SSEType: "text/event-stream; charset=utf-8",
		Reasoning: "reasoning_content", HeadFirst: true, Auth: "all",
		CallID:   func(n uint64) string { return "call_" + Hex32(n)[:24] },
		AnswerID: func(n uint64) string { return "chatcmpl-" + Hex32(n)[:29] },
	},
	{
		Name:   "llamacpp",
		Plays:  "llama.cpp's server: slots, odd 500s, no [DONE] after an error event, events that share a chunk, comments in a long prefill, 100 requests a connection and none after an error",
		work:   "chat completions messages responses embeddings rerank transcriptions",
		Server: "llama.cpp", Headers: "Access-Control-Allow-Origin: \r\n",
		SSEHeaders: "X-Accel-Buffering: no\r\n",
		JSONType:   "application/json; charset=utf-8", SSEType: "text/event-stream",
		Reasoning: "reasoning_content", HeadFirst: true, Joins: true, Overrun: true, Auth: "all",
		Unknown: UnknownServed,
		Ping:    30 * time.Second, Idle: 5 * time.Second, PerConn: 100, ErrorClose: true,
		CallID:   Hex32,
		AnswerID: func(n uint64) string { return "chatcmpl-" + Hex32(n) },
	},
	{
		Name:   "sglang",
		Plays:  "SGLang: flat errors, a full queue tells streams in 200, a health page that takes a second, echoes any model name",
		Server: "uvicorn", Dated: true, Lower: true,
		JSONType: "application/json", SSEType: "text/event-stream; charset=utf-8",
		Reasoning: "reasoning_content", HeadFirst: true, ErrorDone: true, FullInBand: true, Typed: true,
		Auth: "all", Unknown: UnknownEcho,
		Idle: 5 * time.Second, Health: time.Second,
		CallID:   func(n uint64) string { return "call_" + Hex32(n)[:24] },
		AnswerID: Hex32,
		Page404:  `{"detail":"Not Found"}`,
	},
	{
		Name:  "ollama",
		Plays: "Ollama: whole tool calls, no head before the first token, tag :latest, refuses foreign Hosts, no metrics",
		work:  "chat completions messages responses embeddings transcriptions",
		Dated: true, JSONType: "application/json", SSEType: "text/event-stream",
		Reasoning: "reasoning", Roles: roleFirst, Joins: true, WholeTools: true, Latest: true, OneChoice: true,
		FirstTool: true, Local: true,
		CallID:   Hex32,
		AnswerID: func(n uint64) string { return "chatcmpl-" + strconv.FormatUint(n%1000, 10) },
	},
	{
		Name:  "tgi",
		Plays: "Text Generation Inference: 429 when overloaded and 422 for a bad request, but 200 and an error event for a stream; empty ids, no blank after data:, one tool call that finishes with stop",
		work:  "chat completions", Dated: true, Lower: true,
		Headers:    "vary: origin, access-control-request-method, access-control-request-headers\r\naccess-control-allow-origin: *\r\n",
		SSEHeaders: "cache-control: no-cache\r\nx-accel-buffering: no\r\n",
		JSONType:   "application/json", SSEType: "text/event-stream", TextType: "text/plain; charset=utf-8",
		NoSpace: true,
		Roles:   roleEach, HeadFirst: true, ErrorDone: true, FullInBand: true, LongInBand: true, OneChoice: true,
		Auth: "work", Unknown: UnknownServed,
		Ping:     15 * time.Second,
		CallID:   func(uint64) string { return "0" },
		AnswerID: func(uint64) string { return "" },
	},
	{
		Name:  "trtllm",
		Plays: "TensorRT-LLM's trtllm-serve: flat errors, members that are null left out, a metrics page that reading empties, Prometheus beside it",
		work:  "chat completions responses", Server: "uvicorn", Dated: true, Lower: true,
		JSONType: "application/json", SSEType: "text/event-stream; charset=utf-8",
		TextType:  "text/plain; charset=utf-8",
		Reasoning: "reasoning_content", HeadFirst: true, Overrun: true, Unknown: UnknownEcho,
		Idle:     5 * time.Second,
		CallID:   func(n uint64) string { return "chatcmpl-tool-" + Hex32(n) },
		AnswerID: func(n uint64) string { return "chatcmpl-" + strconv.FormatUint(n%100000, 10) },
		Page404:  `{"detail":"Not Found"}`,
	},
	{
		Name:  "lmstudio",
		Plays: "LM Studio: 200 for every unknown path, errors as named events in a stream and as a bare text outside, the role in every delta; loads a model at its first request",
		work:  "chat completions messages responses embeddings", Slots: 4, Dated: true,
		Headers: "X-Powered-By: Express\r\n", SSEHeaders: "Cache-Control: no-cache\r\n",
		JSONType: "application/json; charset=utf-8", SSEType: "text/event-stream",
		Reasoning: "reasoning_content", Roles: roleEach, Loads: true, Overrun: true, LongInBand: true,
		ErrorEvent: "error", Auth: "all", Idle: 5 * time.Second,
		CallID:   func(n uint64) string { return strconv.FormatUint(100000000+n%900000000, 10) },
		AnswerID: func(n uint64) string { return "chatcmpl-" + Hex32(n)[:20] },
	},
}

// textVariants are engines of textProfiles in another mode.
var textVariants = []variant{
	{"vllm-omni", "vllm", "vLLM-Omni: as vllm, with metrics under names of its own", func(*Profile) {}},
	{
		"llamacpp-router", "llamacpp",
		"llama.cpp's router mode: refuses unknown names, tells which models are loaded and loads one at its first request, metrics only with ?model=NAME",
		func(p *Profile) { p.Unknown, p.Loads = UnknownRefused, true },
	},
}
