// Package bench is the load tester's command line: it drives any server that speaks the OpenAI or
// the Messages dialects, measures what its clients would see, and says whether the numbers can be
// trusted.
//
// # What a number means
//
// Every request has three clocks: when the schedule wanted it (scheduled), when the client began to
// send it, a new connection included (sent), and when answers came. Latencies are given from both,
// always: from sent is what vLLM's tool and its kin print, from scheduled is what a user would have
// felt who came at that moment. A client that waits for a free slot, or for its own processor,
// shows in the difference. README.md has the formulas.
//
// # Where things are
//
//	bench       the grammar, the flags that are gone, which file gets what
//	  overhead  what the edge costs: a command of its own
//	  scenario  bundled workloads, and the fleet that one plays on
//	  load      a run: settings, stages, recorder, summary, verdict
//	    workload  requests and when they are due
//	    client    one request: dialect, connection, sample
//	  compare   two results, assertions, bounds
//	  report    a result as text and as HTML
//	  result    the file and its numbers
//	  process   processes that we start, processors, /proc
//	  exit      the codes that a command ends with
//	  sim       the simulated engine, which shares nothing with the rest
//
// A package knows those below it only. A scenario becomes flags before the command line is parsed.
package bench
