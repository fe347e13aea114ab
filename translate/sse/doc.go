// Package sse reads and writes server-sent events, the form in which engines and the edge stream.
//
// Reader takes events from a source that may stall, be cut, or be hostile. It follows the WHATWG
// specification: lines end with "\n", "\r\n" or "\r"; several data fields of an event are joined by
// "\n"; one space after the colon belongs to the syntax; comments, id, retry and unknown fields are
// passed over, as is an event without data; a byte order mark may come first. It deviates in one
// point: an event that the end of the stream deprives of its blank line is returned, because
// engines forget it and the decision whether the text is complete belongs to the caller, who
// understands it.
//
// AppendEvent and AppendComment write. What they write a Reader reads back, whatever the arguments.
//
// # Design
//
// An Event is made of slices of the reader's buffer, valid until the next call, and an event that
// has the form AppendEvent would give it also comes as a whole, in Raw, so that a relay forwards it
// with one append. Reading a chat chunk of 200 bytes costs 60 to 120 ns, alone or with others in
// the buffer (AMD EPYC, Go 1.26), and does not allocate.
//
//   - A "\r" ends its line at once; if a "\n" follows, perhaps in a later read, it is skipped then.
//     To wait for the next byte would hold back an event until the one after it.
//   - Data lines are joined in place, by moving the later ones forward over the syntax between
//     them. A name that lies in the way is moved out; this is the only copy of one.
//   - No byte is searched twice, however small the reads: the position of the search is part of the
//     state, as is that of the next "\n" while lines end with "\r". The buffer doubles, and is
//     compacted only when that frees a quarter of it. So work and memory are linear in the input,
//     and a stream of megabytes without a line end costs what its bytes cost.
//   - The buffer starts with 2 KiB, which Rest gives up as long as nothing is in it: a held stream
//     then keeps none. It grows when one event needs it. When it is next empty it goes back to 2
//     KiB if it has grown above 64 KiB, or if no more than a quarter of it was used since it was
//     last empty: a stream of 20 KB events keeps its buffer, a single one does not tie up memory
//     for the rest of the stream.
//   - A Source lends the bytes that it has: an event that is whole in them is read where it lies, and
//     no buffer is taken for it. It is asked before the buffer grows above 64 KiB, and notified when
//     the buffer shrinks.
//   - Errors of the source pass through and can be resumed from, so that the caller can bound each
//     read in time, write a keep-alive, and go on. Ready lets it coalesce what is already there
//     without waiting for more.
//
// Comments are not reported. The caller that wants to know whether an engine is alive looks at its
// reads.
//
// Considered: bufio.Scanner (copies nothing either, but scans a partial line again on each read,
// has one form of line, and its errors are final) and tmaxmax/go-sse (events as strings; unbounded
// unless asked).
package sse
