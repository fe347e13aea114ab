// Package rawload contains an engine and a client that need so little CPU time that they can
// saturate a proxy between them, even if they share one CPU. Both run on one thread, which waits
// for events on all sockets (epoll) and sends prepared bytes. Package load, in contrast, needs more
// CPU time for a request than a proxy does.
//
//	message.go      finds the ends of messages
//	loop_linux.go   the thread, its sockets and its timer
//	loop_other.go   replaces it on other systems
package rawload

import "time"

// Load describes requests that the client sends.
type Load struct {
	Address string // address of the proxy
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
