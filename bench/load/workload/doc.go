// Package workload creates the requests of a run and determines when they are due.
//
// The n-th request depends only on seed, nonce and n, not on when it is created. The text of a
// prompt is a mark that no cache holds, followed by words that are one token each in nearly every
// vocabulary. Requests that deliberately share a prefix begin with the run's mark. The preflight
// measures how many of our words make a token, so that lengths are met without a tokenizer.
//
// A Pacer draws the arrivals of an open loop: gamma, constant, a ramp, or from a trace. If the
// number of requests is given, the arrival times are scaled so that the last one matches the rate,
// as vLLM does.
package workload
