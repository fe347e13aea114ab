// Package copies sends copies of calls to the sinks that the operator's file names (hooks with
// after): a URL, a file or a Unix socket. README.md describes the format of a copy.
//
// Copies takes part in calls (package participant). For each call to which such a hook applies, it
// makes a Copy, adds the bytes of the request and of the answer, and then ends the Copy.
//
// # Design
//
// A call never waits for a sink. Its goroutine only appends to the copy's buffers, and puts the
// ended copy into the queue of the hook. One goroutine of each hook takes copies from the queue,
// writes them as JSON and sends them (sink.go). The memory used by a copy, from its first byte
// until the sink has accepted it, counts towards the hook's memory. A copy for which there is no
// memory is dropped and counted.
//
// No text of a call is part of an error, a metric or the log.
package copies
