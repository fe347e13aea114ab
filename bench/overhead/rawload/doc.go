// Package rawload is an engine and a client that need little CPU time, so that a proxy between them is
// saturated although both share one CPU. They run on one thread that waits for events of all sockets
// (epoll), and send prepared bytes. Package load, in contrast, needs more CPU time for a request than a
// proxy does.
//
//	message.go      finds the ends of messages
//	loop_linux.go   the thread, its sockets and its timer
//	loop_other.go   replaces it on other systems
package rawload

import "time"

// Load describes requests that the client sends.
type Load struct {
	Address string // of the proxy
	Request []byte
	Conns   int
	// Rate is the number of requests per second, at constant intervals. If it is 0, each connection
	// sends its next request as soon as the response has arrived.
	Rate     float64
	Duration time.Duration
}

// Result describes the responses to a load.
type Result struct {
	Completed int
	Elapsed   time.Duration
	// Latencies are the times from when each request was due until its response was complete. They
	// are sorted.
	Latencies []time.Duration
}

// Percentile returns the p-th percentile of the latencies.
func (r *Result) Percentile(p float64) time.Duration {
	if len(r.Latencies) == 0 {
		return 0
	}
	return r.Latencies[min(len(r.Latencies)-1, int(float64(len(r.Latencies))*p/100))]
}
