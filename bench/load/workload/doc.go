// Package workload creates the requests of a run and determines when they are due.
//
// Request number n depends only on the seed, the nonce and n. A prompt consists of a mark that no
// cache contains, followed by words that are single tokens in nearly every vocabulary. Requests
// with a shared prefix start with a mark that is the same for the whole run. The preflight measures
// the number of words per token, so prompts have the requested length even though there is no
// tokenizer.
//
// A Pacer determines when the requests of an open loop arrive. Arrivals are gamma-distributed,
// constant, on a ramp, or replayed from a trace. If the number of requests is given, the arrival
// times are scaled as in vLLM's tool, so that the last arrival matches the rate.
package workload
