package sse

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

const (
	smallBuffer = 2 << 10  // a Reader takes that much when it reads first
	largeBuffer = 64 << 10 // a buffer above this is given up as soon as it is empty
	minRead     = 512      // room without which the buffer is compacted or grown before a read
	maxEmpty    = 100      // reads in a row that may bring neither data nor an error
)

// ErrTooLong is the error of Next for an event or a line that is longer than the reader's bound. It
// is final.
var ErrTooLong = errors.New("read event: longer than the limit")

// smallBuffers holds the buffers of Readers that rest.
var smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}

// errCount is the error for a source that breaks the contract of io.Reader.
var errCount = errors.New("read event: invalid count from the source")

// Event is one server-sent event. Its slices lie in the Reader's memory and are valid until the
// next call of Next.
type Event struct {
	Name []byte // of the last "event" field; empty when there was none
	Data []byte // of all "data" fields, joined by "\n"; never nil in an event that Next returns

	// Raw is the event as it came, with its blank line, when that is byte for byte what AppendEvent
	// writes for Name and Data; otherwise nil. It is for a relay that forwards events as they are.
	Raw []byte
}

// Blank reports whether an event says nothing: it has no data, or JSON's null in its place.
// llama.cpp begins the stream of a completion of several prompts with null.
func (e Event) Blank() bool {
	data := bytes.TrimSpace(e.Data)
	return len(data) == 0 || string(data) == "null"
}

// Budget is a source that bounds the memory of a Reader's buffer, too.
type Budget interface {
	// Hold is called before the Reader takes a buffer of n bytes in place of the one that it has,
	// unless both are small. It may refuse a larger one: the Reader stays as it is then, and Next
	// returns the error.
	Hold(n int) error
}

// Reader reads server-sent events from a source. It belongs to one goroutine. NewReader makes one;
// a zero Reader becomes usable by Reset.
type Reader struct {
	src   io.Reader
	room  Budget // src, if it is one, or nil
	max   int
	buf   []byte             // its length is its capacity; nil before the first read and while the Reader rests
	small *[smallBuffer]byte // the pooled buffer, if buf is it

	// Offsets in buf.
	start int // of the current event; what lies before is consumed
	line  int // start of the current line
	scan  int // no line ends in buf[line:scan]
	lf    int // no "\n" in buf[scan:lf]
	end   int // of what has been read
	peak  int // the greatest end since the buffer was last empty

	// The current event.
	nameStart, nameEnd int
	name               []byte // the name, when it had to be moved out of buf
	dataStart, dataEnd int
	hasName, hasData   bool
	odd                bool // it does not have the form of AppendEvent
	names              [2][]byte

	begun  bool // the place of the byte order mark has been passed
	skipLF bool // the last line ended with "\r": a "\n" at r.line belongs to it

	ev    Event // found by advance and not yet returned
	have  bool
	final error // io.EOF when the source has ended, or ErrTooLong
	later error // came together with data, is due when these are used up
}

// NewReader returns a Reader of src. No event may be longer than limit bytes (at most 1 GiB),
// counted from its first "event" or "data" field to the blank line, and no line.
func NewReader(src io.Reader, limit int) *Reader {
	r := new(Reader)
	r.Reset(src, limit)
	return r
}

// Reset makes r read src as if it were new, without a buffer. A nil src is for a Reader that goes
// into a pool. A src that is a Budget is asked before the buffer grows above 64 KiB.
func (r *Reader) Reset(src io.Reader, limit int) {
	r.drop()
	*r = Reader{src: src, max: min(limit, 1<<30)}
	r.room, _ = src.(Budget)
}

// Rest gives up the buffer if nothing is in it and it has not grown; the next read takes another
// one. Called before a long wait, it leaves a Reader that weighs next to nothing. The last event is
// invalid after it.
func (r *Reader) Rest() {
	if r.small != nil && r.start == r.end && !r.have {
		r.drop()
		r.start, r.line, r.scan, r.lf, r.end, r.peak = 0, 0, 0, 0, 0, 0
	}
}

