// Package sim is a simulated inference engine. It is used for tests and load tests of the edge. It
// also lets newcomers try the edge without a real engine.
//
// The simulator implements the HTTP of engines and imports no code of the edge. It is the oracle of
// the end-to-end tests, so its errors must be independent of the edge's errors. The behaviour of
// each simulated engine was observed on the wire, or read in the engine's source or documentation
// (see package profile). The simulator also reproduces the peculiarities of each engine. For
// example, engines differ in whether they report errors in the stream or before it, in the contents
// of their pages, and in how they split a tool call.
//
// These subpackages do not depend on connections or HTTP requests:
//
//   - profile: the differences between engines
//   - pages: templates of the engines' pages and responses
//   - generate: decoding of requests and the text of responses
//   - fault: faults and their schedule
//   - scheduler: slots, room and the prefix cache
//   - textgen: made-up text
//   - audio: forms, transcripts and audio
//   - wire: JSON and events in the form in which they are sent
//
// # The engine
//
// A request passes through these phases:
//
//	accept ── head ── body ── checks ── queue ── slot ── prefill ── decode ── answer
//	  │        │       │                  │        │        │         │
//	  faults   faults  faults             first    head of  (prompt − cached) / PrefillRate
//	  refuse   early-  all                come,    a stream + Latency         1 / TokenRate a token
//	  noread   413     others             first
//	                                      served
//
// If Options.Priorities is set, vLLM serves the request with the lowest priority number first, and
// SGLang the one with the highest. Nothing is sent while a request waits for a slot. When a client
// leaves, by FIN or RST, its slot is freed immediately. This happens in every phase, whether or not
// the response is streamed. Options.CancelOnlyStreams selects llama.cpp's behaviour instead. The
// text is a chain of words that depends only on the prompt and the seeds. It contains umlauts,
// emoji, quotes and backslashes. It repeats the prompt only if the request demands an echo. A token
// is a word, or a few letters of JSON. A prompt has one token for every four bytes of text. The
// prefix cache works on blocks of 16 tokens.
//
// Recordings of real engines, in testdata/recorded, show that the simulator matches them.
// TestRecorded sends the recorded requests to the simulator. It compares the status, the header
// lines, the members and their types, and the order of events with the recorded responses. Each
// recording lists its known differences.
//
// The prefix cache evicts the least recently used blocks. Within a prompt, it evicts the last
// blocks before the first ones. Its size equals the room for tokens, unless CacheTokens sets a
// different size. The engine's pages, such as its metrics, show the size of the cache, how many
// tokens were looked up in it, and how many of them were found. A crash empties the cache.
//
// How long a request takes depends on the other running requests. For each additional running
// request, BatchCost extends the time between two tokens of every request. If SharedPrefill is set,
// prompts are read one after another. KVTokens limits the total number of tokens of all running
// requests. A shared block counts once. A request that does not fit into the remaining room waits
// at the head of the queue. When responses outgrow the room, the youngest request is preempted.
// When the request resumes, it must read its prompt again. The metrics and
// usage.prompt_tokens_details.cached_tokens show how many tokens the prefix cache saved. The
// metrics also count preemptions. Events change the engine at set times. They can stall it, slow it
// down, remove slots, or crash and restart it. A drill is a list of events. `penstock sim --events`
// lists both.
//
// The engine serves chat completions, Messages, Responses, completions, speech and transcriptions.
// It also serves embeddings, rerank, score, classify, pooling and moderations. In addition, it
// serves tokenize and detokenize with made-up token ids. The profile determines the pages for
// health, models, load and metrics. Pages and endpoints that the real engine lacks are answered
// with 404, so that detection can be tested. LM Studio answers them with 200 and an error text.
// Every profile also serves /sim/, which no real engine does.
//
// # Control
//
// A test in the same process uses the methods of Engine: SetFault, SetHealthy, SetModels, SetSlots,
// PerformAction, DropConns, Unlisten, Stats and Recorded. Other processes use HTTP:
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
// The profile vllm also accepts vLLM's /v1/load_lora_adapter and /v1/unload_lora_adapter.
//
// A request can control its response with headers (X-Sim-Fault, X-Sim-Tokens, X-Sim-Reasoning,
// X-Sim-TTFT, X-Sim-Delay, X-Sim-Echo) or with a JSON member:
//
//	"sim": {"fault":"…", "tokens":50, "reasoning":8, "ttft_ms":100, "delay_ms":20, "text":"say this", "echo":true,
//	        "tool_calls":2, "speak":true, "secret":true, "finish":"length"}
//
// When the edge translates a dialect, it may drop unknown members. The text of the last user
// message may therefore contain the same members, as in [[sim {"tokens":50}]]. A fault in a header
// takes precedence over a fault in the body, and either takes precedence over the schedule.
//
// If "secret" is set, the model thinks of a number before it speaks or calls a tool. After a tool
// result, the model looks for the number in the reasoning in the history. If it finds the number,
// it says the number. Otherwise, it says that it has forgotten the number.
//
// # Design
//
// The server is built on net.Conn for two reasons. The simulator must write bytes that a correct
// library would never write, and a library would hide that a client has left. Each connection has a
// goroutine that always reads. During a request, a second goroutine waits and writes. The blocked
// read detects that a client has left. Waits use the runtime's timers. A token costs about 7 µs,
// nearly all of it for the write, so a timer wheel would save little. The server in net/http was
// too slow for load tests, and the server in fasthttp cannot detect that a client has left.
//
// An exchange has three components. clientWatch waits until a given time or until the client
// leaves. bodyWriter frames the body. eventWriter writes events into the body. Faults are data
// (package fault) that these components consult. The file inject_faults.go injects the other
// faults.
package sim
