// Package bench is the load tester's command line. It drives any server that speaks the OpenAI
// dialects or Messages, measures what the server's clients would see, and says whether the numbers
// can be trusted.
//
// # Meaning of the numbers
//
// Every request has three times: when it was due (scheduled), when the client started to send it,
// including a new connection (sent), and when answers arrived. Latencies are always measured both
// from sent and from scheduled. vLLM's tool and similar tools print latencies from sent. Latencies
// from scheduled are what a user who arrived at that moment would have seen. A difference between
// the two shows that the client waited for a free slot or for its own processor. README.md has the
// formulas.
//
// # Layout
//
//	bench       the grammar, the removed flags, the output files
//	  overhead  what the edge costs: a command of its own
//	  scenario  bundled workloads, and the fleet for them
//	  load      a run: settings, stages, recorder, summary, verdict
//	    workload  requests and when they are due
//	    client    one request: dialect, connection, sample
//	  compare   two results, assertions, bounds
//	  report    a result as text and as HTML
//	  result    the file and its numbers
//	  process   child processes, processors, /proc
//	  exit      the exit codes of commands
//	  sim       the simulated engine, which shares no code with the others
//
// A package only knows the packages below it. A scenario becomes flags before the command line is
// parsed.
package bench