// drop lets go of the buffer.
func (r *Reader) drop() {
	if r.small != nil {
		smallBuffers.Put(r.small)
	}
	r.buf, r.small = nil, nil
}

// Next returns the next event that has data.
//
// At the end of the source it returns io.EOF, after an event whose blank line is missing, if there
// is one. ErrTooLong is as final. Any other error is the source's own: nothing is lost by it and
// the next call reads on, so that a source can return an error that means "not yet".
func (r *Reader) Next() (Event, error) {
	for empty := 0; ; {
		if r.advance() {
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
		n, err := r.fill()
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
// leaves the event that Next returned last as it is.
func (r *Reader) Ready() bool { return r.advance() }

// advance looks for an event in what has been read, leaves it in r.ev and reports whether there is
// one. It changes only bytes of that event. When it finds none, r.final may have become ErrTooLong.
func (r *Reader) advance() bool {
	if r.have {
		return true
	}
	ended := r.final == io.EOF //nolint:errorlint // set by us
	if r.final != nil && !ended || !r.begun && !r.begin(ended) {
		return false
	}
	for r.line < r.end {
		if r.skipLF {
			r.skipLF = false
			if r.buf[r.line] == '\n' {
				r.endLine(r.line + 1)
				continue
			}
		}
		stop, found := r.lineEnd()
		if stop-r.start > r.max {
			r.final = ErrTooLong
			return false
		}
		if !found && !ended {
			return false
		}
		next := stop
		if found {
			next++
			r.skipLF = r.buf[stop] == '\r'
		}
		r.odd = r.odd || !found || r.skipLF
		if stop == r.line {
			r.line, r.scan = next, next
			if r.dispatch() {
				return true
			}
			continue
		}
		r.field(r.line, stop)
		r.endLine(next)
	}
	if ended {
		r.odd = true
		return r.dispatch()
	}
	return false
}

// begin skips a byte order mark and reports false when it cannot yet know whether there is one.
func (r *Reader) begin(ended bool) bool {
	const mark = "\ufeff"
	head := r.buf[:min(r.end, len(mark))]
	if len(head) < len(mark) && !ended && string(head) == mark[:len(head)] {
		return false
	}
	if string(head) == mark {
		r.endLine(len(mark))
	}
	r.begun = true
	return true
}

// lineEnd returns the offset of the "\r" or "\n" that ends the current line, or r.end and false.
// Over all calls each byte is searched once.
func (r *Reader) lineEnd() (stop int, found bool) {
	if r.lf < r.scan {
		r.lf = r.scan
	}
	if r.lf < r.end && r.buf[r.lf] != '\n' {
		if n := bytes.IndexByte(r.buf[r.lf:r.end], '\n'); n >= 0 {
			r.lf += n
		} else {
			r.lf = r.end
		}
	}
	if n := bytes.IndexByte(r.buf[r.scan:r.lf], '\r'); n >= 0 {
		r.scan += n
		return r.scan, true
	}
	r.scan = r.lf
	return r.scan, r.scan < r.end
}

// endLine moves to the line that starts at next. As long as the event has neither name nor data,
// there is nothing to keep of the lines before.
func (r *Reader) endLine(next int) {
	r.line, r.scan = next, next
	if !r.hasName && !r.hasData {
		r.start, r.odd = next, false
	}
}

// field takes the line buf[start:stop], which is not empty, into the current event.
func (r *Reader) field(start, stop int) {
	line := r.buf[start:stop]
	switch {
	case len(line) >= 5 && string(line[:5]) == "data:":
		spaced := len(line) > 5 && line[5] == ' '
		start += 5
		if spaced {
			start++
		}
		r.odd = r.odd || !spaced || r.hasData
		r.data(start, stop)
	case string(line) == "data":
		r.odd = true
		r.data(stop, stop)
	case len(line) >= 6 && string(line[:6]) == "event:":
		spaced := len(line) > 7 && line[6] == ' '
		start += 6
		if start < stop && r.buf[start] == ' ' {
			start++
		}
		r.odd = r.odd || !spaced || r.hasName || r.hasData
		r.nameStart, r.nameEnd, r.name, r.hasName = start, stop, nil, true
	case string(line) == "event":
		r.odd = true
		r.nameStart, r.nameEnd, r.name, r.hasName = stop, stop, nil, true
	default: // a comment, an id, a retry, or something unknown
		r.odd = true
	}
}

// data takes buf[start:stop] as data. Further data move forward to the end of the first ones.
func (r *Reader) data(start, stop int) {
	if !r.hasData {
		r.dataStart, r.dataEnd, r.hasData = start, stop, true
		return
	}
	if r.hasName && r.name == nil && r.nameStart > r.dataStart {
		// The name lies where the data will go.
		r.name = append(r.names[0][:0], r.buf[r.nameStart:r.nameEnd]...) //nolint:gocritic // stored back on the next line
		r.names[0] = r.name
	}
	r.buf[r.dataEnd] = '\n'
	r.dataEnd += 1 + copy(r.buf[r.dataEnd+1:], r.buf[start:stop])
}

// dispatch ends the current event at r.line and reports whether it is one to return.
func (r *Reader) dispatch() bool {
	found := r.hasData
	if found {
		r.ev = Event{Data: r.buf[r.dataStart:r.dataEnd:r.dataEnd]}
		switch {
		case r.name != nil:
			r.ev.Name = r.name
			r.names[0], r.names[1] = r.names[1], r.names[0]
		case r.hasName:
			r.ev.Name = r.buf[r.nameStart:r.nameEnd:r.nameEnd]
		}
		if !r.odd {
			r.ev.Raw = r.buf[r.start:r.line:r.line]
		}
		r.have = true
	}
	r.start, r.odd = r.line, false
	r.hasName, r.hasData, r.name = false, false, nil
	return found
}

// fill reads once. All of buf[start:end] is kept.
func (r *Reader) fill() (int, error) {
	if err := r.makeRoom(); err != nil {
		return 0, err
	}
	n, err := r.src.Read(r.buf[r.end:])
	if n < 0 || n > len(r.buf)-r.end {
		return 0, errCount
	}
	r.end += n
	r.peak = max(r.peak, r.end)
	return n, err
}

// makeRoom makes room for a read. Bytes are moved only when at least a quarter of the buffer
// becomes free, and a buffer that grows doubles, so that moving costs a constant per byte read. The
// error is the budget's.
func (r *Reader) makeRoom() error {
	live, size := r.end-r.start, len(r.buf)
	if live == 0 {
		buf := r.buf
		if size == 0 || size > smallBuffer && (size > largeBuffer || r.peak <= size/4) {
			if err := r.hold(size, smallBuffer); err != nil {
				return err
			}
			r.small = smallBuffers.Get().(*[smallBuffer]byte)
			buf = r.small[:]
		}
		r.move(buf)
		r.peak = 0
		return nil
	}
	if size-r.end >= minRead {
		return nil
	}
	if size-live >= size/4 {
		r.move(r.buf)
		return nil
	}
	// One event fills the buffer. It has at most max bytes, and perhaps two of a line's end.
	larger := max(min(2*size, r.max+2*minRead), size+minRead)
	if err := r.hold(size, larger); err != nil {
		return err
	}
	r.move(make([]byte, larger))
	if r.small != nil {
		smallBuffers.Put(r.small)
		r.small = nil
	}
	return nil
}

// hold asks the budget for a buffer of n bytes in place of one of old.
func (r *Reader) hold(old, n int) error {
	if r.room == nil || max(old, n) <= largeBuffer {
		return nil
	}
	return r.room.Hold(n)
}

// move puts what is live to the front of buf, which becomes the buffer.
func (r *Reader) move(buf []byte) {
	copy(buf, r.buf[r.start:r.end])
	d := r.start
	r.buf = buf
	r.start -= d
	r.line -= d
	r.scan -= d
	r.lf -= d
	r.end -= d
	r.nameStart -= d
	r.nameEnd -= d
	r.dataStart -= d
	r.dataEnd -= d
}
