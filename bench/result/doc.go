// Package result defines the result file of a load tester run: its types, how they are written and
// read, and the names of its numbers. A test generates its JSON Schema (result.schema.json) from
// the types and their comments.
//
// The top level of a Result has the flat keys of vLLM's serving benchmark, so that scripts and
// dashboards for those keys work; everything else is in one object, "penstock". A Record is one
// line of the JSONL, about one request. Neither holds a prompt, a reply, a key or any other text of
// a server, except closed words: error codes are reduced to the letters of an identifier. A measure
// that was not taken is null with a reason, never 0.
//
// A Key names one number (p99_ttft_ms, error_rate) for assertions, comparisons and the flat keys.
// Percentiles are interpolated between ranks, as in numpy and vLLM's tool; the histogram's 3 digits
// bound their error at 0.1 %.
//
// The package does not measure anything: package load makes results, compare and report read them.
package result
