// Package retry decides what happens after a failed attempt: whether the call is sent again, and to
// which engine.
//
// Decide is a pure function of plain values. Package call describes the state of the call, calls
// Decide and takes the step. The rules are one table (rules), in which the first matching rule
// applies. proxy/README.md contains the same table.
//
// A call is sent at most MaxSends times in total, no matter what the causes are. The following do
// not count:
//
//   - One move away from an engine that all calls must leave.
//   - The resumes that the model allows.
//   - Sending the request again over a new connection because a reused connection was closed.
package retry
