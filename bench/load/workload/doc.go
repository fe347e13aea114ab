// Package workload creates the requests of a run and determines when they are due.
//
// The n-th request depends only on seed, nonce and n, not on when it is requested. The text of a
// prompt consists of words that are one token each in nearly every vocabulary, after a mark that is
// in no cache. Requests that deliberately share a prefix have the mark of the run before it. The
// preflight measures how many of our words make a token, so that lengths are met without a
// tokenizer.
//
// A Pacer draws the arrivals of an open loop: gamma, constant, a ramp, or from a trace. With a
// number of requests, times are scaled so that the last one matches the rate, which is vLLM's rule.
package workload
