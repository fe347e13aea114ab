// Package load drives a target and measures it: a run, from its settings to its result.
//
//	Options ── settings ── preflight ── floor ── driver ──────────────── findings ── judge ── result
//	           checks,     reachable?   client   stages, each: arrivals   summary     verdict
//	           defaults    key? model?  alone    or closed loop →
//	                       words a token         workload → client
//	                                             beside it: recorder, meter, scrapers, events
//
// Every error that can be detected before the load is reported before it, in one line (exit code
// 2). A stage ends with its last answer, so the next stage starts on an idle target. The preflight
// sends two short requests of each dialect. The server counts the tokens: its usage or, without
// one, an estimate that is labelled as such. Transcriptions are requested as streams. If a target
// refuses streams or answers unstreamed, they are requested unstreamed, and the verdict says so.
//
// # Design
//
//   - Each request in flight has a goroutine, blocked in a read. On the overloaded project machine,
//     5,000 streams of 2 tokens/s each on one core were measured to cost 14 µs of processor time
//     per token, including the whole client.
//   - A request is created and encoded before it is due, so that long prompts do not delay the
//     schedule.
//   - Samples are kept, one for each request (some 300 bytes), because groups, comparisons and
//     events are evaluated later. Gaps are not kept: they go at once into an HdrHistogram for each
//     stage, dialect and upstream, unless a file has a line for each request.
//   - The verdict reads little beyond the finished result, so that every finding can be checked
//     against the file.
//   - The client is saturated when its processor time and the time that it waits for a processor
//     add up to all the time that it may use. Beside a busy engine on the same machine, the
//     processor time alone stays far below that sum.
//   - Failures that belong to a test are named (--expect-errors). Any other failure makes the
//     result invalid.
//   - A closed loop has no schedule: its requests are scheduled at the moment at which a client
//     becomes free.
//
// The driver sends and the recorder records. Findings are evaluated when no request is in flight. A
// search evaluates them between its stages.
package load
