// Package observe is what an operator sees of the calls: metrics, the access log and the process
// log's sink.
//
// # Design
//
// One Record per call. The request path fills a Record as it goes, and Calls.Finish turns it into
// metrics and one log line in one place. Nothing else in the edge counts calls.
//
// Labels come from the configuration only. A model is a label once it has been resolved to a
// configured id; until then it is "-". Keys, request ids and anything a client wrote are never
// labels, so no client can add a series.
//
// Nothing that a client says is ever written: the Record has no field for a prompt, a reply, a path
// or a header. It can hold the client's address, if the operator wants that (log.client), and a
// keyed hash of the client's session (log.sessions).
//
// Handles are looked up by a small struct in maps that are read without a lock and copied to grow,
// because building a metric's name would cost more than counting. Counting and remembering a call
// allocates nothing. A reload drops the series of what it removes; a call that ends later is
// counted under "-". The counts of a removed upstream are not added to "-": rate and increase would
// take that for a burst of calls, while a series that ends does no harm.
//
// One table holds every metric (families.go) with its type and its description. The page is written
// from that table, so a metric without a description is not exported; the dashboard and the alert
// rules are tested against it. OpenMetrics (openmetrics.go) is the same page with different heads.
//
// What the status page shows of calls comes from a fixed ring and counts of reasons (recent.go,
// reasons.go) and from the short histories of models at upstreams (history.go, summed up by
// outlook.go). Usage holds what is charged. Finish feeds all of them from the same Record.
//
// Latencies are cumulative `le` histograms (PrometheusHistogram), so that plain Prometheus can
// compute quantiles.
//
// Traces are off unless an endpoint is configured. Then a call and each of its attempts is a span,
// which begins early because the engine must get its id. Ended spans wait in a bounded queue for
// one goroutine. The SDK's own batcher is not used because it does not tell how many spans it lost.
// A request without a valid key has no span, so that strangers cannot fill the endpoint.
//
// The log is written by one goroutine from a bounded buffer (Sink). A slow disk or a blocked pipe
// makes it drop lines and count them; it never makes a request wait.
package observe
