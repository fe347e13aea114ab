// Package retry decides what happens after an attempt of a call has failed: whether the call is
// sent once more, and where.
//
// Decide is a pure function of plain values. It knows no clock, lease, call or socket: package call
// gathers the facts, asks, and carries out the decision. The rules are one table (rules), read from
// the top; the first row that fits decides. proxy/README.md shows the same table.
//
// Whatever the causes are, a call is sent to at most MaxSends engines in sequence. Not counted are
// one move away from an engine that is lost to all of its calls, the resumed streams that the model
// allows, and the replay on a new connection if a kept one was dead.
package retry
