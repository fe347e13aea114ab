// Package sim is a simulated inference engine: the edge is tested and load-tested against it, and
// it answers when a newcomer has no engine at hand.
//
// It speaks the engines' HTTP and imports none of our code: it is the oracle of the end-to-end
// tests, so its errors must be independent of ours. What it shows of each engine was seen on that
// engine's wire, or read in its source or documentation (package profile says which). The engine's
// habits are included: how it reports errors and a full queue, in the stream or before it, what its
// pages show, whether it loads models, how it splits a tool call.
//
// Its parts, which know neither connections nor requests, are: profile (the differences between
// engines), pages (what engines show and answer, as templates), generate (what is requested and
// what is said), fault (what goes wrong, and when), scheduler (slots, room, prefix cache), textgen
// (what a model makes up), audio (forms, transcripts and sound) and wire (JSON and events in their
// written form).
//
// # The engine
//
// The path of a request:
//
//	accept ── head ── body ── checks ── queue ── slot ── prefill ── decode ── answer
//	  │        │       │                  │        │        │         │
//	  faults   faults  faults             first    head of  (prompt − cached) / PrefillRate
//	  refuse   early-  all                come,    a stream + Latency         1 / TokenRate a token
//	  noread   413     others             first
//	                                      served
//
// With Options.Priorities the lowest priority is served first (SGLang: the highest). While a
// request waits for a slot nothing is sent. A client that leaves, by FIN or RST, frees its place at
// once in every phase, streamed or not; Options.CancelOnlyStreams is the exception, as in
// llama.cpp. The text is a chain of words that depends only on prompt and seeds, contains umlauts,
// emoji, quotes and backslashes, and never repeats the prompt unless told to. A token is a word, or
// a few letters of JSON; a prompt has one token for every four bytes; the prefix cache works on
// blocks of 16.
//
// Recordings of real engines test whether the simulator still matches them: testdata/recorded holds
// requests and answers, and TestRecorded compares status, header lines, members, their types and
// the order of events. Known differences are listed in the recording's file.
//
// The prefix cache forgets the least recently used blocks, and of one prompt the last ones first.
// Its size, which is that of the room unless CacheTokens overrides it, is on the engine's pages,
// and so are the numbers of tokens requested and found. A crash empties it.
//
// The batch matters: each running request adds BatchCost to the time between two tokens of all of
// them, SharedPrefill reads the prompts one after another, and KVTokens limits what all of them
// hold, where a shared block counts once. A request that does not fit waits at the head of the
// queue; when answers outgrow the room, the youngest request loses its place and must read
// everything again when it returns. The savings of the prefix cache are in
// usage.prompt_tokens_details.cached_tokens and in the metrics, and so are preemptions. Events
// change all this at set times: stalls, slowness, fewer slots, a crash and a restart; drills are
// lists of them. `penstock sim --events` lists both.
//
// Endpoints: chat completions, Messages and Responses, completions, embeddings, rerank, score,
// classify, pooling, moderations, tokenize and detokenize with made-up numbers, speech,
// transcriptions, and each profile's own pages for health, models, load and metrics. A page, or a
// kind of work, that the real engine does not have is also 404 here (200 for LM Studio, which says
// so), so that detection can be tested. Every profile has /sim/, which distinguishes a simulator
// from an engine.
//
// # Control
//
// A test in the same process uses the methods of Engine: SetFault, SetHealthy, SetModels, SetSlots,
// Do, Drop, Unlisten, Stats, Recorded. From outside:
//
//	POST /sim/fault   {"fault":"cut-after=3","count":1,"after":0,"share":0.5,"path":"/v1/"}, or a list of them; {} clears
//	POST /sim/reset   faults, counters, record, cache and health as at the start
//	POST /sim/health  {"healthy":false}
//	POST /sim/models  {"models":["a","b"]}
//	POST /sim/slots   {"slots":4}
//	POST /sim/event   {"do":"stall=1s"}: an event, now
//	POST /sim/drop    {"share":0.5,"reset":true}: closes that part of the connections
//	GET  /sim/stats, /sim/requests (with Options.Record), /sim/faults
//
// A vLLM also accepts its own /v1/load_lora_adapter and /v1/unload_lora_adapter.
//
// A request can ask for its own treatment by headers (X-Sim-Fault, X-Sim-Tokens, X-Sim-Reasoning,
// X-Sim-TTFT, X-Sim-Delay, X-Sim-Echo), by a JSON member
//
//	"sim": {"fault":"…", "tokens":50, "reasoning":8, "ttft_ms":100, "delay_ms":20, "text":"say this", "echo":true,
//	        "tool_calls":2, "speak":true, "secret":true, "finish":"length"}
//
// or, for dialects whose translation drops unknown members, by [[sim {"tokens":50}]] with the same
// members in the text of the last user message. A fault by header overrides one by body, which
// overrides the schedule.
//
// With "secret" the model thinks of a number before it speaks or calls a tool. After a tool's
// result it tells the number if the history's reasoning has it under the name that the engine
// reads, and otherwise that it has forgotten it.
//
// # Design
//
// The server is our own, on net.Conn, because it must be able to write what a correct library never
// would, and because libraries hide a client's departure. Each connection has one goroutine that
// always reads and, during a request, a second one that waits and writes: the blocked read is the
// watch. Timers are the runtime's: a token was measured to cost about 7 µs, nearly all of it for
// the write, and a timer wheel would save little. net/http's server was too slow for load tests,
// and fasthttp's cannot see a client leave.
//
// An exchange consists of parts: clientWatch waits for a time and for the client's departure,
// bodyWriter frames the body, and eventWriter puts events into it. Faults are data (package fault)
// that these parts consult; misbehave.go performs the rest.
package sim
