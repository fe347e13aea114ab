// Package body reads the bodies of requests.
//
// A JSON body (Body) is read to its end before any slot is taken, because a client that sends
// slowly must not hold capacity. A form (Form) may be too large for that. A form is read until its
// model is known and 256 KiB have arrived, or until it ends. It is then sent to the engine while
// the rest arrives. The edge rewrites it with its own boundary and with the served name in front,
// so that an engine receives only bytes that the edge has parsed.
//
// # Bounds
//
// A single budget limits the total size of all bodies. A body's bytes are reserved before they are
// read, and its translation before it is written. Nothing is written to disk. Each body has a size
// limit. Its client must not be silent for too long. If the body drips or holds much memory, it
// must also arrive at a minimum rate. If there are several keys, the incomplete bodies of each key
// may hold at most half of the budget, so that clients that leave bodies unfinished do not lock out
// others. A single body may hold more. A message over WebSocket counts as an incomplete body until
// its call starts. The time that an engine takes to read an upload does not count against the
// client.
//
// A JSON body may be compressed with gzip or zstd (coding.go). Such a body is read to its end
// before it is decoded, and its size limit also applies to the decoded bytes.
//
// # Who may call what
//
// Body and Form belong to one call and to its goroutine. Package call owns a Body and releases it.
// Package endpoint puts translations into it, and makes a Form for an endpoint that accepts forms.
// The functions for a request's head (Announced, CheckHead) also run before the call, to refuse a
// body that has not been sent yet.
package body
