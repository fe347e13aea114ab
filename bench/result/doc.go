// Package result defines the result file of a load test: its types, how to write and read them, and
// the names of its numbers. A test generates the file's JSON Schema (result.schema.json) from the
// types and their comments.
//
// The top level of a Result has the flat keys of vLLM's serving benchmark, so scripts and
// dashboards for those keys work. Everything else is in one object, "penstock". A Record is one
// line of the JSONL file and describes one request. Neither contains a prompt, a response, a key or
// any other text from a server, except identifiers such as error codes. A measure that was not
// taken is null, and the reason is given. It is never 0.
//
// A Key names a number (p99_ttft_ms, error_rate) for assertions, comparisons and the flat keys.
// Percentiles are interpolated between ranks, as in numpy and vLLM's tool. The 3 digits of the
// histogram limit their error to 0.1 %.
//
// Package load creates results, and packages compare and report read them.
package result
