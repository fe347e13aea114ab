// Package overhead measures what the edge costs in CPU time, memory and latency. It compares the
// edge with nginx and HAProxy if they are installed.
//
// For each measurement, every proxy in turn is started anew with a new engine behind it. The proxy
// has a CPU to itself, and the client and the engine share the other CPUs. CPU time and memory are
// read from /proc. Package load sends the load.
//
//	overhead.go      runs the rounds; report.go computes medians and ratios
//	measurements.go  the measurements; measurement.go defines their type and converts them to rows
//	lab.go           starts an engine and a target for a measurement, as configured in proxies/
//	stage.go         plays a load, idle connections or reloads, and measures
//
// If CPUs cannot be pinned, or on a busy machine, the ratio within a round is more reliable than
// the times. The median over many rounds is more reliable than either.
package overhead
