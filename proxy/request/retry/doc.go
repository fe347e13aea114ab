// Package retry decides what happens after a failed attempt: whether the call is sent again, and to
// which engine.
//
// DecideStep is a pure function of plain values. Package call describes the state of the call,
// calls DecideStep and takes the step that it returns. The rules form a single table
// (decisionRules), and the first rule that matches applies. proxy/README.md contains the same
// table.
//
// A call is sent at most MaxSends times in total, whatever the causes of its failures are. The
// following do not count:
//
//   - Moving the call to another engine, once, because all calls must leave its engine.
//   - Resuming the answer as often as the model allows.
//   - Sending the request again over a new connection because a reused connection was closed.
package retry
