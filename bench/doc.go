// Package bench is the load tester: it drives any server that speaks the OpenAI or the Messages dialects, measures what its
// clients would see, and says whether the numbers can be trusted.
//
// # What a number means
//
// Every request has three clocks: when the schedule wanted it (scheduled), when the client began to send it, a new connection
// included (sent), and when answers came. Latencies are given from both, always: from sent is what vLLM's tool and its kin print, from scheduled is what
// a user would have felt who came at that moment. A client that waits for a free slot, or for its own processor, shows in the
// difference.
//
//	TTFT   first token - sent        first token: text, reasoning or part of a tool call, whichever comes first
//	TTFV   first visible - sent      first token that is text or part of a tool call
//	ITL    gaps between tokens       one sample per read that brought tokens, pooled over requests (as vLLM and SGLang have it)
//	TPOT   (last - first) / (n - 1)  one sample per request with n > 1 output tokens; the first token is not in it
//	E2EL   end - sent                end: the last byte of the answer
//	queue  what the edge says in X-Penstock-Queue-Ms (its log.debug_headers)
//
// A measure that was not taken is null with a reason, never 0.
//
// # The result file
//
// Result has the flat keys of vLLM's serving benchmark at the top, so that scripts and dashboards that read those work, and
// everything else in one object, "penstock". result.schema.json describes it. Record is one line of the per-request JSONL.
//
// Neither holds a prompt, a reply, a key or anything else that a server said but for closed words: error codes are cut to
// letters of an identifier.
package bench
