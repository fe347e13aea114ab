// Package retry decides what follows a failed attempt: whether the call is sent once more, and to
// which engine.
//
// Decide is a pure function of plain values. It depends on no clock, lease, call or socket. Package
// call gathers the facts, calls Decide and carries out the decision. The rules form one table
// (rules) that is read from the top; the first matching row decides. proxy/README.md shows the same
// table.
//
// For any sequence of causes, a call is sent at most MaxSends times. Three kinds of sends do not
// count: one move away from an engine that all of its calls must leave, the resumes that the model
// allows, and the replay on a new connection if a reused one was dead.
package retry
