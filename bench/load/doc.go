// Package load drives a target and measures it: a run, from its settings to its result.
//
//	Options ── settings ── preflight ── floor ── driver ──────────────── findings ── judge ── result
//	           checks,     reachable?   client   stages, each: arrivals   summary     verdict
//	           defaults    key? model?  alone    or closed loop →
//	                       words a token         workload → client
//	                                             beside it: recorder, meter, scrapers, events
//
// Every error that can be detected before the load is reported before it, in one line (exit code
// 2). A stage ends with its last answer, so the next one begins on an idle target. The preflight
// sends two short requests of each dialect. The server counts the tokens: its usage or, without
// one, an estimate that is labelled as such. Transcriptions are requested as streams. If a target
// refuses streams or answers unstreamed, they are requested unstreamed, and the verdict says so.
//
// # Design
//
//   - A goroutine for each request in flight, blocked in a read. Measured on the overloaded project
//     machine: 5,000 streams of 2 tokens/s each on one core cost 14 µs of processor time per
//     token, including the whole client.
//   - A request is created and encoded before it is due, so that long prompts do not delay the
//     schedule.
//   - Samples are kept, one for each request (some 300 bytes), because groups, comparisons and
//     events are evaluated later. Gaps are not: they go into an HdrHistogram for each stage, dialect
//     and upstream at once, unless a file has a line for each request.
//   - The verdict reads little beyond the finished result, so that every finding can be checked
//     against the file.
//   - The client is saturated when its processor time and its time of waiting for a processor add
//     up to all that it may use: beside a busy engine on the same machine, the processor time alone
//     stays far below that.
//   - Failures that belong to a test are named (--expect-errors); any other makes the result
//     invalid.
//   - A closed loop has no schedule: its requests are scheduled at the moment at which a client
//     becomes free.
//
// The driver sends and the recorder records. Findings are evaluated when no request is in flight; a
// search evaluates them between its stages.
package load
