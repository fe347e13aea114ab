// Package copies sends copies of calls to the sinks that the operator's file names (hooks with
// after): a URL, a file or a Unix socket. README.md describes the format of a copy.
//
// Copies takes part in calls (package participant). For each call to which such a hook applies, it
// makes a Copy, adds the bytes of the request and of the answer, and then ends the Copy.
//
// # Design
//
// A call never waits for a sink. It only appends to the buffers of the Copy, and puts the ended
// Copy into the queue of the hook. Each hook has one goroutine that encodes the copies in its queue
// as JSON and sends them (sink.go). A copy counts against the hook's memory limit from its first
// byte until the sink has accepted the copy. If no memory is left, the copy is dropped and counted.
//
// Errors, metrics and the log contain no text of a call.
package copies
