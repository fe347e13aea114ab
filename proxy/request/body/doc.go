// Package body reads the bodies of requests.
//
// A JSON body (Body) is read to its end before any slot is taken: a client that sends slowly must
// not hold capacity. A form (Form) may be too large for that. It is read until its model is known
// and 256 KiB have come, or until it ends, and is sent on while the rest arrives. It is rewritten
// for the engine, with a boundary of our own and the served name in front, so nothing that the edge
// has not read reaches an engine.
//
// # Bounds
//
// One budget bounds the bytes of all bodies together. They are reserved before a byte is read, and
// a body's translation before it is written. Nothing is written to a disk. A body has a limit, and
// its client has a pace to keep: a deadline for silence, and a rate for bodies that drip or that
// hold much memory. One of several keys may hold half of the budget with incomplete bodies, so that
// clients that leave bodies unfinished do not lock out others; a single body may have more. A
// message over WebSocket counts there until it begins as a call. Time in which an engine is slow to
// take an upload does not count against the client.
//
// A JSON body may be compressed with gzip or zstd (coding.go). It is read to its end first, and its
// limit applies to the decoded bytes, too.
//
// # Who may call what
//
// Body and Form belong to one call and to its goroutine. Package call owns a Body and releases it.
// Package endpoint puts translations into it, and makes a Form for an endpoint that takes one. What
// a request's head says about its body (Announced, CheckHead) is also read before the call, to
// refuse a body that has not been sent yet.
package body
