package sim

import (
	"strconv"
	"time"
)

// textProfiles are the engines that write text. llama.cpp's server and Ollama were measured, vLLM,
// SGLang, TensorRT-LLM and Text Generation Inference read in their sources, LM Studio in its
// documentation and in reports about it.
var textProfiles = []profile{
	{
		name:   "vllm",
		plays:  "vLLM: uvicorn, nested errors, [DONE] after an error event, ids chatcmpl-tool-…, metrics with labels, transcriptions streamed as chunks; closes idle connections after 5 s",
		server: "uvicorn", dated: true, lower: true,
		jsonType: "application/json", sseType: "text/event-stream; charset=utf-8",
		reasoning: "reasoning", headFirst: true, errorDone: true, typed: true, auth: "v1", idle: 5 * time.Second,
		callID:   func(n uint64) string { return "chatcmpl-tool-" + hex32(n) },
		answerID: func(n uint64) string { return "chatcmpl-" + hex32(n) },
		page404:  `{"detail":"Not Found"}`,
	},
	{
		name:  "openai",
		plays: "any server that follows OpenAI, nothing special about it; the edge knows it as the simulator itself",
		dated: true, jsonType: "application/json", sseType: "text/event-stream; charset=utf-8",
		reasoning: "reasoning_content", headFirst: true, auth: "all",
		callID:   func(n uint64) string { return "call_" + hex32(n)[:24] },
		answerID: func(n uint64) string { return "chatcmpl-" + hex32(n)[:29] },
	},
	{
		name:   "llamacpp",
		plays:  "llama.cpp's server: slots, odd 500s, no [DONE] after an error event, events that share a chunk, comments in a long prefill, 100 requests a connection and none after an error",
		work:   "chat completions messages responses embeddings rerank transcriptions",
		server: "llama.cpp", headers: "Access-Control-Allow-Origin: \r\n", sseHeaders: "X-Accel-Buffering: no\r\n",
		jsonType: "application/json; charset=utf-8", sseType: "text/event-stream",
		reasoning: "reasoning_content", headFirst: true, joins: true, overrun: true, auth: "all", unknown: unknownServed,
		ping: 30 * time.Second, idle: 5 * time.Second, perConn: 100, errorClose: true,
		callID:   hex32,
		answerID: func(n uint64) string { return "chatcmpl-" + hex32(n) },
	},
	{
		name:   "sglang",
		plays:  "SGLang: flat errors, a full queue tells streams in 200, a health page that takes a second, echoes any model name",
		server: "uvicorn", dated: true, lower: true,
		jsonType: "application/json", sseType: "text/event-stream; charset=utf-8",
		reasoning: "reasoning_content", headFirst: true, errorDone: true, fullInBand: true, typed: true, auth: "all", unknown: unknownEcho,
		idle: 5 * time.Second, health: time.Second,
		callID:   func(n uint64) string { return "call_" + hex32(n)[:24] },
		answerID: hex32,
		page404:  `{"detail":"Not Found"}`,
	},
	{
		name:  "ollama",
		plays: "Ollama: whole tool calls, no head before the first token, tag :latest, refuses foreign Hosts, no metrics",
		work:  "chat completions messages responses embeddings transcriptions",
		dated: true, jsonType: "application/json", sseType: "text/event-stream",
		reasoning: "reasoning", roles: roleFirst, joins: true, wholeTools: true, latest: true, oneChoice: true, firstTool: true, local: true,
		callID:   hex32,
		answerID: func(n uint64) string { return "chatcmpl-" + strconv.FormatUint(n%1000, 10) },
	},
	{
		name:  "tgi",
		plays: "Text Generation Inference: 429 when overloaded and 422 for a bad request, but 200 and an error event for a stream; empty ids, no blank after data:, one tool call that finishes with stop",
		work:  "chat completions", dated: true, lower: true,
		headers:    "vary: origin, access-control-request-method, access-control-request-headers\r\naccess-control-allow-origin: *\r\n",
		sseHeaders: "cache-control: no-cache\r\nx-accel-buffering: no\r\n",
		jsonType:   "application/json", sseType: "text/event-stream", textType: "text/plain; charset=utf-8", nospace: true,
		roles: roleEach, headFirst: true, errorDone: true, fullInBand: true, longInBand: true, oneChoice: true, auth: "work", unknown: unknownServed,
		ping:     15 * time.Second,
		callID:   func(uint64) string { return "0" },
		answerID: func(uint64) string { return "" },
	},
	{
		name:  "trtllm",
		plays: "TensorRT-LLM's trtllm-serve: flat errors, members that are null left out, a metrics page that reading empties, Prometheus beside it",
		work:  "chat completions responses", server: "uvicorn", dated: true, lower: true,
		jsonType: "application/json", sseType: "text/event-stream; charset=utf-8", textType: "text/plain; charset=utf-8",
		reasoning: "reasoning_content", headFirst: true, overrun: true, unknown: unknownEcho, idle: 5 * time.Second,
		callID:   func(n uint64) string { return "chatcmpl-tool-" + hex32(n) },
		answerID: func(n uint64) string { return "chatcmpl-" + strconv.FormatUint(n%100000, 10) },
		page404:  `{"detail":"Not Found"}`,
	},
	{
		name:  "lmstudio",
		plays: "LM Studio: 200 for every unknown path, errors as named events in a stream and as a bare text outside, the role in every delta; loads a model at its first request",
		work:  "chat completions messages responses embeddings", slots: 4, dated: true,
		headers: "X-Powered-By: Express\r\n", sseHeaders: "Cache-Control: no-cache\r\n",
		jsonType: "application/json; charset=utf-8", sseType: "text/event-stream",
		reasoning: "reasoning_content", roles: roleEach, loads: true, overrun: true, longInBand: true, errorEvent: "error", auth: "all", idle: 5 * time.Second,
		callID:   func(n uint64) string { return strconv.FormatUint(100000000+n%900000000, 10) },
		answerID: func(n uint64) string { return "chatcmpl-" + hex32(n)[:20] },
	},
}

// textVariants are engines of textProfiles in another mode.
var textVariants = []variant{
	{"vllm-omni", "vllm", "vLLM-Omni: as vllm, with metrics under names of its own", func(*profile) {}},
	{
		"llamacpp-router", "llamacpp",
		"llama.cpp's router mode: refuses unknown names, tells which models are loaded and loads one at its first request, metrics only with ?model=NAME",
		func(p *profile) { p.unknown, p.loads = unknownRefused, true },
	},
}
