// Package overhead measures the cost of the edge itself: processor, memory and latency, compared
// with nginx and HAProxy if they are installed.
//
// Every proxy is restarted for each measurement, in turn, with its own engine behind it. The proxy
// has a processor to itself, and the client and the engine have the other processors. Its processor
// time and memory are read from /proc. Package load sends the load.
//
//	overhead.go      rounds, from which report.go computes medians and ratios
//	measurements.go  the measurements; measurement.go has their type, and turns them into rows
//	lab.go           an engine and a target for one measurement, as proxies/ configures them
//	stage.go         the measuring: a load, idle connections, rest, reloads
//
// Without pinned processors, or on a busy machine, the ratio within one round says more than the
// times themselves, and the median of many rounds says more than either.
package overhead
