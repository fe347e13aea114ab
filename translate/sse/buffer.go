package sse

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

const (
	smallBufferBytes = 2 << 10  // size of a Reader's first buffer
	largeBufferBytes = 64 << 10 // a larger buffer is released once it is empty
	minReadSpace     = 512      // a read compacts or grows a buffer with less free space
)

var smallBuffers = sync.Pool{New: func() any { return new([smallBufferBytes]byte) }}

// Source is a reader that lends the bytes that it has already read, and limits the size of a
// Reader's buffer.
type Source interface {
	io.Reader
	// LendBytes returns the available bytes. The Reader calls it when it has consumed all its
	// bytes. The Reader may read and change the lent bytes until it calls LendBytes or Read
	// again. If LendBytes returns no bytes, the Reader calls Read.
	LendBytes() []byte
	// ReserveBuffer reserves n bytes for the Reader's next buffer. The Reader calls it before it
	// replaces its buffer, unless the old and the new buffer are small. If ReserveBuffer returns
	// an error, NextEvent returns the error.
	ReserveBuffer(n int) error
}

// errInvalidCount means that the source violates the contract of io.Reader.
var errInvalidCount = errors.New("read event: invalid count from the source")

// readBuffer contains the bytes that a Reader has read from its source but not yet consumed.
type readBuffer struct {
	source Source                  // nil if the source does not implement Source
	buf    []byte                  // always at full length; nil before the first read and after PrepareForWait
	small  *[smallBufferBytes]byte // the pooled array behind buf, if any
	lent   bool                    // the source owns buf

	// Offsets into buf.
	start        int // start of the current event; the bytes before it are consumed
	line         int // start of the current line
	scannedTo    int // buf[line:scannedTo] contains no line end
	lfSearchedTo int // buf[scannedTo:lfSearchedTo] contains no "\n"
	end          int // end of the bytes read
	peak         int // the maximum of end since the buffer was last empty
}

func (b *readBuffer) release() {
	if b.small != nil {
		smallBuffers.Put(b.small)
	}
	b.buf, b.small, b.lent = nil, nil, false
}

// lineFeed returns the offset of the next "\n" at or after scannedTo, or b.end and false. It
// searches each byte only once.
func (b *readBuffer) lineFeed() (at int, found bool) {
	if b.lfSearchedTo < b.scannedTo {
		b.lfSearchedTo = b.scannedTo
	}
	if b.lfSearchedTo < b.end && b.buf[b.lfSearchedTo] != '\n' {
		if n := bytes.IndexByte(b.buf[b.lfSearchedTo:b.end], '\n'); n >= 0 {
			b.lfSearchedTo += n
		} else {
			b.lfSearchedTo = b.end
		}
	}
	return b.lfSearchedTo, b.lfSearchedTo < b.end
}

// lineEnd returns the offset of the "\r" or "\n" that ends the current line, or b.end and false. It
// searches each byte only once.
func (b *readBuffer) lineEnd() (stop int, found bool) {
	b.lineFeed()
	if n := bytes.IndexByte(b.buf[b.scannedTo:b.lfSearchedTo], '\r'); n >= 0 {
		b.scannedTo += n
		return b.scannedTo, true
	}
	b.scannedTo = b.lfSearchedTo
	return b.scannedTo, b.scannedTo < b.end
}

// fill reads once from src into the buffer and preserves buf[start:end]. limit is the maximum
// length of an event.
func (b *readBuffer) fill(src io.Reader, limit int) (int, error) {
	if n := b.borrowBytes(); n > 0 {
		return n, nil
	}
	if err := b.makeRoom(limit); err != nil {
		return 0, err
	}
	n, err := src.Read(b.buf[b.end:])
	if n < 0 || n > len(b.buf)-b.end {
		return 0, errInvalidCount
	}
	b.end += n
	b.peak = max(b.peak, b.end)
	return n, err
}

// borrowBytes uses the bytes that the source lends as the buffer and returns their number. It does not
// replace a buffer that has grown, because large events need that buffer.
func (b *readBuffer) borrowBytes() int {
	if b.source == nil || b.start < b.end || len(b.buf) > smallBufferBytes && !b.lent {
		return 0
	}
	lent := b.source.LendBytes()
	if len(lent) > 0 {
		b.release()
		b.useLentBytes(lent)
	}
	return len(lent)
}

// useLentBytes makes the lent bytes the contents of the buffer, which must be empty.
func (b *readBuffer) useLentBytes(lent []byte) {
	*b = readBuffer{source: b.source, buf: lent, lent: true, end: len(lent), peak: len(lent)}
}

// copyLentBytes copies the unconsumed bytes from a lent buffer to a buffer that the Reader owns.
func (b *readBuffer) copyLentBytes(limit int) error {
	live := b.end - b.start
	if live+minReadSpace <= smallBufferBytes {
		b.small = smallBuffers.Get().(*[smallBufferBytes]byte)
		b.move(b.small[:])
	} else {
		larger := max(min(2*live, limit+2*minReadSpace), live+minReadSpace)
		if err := b.reserveGrowth(0, larger); err != nil {
			return err
		}
		b.move(make([]byte, larger))
	}
	b.lent = false
	return nil
}

// makeRoom moves the unconsumed bytes to the front if that frees at least a quarter of the buffer.
// Otherwise it doubles the buffer. The cost of moving is therefore constant per byte read. Any
// error comes from the source.
func (b *readBuffer) makeRoom(limit int) error {
	live, size := b.end-b.start, len(b.buf)
	if live == 0 {
		if b.lent {
			size, b.lent = 0, false
		}
		buf := b.buf
		if size == 0 || size > smallBufferBytes && (size > largeBufferBytes || b.peak <= size/4) {
			if err := b.reserveGrowth(size, smallBufferBytes); err != nil {
				return err
			}
			b.small = smallBuffers.Get().(*[smallBufferBytes]byte)
			buf = b.small[:]
		}
		b.move(buf)
		b.peak = 0
		return nil
	}
	if b.lent {
		return b.copyLentBytes(limit)
	}
	if size-b.end >= minReadSpace {
		return nil
	}
	if size-live >= size/4 {
		b.move(b.buf)
		return nil
	}
	// One event fills the buffer. It has at most limit bytes, plus up to two for a line end.
	larger := max(min(2*size, limit+2*minReadSpace), size+minReadSpace)
	if err := b.reserveGrowth(size, larger); err != nil {
		return err
	}
	b.move(make([]byte, larger))
	if b.small != nil {
		smallBuffers.Put(b.small)
		b.small = nil
	}
	return nil
}

// reserveGrowth asks the source for permission to replace the buffer. old and n are the sizes of
// the old and the new buffer.
func (b *readBuffer) reserveGrowth(old, n int) error {
	if b.source == nil || max(old, n) <= largeBufferBytes {
		return nil
	}
	return b.source.ReserveBuffer(n)
}

// move copies the unconsumed bytes to the front of buf, which becomes the buffer.
func (b *readBuffer) move(buf []byte) {
	copy(buf, b.buf[b.start:b.end])
	d := b.start
	b.buf = buf
	b.start -= d
	b.line -= d
	b.scannedTo -= d
	b.lfSearchedTo -= d
	b.end -= d
}
