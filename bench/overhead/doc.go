// Package overhead measures what the edge costs in CPU time, memory and latency. It compares the
// edge with nginx and HAProxy if they are installed.
//
// For each measurement, the proxies are tested one after another. Each proxy is started anew, with
// a new engine behind it. The proxy has a CPU to itself, and the client and the engine share the
// other CPUs. CPU time and memory are read from /proc. Package load sends the load. Small requests
// are also sent by package rawload, which is fast enough to saturate a proxy.
//
//	overhead.go        runs the rounds; report.go computes medians and ratios
//	saturation.go      the measurements with package rawload
//	measurements.go    the other measurements; measurement.go defines their type and converts results to rows
//	test_bench.go      starts an engine and a target for a measurement, as configured in proxies/
//	started_target.go  plays a load, idle connections or reloads, and measures
//
// If processes cannot be pinned to CPUs, or if the machine is busy, the ratio within a round is
// more reliable than the times. The median over many rounds is more reliable than the values of a
// single round.
package overhead
