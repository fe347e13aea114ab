// Package overhead measures what the edge itself costs: processor, memory and latency, beside nginx
// and HAProxy where they are installed.
//
// Every proxy is started anew for each measurement, in turn, with an engine of its own behind it.
// It has a processor to itself, while client and engine have the others, and its use is read from
// /proc. The load is that of package load.
package overhead
