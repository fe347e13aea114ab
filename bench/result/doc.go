// Package result is the file that a run of the load tester leaves: its types, how they are written
// and read, and the names of the numbers in it. Its JSON Schema (result.schema.json) is made from
// the types and their comments by a test.
//
// The top level of a Result has the flat keys of vLLM's serving benchmark, so that scripts and
// dashboards that read those work; everything else is in one object, "penstock". A Record is one
// line of the JSONL, about one request. Neither holds a prompt, a reply, a key or anything else
// that a server said but for closed words: error codes are cut to letters of an identifier. A
// measure that was not taken is null with a reason, never 0.
//
// A Key names one number (p99_ttft_ms, error_rate): assertions, comparisons and the flat keys have
// it in common. Percentiles are interpolated between ranks, as numpy does and so vLLM's tool; the
// histogram's 3 digits bound their error at 0.1 %.
//
// The package knows nothing of how a result comes to be: load makes it, compare and report read it.
package result
