// Package body reads the bodies of requests.
//
// A JSON body (Body) is read completely before the call acquires a slot, because a slow client must
// not occupy capacity. A form (Form) may be too large to be read completely. The edge reads the
// form until the model is known and 256 KiB have arrived, or until the form ends. It then sends the
// form to the engine while the remaining bytes arrive. The engine gets a rewritten form, which has
// a new boundary and starts with the served model name. An engine therefore receives only bytes
// that the edge has parsed.
//
// # Limits
//
// One budget limits the total size of all bodies. Memory for a body is reserved before its bytes
// are read, and memory for the translation before it is written. Nothing is written to disk.
//
// Each body has a size limit and a limit on the client's silence. A large or slow body must also
// arrive at a minimum rate. The incomplete bodies of one key may use at most half of the budget, so
// they do not block other keys. A single body may exceed this limit. While the engine is slow to
// read an upload, the client's time limits do not run.
//
// A JSON body may be compressed with gzip or zstd (coding.go). It is read completely before it is
// decompressed, and the size limit also applies to the decompressed bytes.
//
// # Ownership
//
// A Body and a Form belong to the goroutine of one call. AnnouncedLength and CheckBodyHeaders are
// called both before and during the call, so that a request can be rejected before the client sends
// the body.
package body
