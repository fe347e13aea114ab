package websocket

import (
	"encoding/binary"
	"errors"
	"math"
)

var errAnnounced = errors.New("the announced message is too large")

var errEmptyFrames = errors.New("a message has too many empty frames")

// mostEmptyFrames is the maximum number of empty frames in a message. An empty frame takes time to
// process, but no size limit applies to it. Client libraries send one or two empty frames when they
// flush.
const mostEmptyFrames = 1000

// frameHeads parses the frame headers (RFC 6455, 5.2) in the bytes from a client. The library does
// not expose the announced lengths. Without frameHeads, a message that is too large could be
// rejected only after it has arrived. frameHeads checks only lengths and close reasons. The library
// checks everything else.
type frameHeads struct {
	most  func() int64 // returns the maximum size of a message
	wrong error        // once this error is set, no more bytes are read

	head    [14]byte
	n       int    // number of bytes of head that have arrived
	rest    uint64 // number of payload bytes that remain in the frame
	message uint64 // size of the message announced so far
	empty   int    // number of empty frames in the message so far
	closing closeFrame
}

// scan parses p, and returns how many of its bytes the library may read. If a close frame has an
// invalid reason, scan withholds the frame's last byte, so that the library does not confirm the
// close.
func (f *frameHeads) scan(p []byte) int {
	for at := 0; at < len(p) && f.wrong == nil; {
		if f.rest > 0 {
			n := int(min(f.rest, uint64(len(p)-at)))
			f.wrong = f.closing.collect(p[at : at+n])
			f.rest, at = f.rest-uint64(n), at+n
			if f.wrong != nil {
				return at - 1
			}
			continue
		}
		f.head[f.n] = p[at]
		at++
		if f.n++; f.n >= 2 {
			f.next()
		}
	}
	return len(p)
}

func (f *frameHeads) next() {
	size, length := 2, uint64(f.head[1]&0x7f)
	switch length {
	case 126:
		size, length = 4, uint64(binary.BigEndian.Uint16(f.head[2:]))
	case 127:
		size, length = 10, binary.BigEndian.Uint64(f.head[2:])
	}
	if f.head[1]&0x80 != 0 {
		size += 4
	}
	if f.n < size {
		return
	}
	f.n, f.rest = 0, length
	const control, continuation = 0x8, 0x0
	switch kind := f.head[0] & 0xf; {
	case kind >= control:
		f.closing.begin(f.head[:size], length)
		return
	case kind != continuation:
		f.message, f.empty = 0, 0
	}
	f.message += min(length, math.MaxUint64-f.message)
	if length == 0 {
		f.empty++
	}
	switch {
	case f.message > uint64(f.most()):
		f.wrong = errAnnounced
	case f.empty > mostEmptyFrames:
		f.wrong = errEmptyFrames
	}
}
