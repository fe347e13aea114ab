// Package sse reads and writes server-sent events, which engines and the edge use for streams.
//
// Reader reads events from a source that may stall, break off, or be hostile. It follows the WHATWG
// specification: lines end with "\n", "\r\n" or "\r"; several data fields of an event are joined by
// "\n"; one space after the colon belongs to the syntax; comments, id, retry and unknown fields are
// skipped, as are events without data; a byte order mark may come first. It deviates in one point:
// at the end of the stream it returns an event whose final blank line is missing, because some
// engines forget that line. The caller, who understands the text, decides whether the event is
// complete.
//
// AppendEvent and AppendComment write. A Reader can read whatever they write, whatever the
// arguments.
//
// # Design
//
// An Event consists of slices of the reader's buffer, valid until the next call. If AppendEvent
// would write an event the same way, Raw holds the event's text, so that a relay forwards it with
// one append. Reading a chat chunk of 200 bytes costs 60 to 120 ns, whether alone or with others in
// the buffer (AMD EPYC, Go 1.26), and does not allocate.
//
//   - A "\r" ends its line at once; if a "\n" follows, perhaps in a later read, it is skipped then.
//     Waiting for the next byte would delay an event until the one after it.
//   - Data lines are joined in place, by moving the later ones forward over the syntax between
//     them. A name that is in the way is moved out; this is the only copy of a name.
//   - No byte is searched twice, however small the reads: the position of the search is part of the
//     state, and so is that of the next "\n" while lines end with "\r". The buffer doubles, and is
//     compacted only when that frees a quarter of it. So work and memory are linear in the input,
//     and a stream of megabytes without a line end costs no more than its length.
//   - The buffer starts with 2 KiB, which Rest releases while it is empty: a held stream then keeps
//     none. It grows when one event needs it. When it is next empty it goes back to 2 KiB if it has
//     grown above 64 KiB, or if no more than a quarter of it was used since it was last empty. So a
//     stream of 20 KB events keeps its buffer, but a single such event does not tie up memory for
//     the rest of the stream.
//   - A Source lends the bytes that it has: an event that is whole in them is read in place and
//     needs no buffer. It is asked before the buffer grows above 64 KiB, and notified when the
//     buffer shrinks.
//   - Errors of the source are passed on and reading can resume after them, so that the caller
//     can limit the time of each read, write a keep-alive, and go on. Ready lets it coalesce events
//     that have already arrived without waiting for more.
//
// Comments are not reported. A caller that wants to know whether an engine is alive watches its own
// reads.
//
// Considered: bufio.Scanner (does not copy either, but scans a partial line again on each read,
// knows one line ending, and its errors are final) and tmaxmax/go-sse (events as strings; unbounded
// by default).
package sse
