// Package bench is the load tester: it drives any server that speaks the OpenAI or the Messages dialects, measures what its
// clients would see, and says whether the numbers can be trusted.
//
// # What a number means
//
// Every request has three clocks: when the schedule wanted it (scheduled), when the client began to send it, a new connection
// included (sent), and when answers came. Latencies are given from both, always: from sent is what vLLM's tool and its kin print,
// from scheduled is what a user would have felt who came at that moment. A client that waits for a free slot, or for its own
// processor, shows in the difference.
//
//	TTFT   first token - sent        first token: text, reasoning or part of a tool call, whichever comes first; of speech the first
//	                                 byte of sound, which in a WAV file is the one behind its head
//	TTFV   first visible - sent      first token that is text or part of a tool call
//	ITL    gaps between tokens       one sample per read that brought tokens, pooled over requests (as vLLM and SGLang have it)
//	TPOT   (last - first) / (n - 1)  one sample per request with n > 1 output tokens; the first token is not in it
//	E2EL   end - sent                end: the last byte of the answer
//	queue  what the edge says in X-Penstock-Queue-Ms (its log.debug_headers)
//
// A measure that was not taken is null with a reason, never 0. Transcriptions are asked for as streams; a target that refuses that, or
// answers whole nevertheless, is asked for whole ones, and the verdict says so.
//
// # How a run goes
//
//	options ── check ─── preflight ── floor ── drive ───────────────────────── result ── judge ── text, files
//	 flags     checks,   reachable?   client   stages, each: pacer or           summary   verdict
//	           defaults  key? model?  alone    closed loop → workload →
//	                     tokens a word         exchange → sample
//	                                           beside it: meter, scrapers, events
//
// Everything wrong that can be known before the load is said before it, in one line (exit code 2). A stage ends with its last
// answer; the next one begins on an idle target. The preflight sends two short requests of each dialect, which also tells how many
// words of ours make a token, so that lengths are met without a tokenizer. Tokens are counted by the server: its usage, else its
// /tokenize page (asked after each answer, which a closed loop then waits for), else an estimate that is called one.
//
// # The result file
//
// Result has the flat keys of vLLM's serving benchmark at the top, so that scripts and dashboards that read those work, and
// everything else in one object, "penstock". result.schema.json is its JSON Schema (2020-12). Record is one line of the per-request JSONL.
//
// Neither holds a prompt, a reply, a key or anything else that a server said but for closed words: error codes are cut to
// letters of an identifier.
//
// # Around a run
//
// A scenario (scenarios/*.yaml) is flags of `bench run` with a name, and a fleet: simulated engines and an edge, started as child
// processes of this very program, so that one command rehearses a failover or a reload. Its events act on that fleet: KILL to an
// engine's process, a new configuration for the edge. Overhead starts nginx and HAProxy in the same way, in turn with the edge;
// each has a processor to itself, while client and engine have the others.
//
// Compare sets two results side by side. Every difference has a bootstrap interval, from the histograms for latencies, from the time
// series in blocks for rates, from the counts for shares; the gaps of one request are not independent, so ITL counts as one sample a
// request. A latency that differs by less than the clients' own floor (its p99, of the worse run) is not called better or worse, and
// what differs in the load itself is told in notes. Assert and Regress turn that into an exit code. WriteHTML draws a result.
//
// # Design
//
//   - A goroutine for each request in flight, blocked in a read; the clock is read once for each read of the socket, and events are
//     parsed in place. Measured on the machine of the project while it was overloaded: 5,000 streams of 2 tokens/s each on one core
//     cost 14 µs of processor time per token, all of the client included. fasthttp parses heads; the rest of the client is our own,
//     because a library would hide which bytes came in which read.
//   - Of several token events in one read only the first has a time. The others count as coalesced, and make no gap: tools that book
//     them as gaps of microseconds report a median ITL that no user ever saw.
//   - A request is made before it is due and its body encoded, so that long prompts do not delay the schedule.
//   - An idle connection that the server has closed meanwhile is replaced once, as every HTTP client does; it is no failure, and its
//     time counts.
//   - Samples are kept, one for each request (some 300 bytes), because groups, comparisons and events are looked at afterwards. Gaps
//     are not: they go into an HdrHistogram for each stage, dialect and upstream at once, unless --save-detailed asks for them.
//   - Percentiles are interpolated between ranks, as numpy does and so vLLM's tool; the histogram's 3 digits bound their error at 0.1 %.
//   - The text of a prompt is words that are one token each in nearly every vocabulary, behind a mark that no cache knows. Requests
//     that share a prefix on purpose have the mark of the run before it.
//   - The verdict reads the finished result and nothing else, so that every finding can be checked against the file.
//   - The client is saturated when its processor time and the time in which it waited for a processor add up to all that it may use:
//     beside a busy engine on the same machine the first alone stays far below that.
//   - What a run starts ends with it, even when it is killed (Linux), and is not reached by Ctrl-C, so that the report is not one of
//     engines that died first.
//   - Failures that belong to a test are named (--expect-errors); everything else still makes the result not valid.
//   - A closed loop has no schedule: its requests are scheduled at the moment at which a client is free.
//
// The bootstrap draws every bucket of a histogram as a Poisson count instead of drawing samples: a million gaps cost what a thousand
// buckets cost, and result files need not hold samples. The price is that samples of one burst look independent.
//
// The report is a template, one style sheet and one script beside a copy of uPlot, all embedded, under a policy that forbids the
// page to load anything. The script knows lines and axes; what they mean is decided in report_plots.go. Tables are HTML, so
// the page reads without the script.
//
// Scenarios become flags before the command line is parsed: what they do can be said, changed and repeated without them.
package bench
