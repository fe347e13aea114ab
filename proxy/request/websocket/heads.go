package websocket

import (
	"encoding/binary"
	"errors"
	"math"
)

// errAnnounced stops reading a message whose frames announce more bytes than allowed.
var errAnnounced = errors.New("the announced message is too large")

// errEmptyFrames stops reading a message with more empty frames than mostEmptyFrames.
var errEmptyFrames = errors.New("a message has too many empty frames")

// mostEmptyFrames is the maximum number of empty frames in a message. Each empty frame costs work,
// and no limit on bytes limits their number. A library sends one or two when it flushes.
const mostEmptyFrames = 1000

// frameHeads tracks the heads of frames (RFC 6455, 5.2) in the bytes that a client sends. The
// library does not expose lengths. Without frameHeads, a message that is too large could be refused
// only after its bytes have arrived. frameHeads checks lengths and the reason of a close. The
// library finds all other violations of the protocol.
type frameHeads struct {
	most  func() int64 // the maximum length of a message
	wrong error        // the violation, after which nothing is read

	head    [14]byte
	n       int    // bytes of head that have arrived
	rest    uint64 // remaining bytes of the frame's payload
	message uint64 // bytes announced for the message so far
	empty   int    // empty frames of the message so far
	closing closeFrame
}

// scan tracks bytes as they arrive. It returns how many of these bytes the library may see. These
// are all bytes except the last byte of a close frame whose reason is invalid. Without that byte
// the library does not confirm the close.
func (f *frameHeads) scan(p []byte) int {
	for at := 0; at < len(p) && f.wrong == nil; {
		if f.rest > 0 {
			n := int(min(f.rest, uint64(len(p)-at)))
			f.wrong = f.closing.take(p[at : at+n])
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

// next starts the payload once the head is complete.
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
