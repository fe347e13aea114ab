// Package result defines the result file of a load test: its types, how to write and read the file,
// and the names of its numbers. A test generates the file's JSON Schema (result.schema.json) from
// the types and their comments.
//
// The top level of a Result has the flat keys of vLLM's serving benchmark, so scripts and
// dashboards for those keys work. Everything else is in one object, "penstock". A Record is one
// line of the JSONL file and describes one request. Neither contains a prompt, a response, a key or
// any other text from a server, except identifiers such as error codes. A measure that was not
// taken is null, never 0, and the file gives the reason.
//
// A Key names a number (p99_ttft_ms, error_rate) for assertions, comparisons and the flat keys.
// Percentiles are interpolated between ranks, as in numpy and vLLM's tool. Histograms have 3
// significant digits, which limits the error to 0.1 %.
//
// Package load creates results, and packages compare and report read them.
package result
