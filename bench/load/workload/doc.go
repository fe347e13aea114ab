// Package workload creates the requests of a run and determines when they are due.
//
// The n-th request depends only on seed, nonce and n, not on when it is created. The text of a
// prompt is a mark that no cache holds, followed by words that are one token each in nearly every
// vocabulary. Requests that deliberately share a prefix start with the run's mark. The preflight
// measures the number of our words per token, so lengths are met without a tokenizer.
//
// A Pacer draws the arrivals of an open loop: gamma, constant, a ramp, or from a trace. If the
// number of requests is given, the arrival times are scaled as in vLLM's tool, so that the last one
// matches the rate.
package workload
