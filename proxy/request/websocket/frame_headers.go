package websocket

import (
	"encoding/binary"
	"errors"
	"math"
)

var errAnnouncedTooLarge = errors.New("the announced message is too large")

var errEmptyFrames = errors.New("a message has too many empty frames")

// maxEmptyFrames is the maximum number of empty frames in a message. An empty frame takes time to
// process, but no size limit applies to it. Client libraries send one or two empty frames when they
// flush.
const maxEmptyFrames = 1000

// frameHeaderScanner parses the frame headers (RFC 6455, 5.2) in the bytes from a client, because
// the library does not expose the announced lengths. Without frameHeaderScanner, a message that is
// too large could be rejected only after it has arrived. frameHeaderScanner checks only lengths and
// close reasons. The library checks everything else.
type frameHeaderScanner struct {
	maxMessage func() int64 // returns the maximum size of a message
	violation  error        // once this error is set, no more bytes are read

	frameHeader  [14]byte
	n            int    // number of bytes of frameHeader that have arrived
	payloadLeft  uint64 // number of payload bytes that remain in the frame
	messageBytes uint64 // size of the message as announced so far
	emptyFrames  int    // number of empty frames in the message so far
	closeFrame   closeFrameCollector
}

// scan parses p, and returns how many of its bytes the library may read. If a close frame has an
// invalid reason, scan withholds the frame's last byte, so that the library does not confirm the
// close.
func (f *frameHeaderScanner) scan(p []byte) int {
	for at := 0; at < len(p) && f.violation == nil; {
		if f.payloadLeft > 0 {
			n := int(min(f.payloadLeft, uint64(len(p)-at)))
			f.violation = f.closeFrame.collect(p[at : at+n])
			f.payloadLeft, at = f.payloadLeft-uint64(n), at+n
			if f.violation != nil {
				return at - 1
			}
			continue
		}
		f.frameHeader[f.n] = p[at]
		at++
		if f.n++; f.n >= 2 {
			f.parseFrameHeader()
		}
	}
	return len(p)
}

func (f *frameHeaderScanner) parseFrameHeader() {
	size, length := 2, uint64(f.frameHeader[1]&0x7f)
	switch length {
	case 126:
		size, length = 4, uint64(binary.BigEndian.Uint16(f.frameHeader[2:]))
	case 127:
		size, length = 10, binary.BigEndian.Uint64(f.frameHeader[2:])
	}
	if f.frameHeader[1]&0x80 != 0 {
		size += 4
	}
	if f.n < size {
		return
	}
	f.n, f.payloadLeft = 0, length
	const control, continuation = 0x8, 0x0
	switch kind := f.frameHeader[0] & 0xf; {
	case kind >= control:
		f.closeFrame.start(f.frameHeader[:size], length)
		return
	case kind != continuation:
		f.messageBytes, f.emptyFrames = 0, 0
	}
	f.messageBytes += min(length, math.MaxUint64-f.messageBytes)
	if length == 0 {
		f.emptyFrames++
	}
	switch {
	case f.messageBytes > uint64(f.maxMessage()):
		f.violation = errAnnouncedTooLarge
	case f.emptyFrames > maxEmptyFrames:
		f.violation = errEmptyFrames
	}
}
