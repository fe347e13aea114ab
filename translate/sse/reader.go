package sse

import (
	"errors"
	"io"
)

// maxEmptyReads is the maximum number of consecutive reads that return neither data nor an error.
const maxEmptyReads = 100

// ErrTooLong is the error for an event or a line longer than the reader's limit. All later calls to
// NextEvent return the same error.
var ErrTooLong = errors.New("read event: longer than the limit")

// Reader reads server-sent events from a source. It must be used by one goroutine at a time. Reset
// initializes a zero Reader.
type Reader struct {
	src io.Reader
	max int
	in  readBuffer
	cur eventFields

	pastBOM     bool // a byte order mark is no longer possible
	rested      bool // nothing has been read since PrepareForWait, and the next byte starts an event
	skipLF      bool // the last line ended with "\r", so a "\n" at the start of the current line is skipped
	hasEvent    bool
	ev          Event // found by findEvent but not yet returned
	finalErr    error // io.EOF at the end of the source, or ErrTooLong
	deferredErr error // an error that the source returned with data; reported once the data is consumed
}

// NewReader returns a Reader that reads from src. limit is the maximum length of a line and of an
// event in bytes. It is at most 1 GiB.
func NewReader(src io.Reader, limit int) *Reader {
	r := new(Reader)
	r.Reset(src, limit)
	return r
}

// Reset prepares the Reader to read src, like a new Reader. A nil src prepares the Reader for a
// pool. If src is a Source, the Reader uses the bytes that src lends, and calls ReserveBuffer
// before the buffer grows above 64 KiB.
func (r *Reader) Reset(src io.Reader, limit int) {
	r.in.release()
	*r = Reader{src: src, max: min(limit, 1<<30)}
	r.in.source, _ = src.(Source)
}

// PrepareForWait prepares the Reader for a long wait. It releases an empty buffer that has not
// grown, and copies a partial event out of lent bytes. If the Source does not grant the memory for
// the copy, PrepareForWait returns the error from Source.ReserveBuffer. If HasEvent reports an
// event, the caller must read this event first. PrepareForWait invalidates the last event.
func (r *Reader) PrepareForWait() error {
	in := &r.in
	switch {
	case r.rested, r.hasEvent:
		return nil
	case in.start < in.end:
		if in.lent {
			return in.copyLentBytes(r.max)
		}
		return nil
	case in.small != nil || in.lent:
		in.release()
		*in = readBuffer{source: in.source}
	}
	r.rested = in.buf == nil && r.pastBOM && !r.skipLF && r.finalErr == nil && r.deferredErr == nil
	return nil
}

// NextEvent returns the next event that has data.
//
// If the source ends without the blank line after the last event, NextEvent first returns this
// event and then io.EOF. Any error other than io.EOF and ErrTooLong comes from the source. After
// an error from the source, no bytes are lost, and the next call continues to read. A source can
// therefore return an error that means "not yet".
func (r *Reader) NextEvent() (Event, error) {
	if r.rested && r.in.source != nil {
		if lent := r.in.source.LendBytes(); len(lent) > 0 {
			if r.ev.setWhole(lent, r.max) {
				return r.ev, nil
			}
			r.rested = false
			r.in.useLentBytes(lent)
		}
	}
	r.rested = false
	for empty := 0; ; {
		if r.HasEvent() {
			r.hasEvent = false
			return r.ev, nil
		}
		if r.finalErr != nil {
			return Event{}, r.finalErr
		}
		if err := r.deferredErr; err != nil {
			r.deferredErr = nil
			return Event{}, err
		}
		n, err := r.in.fill(r.src, r.max)
		switch {
		case err == io.EOF: //nolint:errorlint // io.Reader's contract is io.EOF itself
			r.finalErr = io.EOF
		case err != nil && n == 0:
			return Event{}, err
		case err != nil:
			r.deferredErr = err
		case n > 0:
			empty = 0
		default:
			if empty++; empty == maxEmptyReads {
				return Event{}, io.ErrNoProgress
			}
		}
	}
}

// HasEvent reports whether the next call to NextEvent returns an event without reading from the
// source.
func (r *Reader) HasEvent() bool {
	return r.hasEvent || (r.in.line < r.in.end || r.finalErr != nil) && r.findEvent()
}

// findEvent looks for an event in the bytes read so far. It changes only bytes of this event. If it
// finds no event, it may set r.finalErr to ErrTooLong.
func (r *Reader) findEvent() bool {
	if r.hasEvent {
		return true
	}
	ended := r.finalErr == io.EOF //nolint:errorlint // set by us
	if r.finalErr != nil && !ended || !r.pastBOM && !r.skipBOM(ended) {
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
		if in.line == in.start && r.readSingleData() {
			return true
		}
		stop, found := in.lineEnd()
		if stop-in.start > r.max {
			r.finalErr = ErrTooLong
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
		if stop == in.line {
			in.line, in.scannedTo = next, next
			if r.dispatchEvent() {
				return true
			}
			continue
		}
		r.cur.add(in.buf[in.start:], in.line-in.start, stop-in.start)
		r.endLine(next)
	}
	return ended && r.dispatchEvent()
}

// readSingleData is a fast path of findEvent for an event that consists of one data line, as
// written by AppendEvent, and a blank line. It must be called at the start of an event.
func (r *Reader) readSingleData() bool {
	in := &r.in
	lf, found := in.lineFeed()
	end := lf + 2
	if !found || end > in.end || in.buf[lf+1] != '\n' {
		return false
	}
	if r.hasEvent = r.ev.setData(in.buf[in.start:end:end], r.max); r.hasEvent {
		in.start, in.line, in.scannedTo = end, end, end
	}
	return r.hasEvent
}

// skipBOM skips a byte order mark. It returns false if the bytes read so far may be part of a byte
// order mark.
func (r *Reader) skipBOM(ended bool) bool {
	const mark = "\ufeff"
	head := r.in.buf[:min(r.in.end, len(mark))]
	if len(head) < len(mark) && !ended && string(head) == mark[:len(head)] {
		return false
	}
	if string(head) == mark {
		r.endLine(len(mark))
	}
	r.pastBOM = true
	return true
}

// endLine ends the current line. The next line starts at the offset next. If the event has neither
// a name nor data yet, endLine discards the event's lines.
func (r *Reader) endLine(next int) {
	r.in.line, r.in.scannedTo = next, next
	if !r.cur.hasName && !r.cur.hasData {
		r.in.start = next
	}
}

// dispatchEvent ends the current event at the current line and reports whether the event has data.
func (r *Reader) dispatchEvent() bool {
	in := &r.in
	r.hasEvent = r.cur.finishEvent(in.buf[in.start:in.line:in.line], &r.ev)
	in.start = in.line
	return r.hasEvent
}
