// Package load drives a target and measures it: a run, from its settings to its result.
//
//	Options ── settings ── preflight ── floor ── driver ──────────────── findings ── judge ── result
//	           checks,     reachable?   client   stages, each: arrivals   summary     verdict
//	           defaults    key? model?  alone    or closed loop →
//	                       words a token         workload → client
//	                                             beside it: recorder, meter, scrapers, events
//
// Everything wrong that can be known before the load is said before it, in one line (exit code 2).
// A stage ends with its last answer; the next one begins on an idle target. The preflight sends two
// short requests of each dialect. Tokens are counted by the server: its usage, or else an estimate
// that is called one. Transcriptions are asked for as streams; a target that refuses that, or
// answers whole nevertheless, is asked for whole ones, and the verdict says so.
//
// # Design
//
//   - A goroutine for each request in flight, blocked in a read. Measured on the machine of the
//     project while it was overloaded: 5,000 streams of 2 tokens/s each on one core cost 14 µs of
//     processor time per token, all of the client included.
//   - A request is made before it is due and its body encoded, so that long prompts do not delay
//     the schedule.
//   - Samples are kept, one for each request (some 300 bytes), because groups, comparisons and
//     events are looked at afterwards. Gaps are not: they go into an HdrHistogram for each stage,
//     dialect and upstream at once, unless a file has a line for each request.
//   - The verdict reads the finished result and little else, so that every finding can be checked
//     against the file.
//   - The client is saturated when its processor time and the time in which it waited for a
//     processor add up to all that it may use: beside a busy engine on the same machine the first
//     alone stays far below that.
//   - Failures that belong to a test are named (--expect-errors); everything else still makes the
//     result not valid.
//   - A closed loop has no schedule: its requests are scheduled at the moment at which a client is
//     free.
//
// The driver sends, the recorder takes down what happens meanwhile, and findings are asked when
// nothing is under way; a search asks between its stages.
package load
