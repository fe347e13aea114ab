// Package observe makes calls visible to an operator: by metrics, the access log and traces. It
// also has the sink of the process log.
//
// # Design
//
// One Record per call. The request path fills a Record during the call, and Calls.Finish turns it
// into metrics and one log line. No other code of the edge counts calls.
//
// Labels come only from the configuration. A model becomes a label once it is resolved to a
// configured id; until then the label is "-". Secrets, request ids and clients' text are never
// labels, so no client can add a series.
//
// No client's text is ever written: the Record has no field for a prompt, a reply, a path or a
// header. If the configuration says so, the Record holds the client's address (log.client) and a
// keyed hash of the client's session (log.sessions).
//
// Handles are looked up by a small struct, because building a metric's name would cost more than
// counting. The lookup maps are read without a lock and copied when they grow. Counting and keeping
// a call allocates nothing. A reload drops the series of the names that it removes, and a call that
// ends later is counted under "-". The counts of a removed upstream are not added to "-", because
// rate and increase would show that as a burst of calls. The end of a series does no harm.
//
// One table holds every metric (families.go) with its type and its description. The page is written
// from that table, and the dashboard and the alert rules are tested against it. OpenMetrics
// (openmetrics.go) is the same page with other headers.
//
// The status page shows calls from a fixed ring (recent.go), counts of reasons (reasons.go), and
// short histories of models at upstreams (history.go, summed up by outlook.go). Usage holds the
// amounts that keys are charged for. Finish feeds all of these from the same Record.
//
// Latencies are cumulative `le` histograms (PrometheusHistogram), so that plain Prometheus can
// compute quantiles.
//
// Traces are off unless an endpoint is configured. If one is, each call and each of its attempts
// has a span. A span starts early, because the engine must get the span's id. Ended spans wait in
// the SDK's batch processor. The edge itself limits and counts them (otlp.go), because the
// processor does not report how many spans it loses. A request without a valid key has no span, so
// that strangers cannot fill the endpoint.
//
// The log is written by one goroutine from a bounded buffer (Sink). If a disk is slow or a pipe is
// blocked, it drops lines and counts them, but never makes a request wait.
package observe
