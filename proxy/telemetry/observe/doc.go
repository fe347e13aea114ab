// Package observe reports calls to the operator through metrics, the access log and traces.
//
// # Design
//
// Each call has one Record. The request path fills the Record during the call, and Calls.FinishCall
// converts it to metrics and one log line.
//
// Labels come only from the configuration. A model becomes a label when it has been resolved to a
// configured id; until then the label is "-". Secrets, request ids and client text are never
// labels, so no client can add a series.
//
// Client text is never written: the Record has no field for a prompt, a reply, a path or a header.
// If the configuration enables them, the Record also contains the client's address (log.client) and
// a keyed hash of the client's session (log.sessions).
//
// Metrics are looked up by a small struct, because building the name of a metric would cost more
// than counting. The lookup maps are read without a lock and copied when they grow. If a reload
// removes a name, the name's series are dropped, and calls that end later are counted under "-". A
// removed upstream's counts are not added to "-", because PromQL's rate() and increase() would show
// the added counts as a burst of calls.
//
// One table lists every metric (families.go) with its type and its description. The metrics page is
// generated from this table, and the dashboard and the alert rules are tested against it.
//
// The status page shows calls from a ring of fixed size (recent.go), counts of reasons
// (reasons.go), and short histories of models at upstreams (history.go, summarized by summary.go).
//
// Latencies are cumulative `le` histograms (PrometheusHistogram), so that plain Prometheus can
// compute quantiles.
//
// Traces are disabled unless an endpoint is configured. If there is an endpoint, each call and each
// of its attempts has a span. An attempt's span starts before the request is sent, because the
// engine must receive the span id. Ended spans wait in the SDK's batch processor. The edge itself
// limits and counts them (otlp.go), because the processor does not report how many spans it loses.
//
// The log is written by one goroutine from a bounded buffer (LogSink). If a disk is slow or a pipe
// is blocked, the LogSink drops and counts lines, but never makes a request wait.
package observe
