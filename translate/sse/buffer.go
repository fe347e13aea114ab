package sse

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

const (
	smallBuffer = 2 << 10  // size of a Reader's first buffer
	largeBuffer = 64 << 10 // a larger buffer is released as soon as it is empty
	minRead     = 512      // a read compacts or grows a buffer with less room than this
)

// smallBuffers holds the buffers of resting Readers.
var smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}

// Source is a source that lends bytes that it already has, and limits the memory of a Reader's
// buffer.
type Source interface {
	io.Reader
	// Lend is called when the Reader has used all its bytes. It returns available bytes, which the
	// Reader owns and may change until the Reader calls Lend or Read again. If Lend returns no
	// bytes, the Reader calls Read.
	Lend() []byte
	// Hold is called before the Reader replaces its buffer with one of n bytes, unless both are
	// small. Hold may refuse a larger buffer. The Reader then stays unchanged, and Next returns the
	// error.
	Hold(n int) error
}

// errCount is the error for a source that breaks the contract of io.Reader.
var errCount = errors.New("read event: invalid count from the source")

// buffer holds the bytes that a Reader has read from its source but not used yet.
type buffer struct {
	source Source             // nil: the source is only an io.Reader
	buf    []byte             // always at full length; nil before the first read and while the Reader rests
	small  *[smallBuffer]byte // the pooled buffer, if buf is that buffer
	lent   bool               // buf belongs to the source

	// Offsets into buf.
	start int // start of the current event; the bytes before it are consumed
	line  int // start of the current line
	scan  int // no line ends in buf[line:scan]
	lf    int // no "\n" in buf[scan:lf]
	end   int // end of the bytes read
	peak  int // the greatest end since the buffer was last empty
}

// drop releases the buffer.
func (b *buffer) drop() {
	if b.small != nil {
		smallBuffers.Put(b.small)
	}
	b.buf, b.small, b.lent = nil, nil, false
}

// lineFeed returns the offset of the next "\n" among the unscanned bytes, or b.end and false. Over
// all calls, each byte is searched once.
func (b *buffer) lineFeed() (at int, found bool) {
	if b.lf < b.scan {
		b.lf = b.scan
	}
	if b.lf < b.end && b.buf[b.lf] != '\n' {
		if n := bytes.IndexByte(b.buf[b.lf:b.end], '\n'); n >= 0 {
			b.lf += n
		} else {
			b.lf = b.end
		}
	}
	return b.lf, b.lf < b.end
}

// lineEnd returns the offset of the "\r" or "\n" that ends the current line, or b.end and false.
// Over all calls, each byte is searched once.
func (b *buffer) lineEnd() (stop int, found bool) {
	b.lineFeed()
	if n := bytes.IndexByte(b.buf[b.scan:b.lf], '\r'); n >= 0 {
		b.scan += n
		return b.scan, true
	}
	b.scan = b.lf
	return b.scan, b.scan < b.end
}

// fill reads once from src, whose events have at most limit bytes. It keeps all of buf[start:end].
func (b *buffer) fill(src io.Reader, limit int) (int, error) {
	if n := b.borrow(); n > 0 {
		return n, nil
	}
	if err := b.makeRoom(limit); err != nil {
		return 0, err
	}
	n, err := src.Read(b.buf[b.end:])
	if n < 0 || n > len(b.buf)-b.end {
		return 0, errCount
	}
	b.end += n
	b.peak = max(b.peak, b.end)
	return n, err
}

// borrow uses the bytes that the source lends as the buffer, and returns their number. It does not
// replace a buffer that has grown, because large events need that buffer.
func (b *buffer) borrow() int {
	if b.source == nil || b.start < b.end || len(b.buf) > smallBuffer && !b.lent {
		return 0
	}
	lent := b.source.Lend()
	if len(lent) > 0 {
		b.drop()
		*b = buffer{source: b.source, buf: lent, lent: true, end: len(lent), peak: len(lent)}
	}
	return len(lent)
}

// own copies the live bytes out of a buffer that belongs to the source.
func (b *buffer) own(limit int) error {
	live := b.end - b.start
	if live+minRead <= smallBuffer {
		b.small = smallBuffers.Get().(*[smallBuffer]byte)
		b.move(b.small[:])
	} else {
		larger := max(min(2*live, limit+2*minRead), live+minRead)
		if err := b.hold(0, larger); err != nil {
			return err
		}
		b.move(make([]byte, larger))
	}
	b.lent = false
	return nil
}

// makeRoom makes room for a read. It moves bytes only if that frees at least a quarter of the
// buffer, and otherwise doubles the buffer, so that moving has a constant cost per byte read. The
// error comes from the source.
func (b *buffer) makeRoom(limit int) error {
	live, size := b.end-b.start, len(b.buf)
	if live == 0 {
		if b.lent {
			size, b.lent = 0, false
		}
		buf := b.buf
		if size == 0 || size > smallBuffer && (size > largeBuffer || b.peak <= size/4) {
			if err := b.hold(size, smallBuffer); err != nil {
				return err
			}
			b.small = smallBuffers.Get().(*[smallBuffer]byte)
			buf = b.small[:]
		}
		b.move(buf)
		b.peak = 0
		return nil
	}
	if b.lent {
		return b.own(limit)
	}
	if size-b.end >= minRead {
		return nil
	}
	if size-live >= size/4 {
		b.move(b.buf)
		return nil
	}
	// One event fills the buffer. An event has at most limit bytes, plus up to two for a line end.
	larger := max(min(2*size, limit+2*minRead), size+minRead)
	if err := b.hold(size, larger); err != nil {
		return err
	}
	b.move(make([]byte, larger))
	if b.small != nil {
		smallBuffers.Put(b.small)
		b.small = nil
	}
	return nil
}

// hold asks the source to allow a buffer of n bytes in place of one of old bytes.
func (b *buffer) hold(old, n int) error {
	if b.source == nil || max(old, n) <= largeBuffer {
		return nil
	}
	return b.source.Hold(n)
}

// move moves the live bytes to the front of buf, which becomes the buffer.
func (b *buffer) move(buf []byte) {
	copy(buf, b.buf[b.start:b.end])
	d := b.start
	b.buf = buf
	b.start -= d
	b.line -= d
	b.scan -= d
	b.lf -= d
	b.end -= d
}
