// Package bench is the command line of the load tester. It drives any server that speaks the OpenAI
// dialects or Messages, measures what clients of the server would observe, and reports whether the
// numbers are trustworthy.
//
// # Latencies
//
// Three times are recorded for each request: when it was due (scheduled), when the client started
// to send it or to connect (sent), and when response bytes arrived. Latencies are measured both
// from sent and from scheduled. vLLM's tool and similar tools report latencies from sent. Latencies
// from scheduled are those that a user arriving at that time would have observed. If the two
// latencies differ, the client waited for a free slot or for CPU time. README.md contains the
// formulas.
//
// # Layout
//
//	bench       the command line, removed flags, output files
//	  overhead  the command that measures the cost of the edge
//	  scenario  bundled workloads and their fleets
//	  load      a run: settings, stages, recorder, summary, verdict
//	    workload  requests and their schedule
//	    client    a single request: dialect, connection, sample
//	  compare   comparisons, assertions, limits
//	  report    a result as text and as HTML
//	  result    the result file
//	  process   child processes, CPUs, /proc
//	  exit      the codes with which a command ends
//	  sim       the simulated engine, which shares no code with the other packages
//
// A package imports only packages that are listed below it. A scenario is converted to flags before
// the command line is parsed.
package bench
