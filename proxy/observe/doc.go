// Package observe is what an operator sees of the calls: metrics, the access log and the process log's sink.
//
// # Design
//
// One Record per call. The request path fills a Record as it goes, and Calls.Finish turns it into metrics and one log
// line in one place. Nothing else in the edge counts calls.
//
// Labels come from the configuration only. A model is a label once it has been resolved to a configured id; until then it
// is "-". Keys, request ids and anything a client wrote are never labels, so no client can add a series.
//
// Nothing of a client is ever written: the Record has no field for a prompt, a reply, a path or a header.
//
// Handles are looked up by a small struct in a sync.Map instead of by a metric's name, because building the name would
// cost more than counting.
//
// Latencies are cumulative `le` histograms (PrometheusHistogram), so that plain Prometheus can compute quantiles.
//
// The log is written by one goroutine from a bounded buffer (Sink). A slow disk or a blocked pipe makes it drop lines and
// count them; it never makes a request wait.
package observe
