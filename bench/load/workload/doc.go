// Package workload creates the requests of a run and determines when they are due.
//
// The n-th request depends only on seed, nonce and n. A prompt consists of a mark that no cache
// contains, followed by words that are single tokens in nearly every vocabulary. Requests that are
// to share a prefix start with the run's mark. The preflight measures the number of words per
// token, so prompts have the requested length even without a tokenizer.
//
// A Pacer determines the arrivals of an open loop: gamma-distributed, constant, ramp or trace. If
// the number of requests is given, the arrival times are scaled as in vLLM's tool, so that the last
// arrival matches the rate.
package workload
