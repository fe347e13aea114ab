// Package copies sends copies of calls to the sinks named by the operator's hooks with after. A
// sink is a URL, a file or a Unix socket. README.md describes the format of a copy.
//
// CopySinks takes part in calls (package participant). For each call to which such a hook applies,
// it creates a Copy, adds the bytes of the request and the answer, and then ends the Copy.
//
// # Design
//
// A call never waits for a sink. The call only appends to the buffers of the Copy, and adds the
// finished Copy to the queue of the hook. Each hook has one goroutine, which encodes the queued
// copies as JSON and sends them (sink.go). A copy counts against the hook's memory limit from its
// first byte until the sink has accepted the copy. If no memory is left, the copy is dropped and
// counted.
//
// Errors, metrics and the log never contain text from a call.
package copies
