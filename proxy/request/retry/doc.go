// Package retry decides what happens after a failed attempt: whether the call is sent again, and to
// which engine.
//
// Decide is a pure function of plain values. Package call describes the call, calls Decide and
// executes the step. The rules are one table (rules), and the first matching rule applies.
// proxy/README.md contains the same table.
//
// A call is sent at most MaxSends times, whatever the causes are. These sends are not counted:
//
//   - One move away from an engine that all calls must leave.
//   - The resumes that the model allows.
//   - Sending the request again on a new connection because a reused connection was dead.
package retry
