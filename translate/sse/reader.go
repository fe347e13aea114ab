package sse

import (
	"bytes"
	"errors"
	"io"
)

// maxEmpty is the maximum number of consecutive reads that return neither data nor an error.
const maxEmpty = 100

// ErrTooLong is the error that Next returns for an event or a line that is longer than the reader's
// limit. It is final.
var ErrTooLong = errors.New("read event: longer than the limit")

// Reader reads server-sent events from a source. It belongs to one goroutine. NewReader makes a
// Reader; Reset makes a zero Reader usable.
type Reader struct {
	src io.Reader
	max int
	in  buffer
	cur fields // the fields of the current event

	begun  bool // the place of the byte order mark has been passed
	skipLF bool // the last line ended with "\r": a "\n" at the current line's start belongs to it

	ev    Event // found by advance, not yet returned
	have  bool
	final error // io.EOF when the source has ended, or ErrTooLong
	later error // an error that came with data; returned when the data is used up
}

// NewReader returns a Reader of src. limit, at most 1 GiB, is the maximum length in bytes of a
// line, and of an event from its first "event" or "data" field to the blank line.
func NewReader(src io.Reader, limit int) *Reader {
	r := new(Reader)
	r.Reset(src, limit)
	return r
}

// Reset makes r read src like a new Reader, without a buffer. A nil src prepares the Reader for a
// pool. If src is a Source, it lends its bytes and is asked before the buffer grows above 64 KiB.
func (r *Reader) Reset(src io.Reader, limit int) {
	r.in.drop()
	*r = Reader{src: src, max: min(limit, 1<<30)}
	r.in.source, _ = src.(Source)
}

// Rest releases the buffer if the buffer is empty and has not grown; the next read takes another
// one. A Reader that rests before a long wait uses almost no memory. After Rest, the Reader no
// longer needs lent bytes. Rest returns the Source's error if the Source has no memory for a
// partial event in the lent bytes. The caller must first read an event that is Ready; the last
// event is invalid after Rest.
func (r *Reader) Rest() error {
	in := &r.in
	switch {
	case r.have, in.small == nil && !in.lent:
	case in.start == in.end:
		in.drop()
		*in = buffer{source: in.source}
	case in.lent:
		return in.own(r.max)
	}
	return nil
}

// Next returns the next event that has data.
//
// At the end of the source it returns an event whose blank line is missing, if there is one, and
// then io.EOF, which is final, like ErrTooLong. Any other error comes from the source. No bytes are
// lost then, and the next call continues to read, so a source can return an error that means "not
// yet".
func (r *Reader) Next() (Event, error) {
	for empty := 0; ; {
		if r.Ready() {
			r.have = false
			return r.ev, nil
		}
		if r.final != nil {
			return Event{}, r.final
		}
		if err := r.later; err != nil {
			r.later = nil
			return Event{}, err
		}
		n, err := r.in.fill(r.src, r.max)
		switch {
		case err == io.EOF: //nolint:errorlint // io.Reader's contract is io.EOF itself
			r.final = io.EOF
		case err != nil && n == 0:
			return Event{}, err
		case err != nil:
			r.later = err
		case n > 0:
			empty = 0
		default:
			if empty++; empty == maxEmpty {
				return Event{}, io.ErrNoProgress
			}
		}
	}
}

// Ready reports whether the next call of Next returns an event without reading from the source. It
// does not change the last event that Next returned.
func (r *Reader) Ready() bool {
	return r.have || (r.in.line < r.in.end || r.final != nil) && r.advance()
}

// advance looks for an event in the bytes read so far, stores it in r.ev and reports whether there
// is one. It changes only bytes of that event. If there is no event, r.final may have become
// ErrTooLong.
func (r *Reader) advance() bool {
	if r.have {
		return true
	}
	ended := r.final == io.EOF //nolint:errorlint // set by us
	if r.final != nil && !ended || !r.begun && !r.begin(ended) {
		return false
	}
	in := &r.in
	for in.line < in.end {
		if r.skipLF {
			r.skipLF = false
			if in.buf[in.line] == '\n' {
				r.endLine(in.line + 1)
				continue
			}
		}
		if in.line == in.start && r.takeData() {
			return true
		}
		stop, found := in.lineEnd()
		if stop-in.start > r.max {
			r.final = ErrTooLong
			return false
		}
		if !found && !ended {
			return false
		}
		next := stop
		if found {
			next++
			r.skipLF = in.buf[stop] == '\r'
		}
		r.cur.odd = r.cur.odd || !found || r.skipLF
		if stop == in.line {
			in.line, in.scan = next, next
			if r.dispatch() {
				return true
			}
			continue
		}
		r.cur.add(in.buf[in.start:], in.line-in.start, stop-in.start)
		r.endLine(next)
	}
	if ended {
		r.cur.odd = true
		return r.dispatch()
	}
	return false
}

// takeData is advance for the usual kind of event: one line of data in the form that AppendEvent
// writes, and a blank line. It is called at the start of an event, and leaves incomplete events and
// all others to advance.
func (r *Reader) takeData() bool {
	const field = "data: "
	in := &r.in
	lf, found := in.lineFeed()
	event := in.buf[in.start:in.end]
	n := lf - in.start // length of the line
	if !found || n < len(field) || n >= r.max || n+1 >= len(event) || event[n+1] != '\n' ||
		string(event[:len(field)]) != field || bytes.IndexByte(event[:n], '\r') >= 0 {
		return false
	}
	in.start += n + 2
	in.line, in.scan = in.start, in.start
	r.ev, r.have = Event{Data: event[len(field):n:n], Raw: event[: n+2 : n+2]}, true
	return true
}

// begin skips a byte order mark, and returns false while it cannot know whether there is one.
func (r *Reader) begin(ended bool) bool {
	const mark = "\ufeff"
	head := r.in.buf[:min(r.in.end, len(mark))]
	if len(head) < len(mark) && !ended && string(head) == mark[:len(head)] {
		return false
	}
	if string(head) == mark {
		r.endLine(len(mark))
	}
	r.begun = true
	return true
}

// endLine moves to the line that starts at next. While the event has neither name nor data, the
// earlier lines need not be kept.
func (r *Reader) endLine(next int) {
	r.in.line, r.in.scan = next, next
	if !r.cur.hasName && !r.cur.hasData {
		r.in.start, r.cur.odd = next, false
	}
}

// dispatch ends the current event at the current line, and reports whether to return the event.
func (r *Reader) dispatch() bool {
	in := &r.in
	r.have = r.cur.end(in.buf[in.start:in.line:in.line], &r.ev)
	in.start = in.line
	return r.have
}
