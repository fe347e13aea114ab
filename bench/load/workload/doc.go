// Package workload creates the requests of a run and determines when they are due.
//
// The n-th request depends only on seed, nonce and n. A prompt consists of a mark that no cache
// contains, followed by words that are single tokens in nearly every vocabulary. Requests that are
// meant to share a prefix start with the run's mark. The preflight measures how many words make a
// token, so that lengths are met without a tokenizer.
//
// A Pacer determines the arrivals of an open loop. It is gamma, constant, ramp or trace. If the
// number of requests is given, the arrival times are scaled as in vLLM's tool, so that the last
// arrival matches the rate.
package workload
