// Package load drives a target and measures it. It starts with the settings of a run and ends with
// the result.
//
//	Options ── settings ── preflight ── floor ── driver ──────────────── findings ── judge ── result
//	           checks,     reachable?   client   stages, each: arrivals   summary     verdict
//	           defaults    key? model?  alone    or closed loop →
//	                       words a token         workload → client
//	                                             beside it: recorder, meter, scrapers, events
//
// Errors that can be detected before the load starts are reported before it starts, in one line
// (exit code 2). A stage ends with its last response, so the next stage starts with an idle target.
// The preflight sends two short requests in each dialect. Token counts come from the server's
// usage. If the server reports no usage, the counts are estimated and labelled as estimates.
// Transcriptions are requested as streams. A target may refuse these streams or answer without
// streaming. Transcriptions are then requested unstreamed, and the verdict mentions that.
//
// # Design
//
//   - Each request in flight has a goroutine that is blocked in a read. With 5,000 streams of 2
//     tokens/s on one core of the (overloaded) project machine, the whole client used 14 µs of CPU
//     time per token.
//   - A request is created and encoded before it is due, so that encoding a long prompt does not
//     delay the schedule.
//   - The run stores a sample for each request (some 300 bytes), because groups, comparisons and
//     events are evaluated later. It stores gaps only if an output file contains a line per
//     request. Gaps are counted in a histogram for each stage, dialect and upstream.
//   - The verdict is based on little more than the finished result. The findings in the verdict can
//     therefore be checked against the result file.
//   - The client counts as saturated if its CPU time plus its waiting time for a CPU reaches the
//     CPU time available to it. If a busy engine runs on the same machine, the CPU time alone stays
//     far below that limit.
//   - --expect-errors names failures that are part of a test. Other failures make the result
//     invalid.
//   - A closed loop has no schedule. A request counts as scheduled when its client becomes free.
//
// The driver sends requests, and the recorder records samples. Findings are evaluated only while no
// request is in flight. In a search, this is also the case between stages.
package load
