// Package sse reads and writes server-sent events, which engines and the edge use for streams.
//
// Reader reads events from a source that may stall, fail or be hostile. It follows the WHATWG
// specification:
//
//   - Lines end with "\n", "\r\n" or "\r".
//   - The data fields of an event are joined by "\n". One space after the colon is removed.
//   - Comments, unknown fields, the fields id and retry, and events without data are skipped.
//   - A byte order mark at the start is skipped.
//
// Reader deviates from the specification in one point. At the end of the stream it returns an event
// whose final blank line is missing, because some engines omit that line.
//
// AppendEvent and AppendComment write events and comments.
//
// # Design
//
// An Event consists of slices of the reader's buffer, which are valid until the next call. Reading a
// chat chunk of 200 bytes takes 60 to 120 ns, alone or with other chunks in the buffer (AMD EPYC, Go
// 1.26), and does not allocate.
//
//   - A "\r" ends its line immediately. A "\n" after it is skipped, even if it arrives in a later
//     read. Waiting for the byte after the "\r" would delay each event until the next event
//     arrives.
//   - Data lines are joined in place: each later line is moved to the end of the data. The event's
//     name is copied only if it would be overwritten.
//   - Each byte is searched only once, however small the reads are. The state includes the position
//     of the search and, while lines end with "\r", the position of the next "\n". The buffer grows
//     by doubling, and is compacted only if this frees a quarter of the buffer. Work and memory are
//     therefore linear in the input, even for a stream of megabytes without a line end.
//   - The buffer starts with 2 KiB. PrepareForWait releases an empty buffer, so an idle stream
//     has no buffer. The buffer grows if an event needs more space. When the buffer becomes
//     empty, it shrinks to 2 KiB in two cases: it is larger than 64 KiB, or at most a quarter of
//     it was used since it was last empty. A stream of 20 KB events therefore reuses its buffer,
//     but a single 20 KB event does not occupy memory until the end of the stream.
//   - A Source lends the bytes that it has already read. If these bytes contain a complete event,
//     the Reader reads it in place without a buffer. The Reader calls Source.ReserveBuffer before
//     the buffer grows above 64 KiB, and when the buffer shrinks.
//   - Errors from the source are passed on, and reading can resume after them. The caller can
//     therefore limit the time of each read, write a keep-alive, and continue.
//
// Comments are not reported. To find out whether an engine is alive, watch the reads from the
// source.
//
// Considered alternatives: bufio.Scanner (scans a partial line again on each read, supports only
// one line ending, and cannot continue after an error) and tmaxmax/go-sse (returns events as
// strings, and has no limit by default).
package sse
