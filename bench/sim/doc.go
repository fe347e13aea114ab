// Package sim is a simulated inference engine. The edge is tested and load-tested against it, and a
// newcomer without an engine can use it.
//
// It speaks the engines' HTTP and imports none of our code: it is the oracle of the end-to-end
// tests, so its errors must be independent of ours. The behaviour of each simulated engine was
// observed on that engine's wire, or read in its source or documentation (package profile says
// which). The engine's habits are included: whether it reports errors and a full queue in the
// stream or before the stream, what its pages show, whether it loads models, and how it splits a
// tool call.
//
// Its subpackages, which know neither connections nor requests, are profile (the differences
// between engines), pages (what engines show and answer, as templates), generate (the request and
// the text of the answer), fault (what goes wrong, and when), scheduler (slots, room, prefix
// cache), textgen (made-up text), audio (forms, transcripts and audio) and wire (JSON and events as
// they are sent).
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
// request waits for a slot nothing is sent. A client that leaves, by FIN or RST, frees its slot at
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
// The prefix cache evicts the least recently used blocks, and the last blocks of a prompt before
// its first ones. Its size is the same as the room for tokens unless CacheTokens overrides it. The
// engine's pages show the size and how many tokens were requested and found. A crash empties it.
//
// The batch matters: each running request adds BatchCost to every request's time between tokens,
// SharedPrefill reads the prompts one after another, and KVTokens limits the tokens that all
// requests hold together, where a shared block counts once. A request that does not fit waits at
// the head of the queue. When answers outgrow the room, the youngest request is preempted. It must
// read its prompt again when it returns. usage.prompt_tokens_details.cached_tokens and the metrics
// show how many tokens the prefix cache saved. The metrics also count preemptions. Events change
// all this at set times: stalls, slowness, fewer slots, a crash and a restart. A drill is a list of
// events. `penstock sim --events` lists both.
//
// Endpoints: chat completions, Messages and Responses, completions, embeddings, rerank, score,
// classify, pooling, moderations, tokenize and detokenize with made-up numbers, speech,
// transcriptions, and each profile's own pages for health, models, load and metrics. A page or a
// kind of work that the real engine lacks is also answered with 404 here (by LM Studio with 200 and
// an error text), so that detection can be tested. Every profile has /sim/, which distinguishes a
// simulator from an engine.
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
// result it tells the number if the history's reasoning contains the number under the name that the
// engine reads. Otherwise it says that it has forgotten the number.
//
// # Design
//
// The server is our own, on net.Conn, because the simulator must write bytes that a correct library
// would never write, and because libraries hide a client's departure. Each connection has one
// goroutine that always reads and, during a request, a second one that waits and writes: the
// blocked read notices a departure. The runtime's timers are used: a token was measured to cost
// about 7 µs, nearly all of it for the write, so a timer wheel would save little. net/http's server
// was too slow for load tests, and fasthttp's cannot see a client leave.
//
// An exchange has three components: clientWatch waits for a time or the client's departure,
// bodyWriter frames the body, and eventWriter puts events into the body. Faults are data (package
// fault) that these components consult; misbehave.go performs the other faults.
package sim
