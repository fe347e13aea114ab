// Package sim is a simulated inference engine: what the edge is tested against, what it is
// load-tested against, and what answers when a newcomer starts it with no engine at hand.
//
// It speaks the engines' HTTP and not ours, and it imports nothing of ours: it is the oracle of the
// end-to-end tests, so it has to be wrong independently. What it says about each engine was seen on
// the wire of that engine, read in its source or its documentation (package profile says which),
// and its habits go with it: how it tells errors and a full queue, in the stream or before it, what
// its pages show, whether it loads models, how it cuts a tool call.
//
// Below it lie its parts, which know neither connections nor requests: profile (what tells one
// engine from another), pages (what engines show and answer, as templates), generate (what is asked
// for, and what is said), fault (what goes wrong, and when), scheduler (slots, room, prefix cache),
// textgen (what a model makes up), audio (forms, transcripts and sound) and wire (JSON and events
// as they are written).
//
// # The engine
//
// A request takes this way:
//
//	accept ── head ── body ── checks ── queue ── slot ── prefill ── decode ── answer
//	  │        │       │                  │        │        │         │
//	  faults   faults  faults             first    head of  (prompt − cached) / PrefillRate
//	  refuse   early-  all                come,    a stream + Latency         1 / TokenRate a token
//	  noread   413     others             first
//	                                      served
//
// With Options.Priorities the lowest priority is served first (SGLang: the highest). While it waits
// for a slot nothing is sent. A client that leaves, by FIN or RST, frees its place
// at once in every phase, streamed or not; Options.CancelOnlyStreams is the exception that
// llama.cpp makes. The text is a chain of words that follows from prompt and seeds alone, with
// umlauts, emoji, quotes and backslashes in it, and never repeats the prompt unless told to. A
// token is a word, or a few letters of JSON; a prompt has a token for every four bytes; the prefix
// cache works on blocks of 16.
//
// Whether the simulator still says what an engine says is tested against recordings of real ones:
// testdata/recorded holds requests and answers, and TestRecorded compares status, header lines,
// members, their types and the order of events. What is known to differ stands in the recording's
// file.
//
// The prefix cache forgets the least recently used blocks, of a prompt the last ones first. Its size,
// that of the room unless CacheTokens says otherwise, is on the engine's pages, as are the tokens that were asked
// for and found. A crash empties it.
//
// The batch matters: each running request adds BatchCost to the time between two tokens of all of
// them, SharedPrefill puts the prompts into one line, and KVTokens bounds what all of them hold, a
// block that several share once. A request that finds no room waits at the head of the queue; when
// answers outgrow the room the youngest one loses its place and reads everything again when it is
// back. What the prefix cache
// saved is in usage.prompt_tokens_details.cached_tokens and in the metrics, and so are preemptions.
// Events change all this at a time: stalls, slowness, fewer slots, a crash and a restart; drills
// are lists of them. `penstock sim --events` tells both.
//
// Endpoints: chat completions, Messages and Responses, completions, embeddings, rerank, score,
// classify, pooling, moderations, tokenize and detokenize with made-up numbers, speech,
// transcriptions, and each profile's own pages for health, models, load and metrics; a page, or a
// kind of work, that the real engine does not have is 404 here too (200 for LM Studio, which says
// so), so that detection can be tested. /sim/ is on every profile and tells a simulator from an
// engine.
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
// A vLLM also takes its own /v1/load_lora_adapter and /v1/unload_lora_adapter.
//
// A request can ask for its own treatment: by headers (X-Sim-Fault, X-Sim-Tokens, X-Sim-Reasoning,
// X-Sim-TTFT, X-Sim-Delay, X-Sim-Echo), by a JSON member
//
//	"sim": {"fault":"…", "tokens":50, "reasoning":8, "ttft_ms":100, "delay_ms":20, "text":"say this", "echo":true,
//	        "tool_calls":2, "speak":true, "secret":true, "finish":"length"}
//
// or, for dialects whose translation drops unknown members, by [[sim {"tokens":50}]] with the same
// members in the text of the last user message. A fault by header wins over one by body, that one
// over the schedule.
//
// With "secret" the model thinks of a number before it speaks or calls a tool. Behind a tool's
// result it tells the number, if the history's reasoning has it under the name that the engine
// reads, and that it has forgotten it otherwise.
//
// # Design
//
// The server is our own, over net.Conn, because it must be able to write what a correct library
// never would, and because libraries hide a client's farewell. Each connection has one goroutine
// that reads, always, and a second one while a request is in hand that waits and writes: the
// blocked read is the watch. Timers are the runtime's; measured, a token costs about 7 µs, nearly
// all of it the write, and a wheel would save little. net/http's server was too slow for load
// tests, fasthttp's cannot see a client leave.
//
// An exchange has parts of its own: clientWatch waits for a time and for the client's farewell,
// bodyWriter frames, eventWriter puts events into it. Faults are data (package fault) that these
// parts look at; misbehave.go acts out the rest.
package sim
