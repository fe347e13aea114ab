// Package sse reads and writes server-sent events, which engines and the edge use for streams.
//
// Reader reads events from a source that may stall, break off or be hostile. It follows the WHATWG
// specification: lines end with "\n", "\r\n" or "\r"; several data fields of an event are joined by
// "\n"; one space after the colon belongs to the syntax; comments, id, retry and unknown fields are
// skipped, as are events without data; a byte order mark may come first. It deviates in one point:
// at the end of the stream it returns an event whose final blank line is missing, because some
// engines forget that line. The caller, which understands the text, decides whether the event is
// complete.
//
// AppendEvent and AppendComment write events and comments. A Reader can read everything that they
// write, whatever their arguments.
//
// # Design
//
// An Event consists of slices of the reader's buffer, which are valid until the next call. If
// AppendEvent would write an event the same way, Raw holds the event's text, so that a relay can
// forward the event with one append. Reading a chat chunk of 200 bytes costs 60 to 120 ns, whether
// alone or with others in the buffer (AMD EPYC, Go 1.26), and does not allocate.
//
//   - A "\r" ends its line at once. If a "\n" follows, perhaps in a later read, it is then skipped.
//     Waiting for the byte after the "\r" would delay each event until the next one.
//   - Data lines are joined in place, by moving the later ones forward over the syntax between
//     them. A name that is in the way is moved out; this is the only copy of a name.
//   - No byte is searched twice, however small the reads. The state includes the position of the
//     search and, while lines end with "\r", the position of the next "\n". The buffer doubles, and
//     is compacted only when that frees a quarter of it. Work and memory are therefore linear in
//     the input, even for a stream of megabytes without a line end.
//   - The buffer starts with 2 KiB. Rest releases it while it is empty, so an idle stream holds no
//     buffer. The buffer grows when an event needs more. When it is next empty, it shrinks to 2 KiB
//     if it has grown above 64 KiB, or if at most a quarter of it was used since it was last empty.
//     A stream of 20 KB events thus keeps its buffer, but a single such event does not tie up
//     memory for the rest of the stream.
//   - A Source lends the bytes that it has. An event that is complete in these bytes is read in
//     place and needs no buffer. The Source is asked before the buffer grows above 64 KiB, and
//     notified when the buffer shrinks.
//   - Errors of the source are passed on, and reading can resume after them. The caller can
//     therefore limit the time of each read, write a keep-alive, and continue. Ready lets it
//     coalesce events that have already arrived without waiting for more.
//
// Comments are not reported. A caller that needs to know whether an engine is alive must watch its
// own reads.
//
// Considered: bufio.Scanner (also does not copy, but scans a partial line again on each read,
// supports only one line ending, and cannot continue after an error) and tmaxmax/go-sse (returns
// events as strings, and has no limit by default).
package sse
