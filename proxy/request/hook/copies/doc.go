// Package copies sends copies of calls to the sinks that the operator's file names (hooks with
// after): a URL, a file or a Unix socket. README.md has the form of a copy.
//
// Package call makes a Copy of each call that such a hook names, adds the bytes of the request and
// of the answer, and ends it.
//
// # Design
//
// A call never waits for a sink. Its goroutine only appends to the copy's buffers, and puts the
// ended copy into the queue of the hook. One goroutine of each hook takes copies from the queue,
// writes them as JSON and sends them (sink.go). What copies hold, from their first byte until the
// sink has taken them, counts towards the hook's memory. A copy for which there is no room is
// dropped and counted.
//
// No text of a call is part of an error, a metric or the log.
package copies
