// Package workload makes the requests of a run, and says when they are due.
//
// What the n-th request is depends on seed, nonce and n alone, not on when it is asked for. The
// text of a prompt is words that are one token each in nearly every vocabulary, behind a mark that
// no cache knows; requests that share a prefix on purpose have the mark of the run before it. The
// preflight measures how many words of ours make a token, so that lengths are met without a
// tokenizer.
//
// A Pacer draws the arrivals of an open loop: gamma, constant, a ramp, or those of a trace. With a
// number of requests the times are scaled so that the last one falls where the rate says, which is
// vLLM's rule.
package workload
