package websocket

import (
	"errors"
	"unicode/utf8"
)

// errCloseReason is the error for a close frame whose reason is not valid UTF-8. RFC 6455, 8.1
// requires the close code 1007, but the library would confirm the close frame as usual.
var errCloseReason = errors.New("the reason of a close is not UTF-8")

// closeFrameCollector collects the payload of a close frame, which is a two-byte code followed by the
// reason.
type closeFrameCollector struct {
	mask  [4]byte
	bytes []byte // unmasked payload; nil if no close frame is being read
}

// maxControlPayload is the maximum length of a control frame's payload (RFC 6455, 5.5).
const maxControlPayload = 125

// start starts to collect a close frame. It ignores a malformed close frame, because the library
// rejects it.
func (c *closeFrameCollector) start(head []byte, length uint64) {
	masked := head[1]&0x80 != 0
	if head[0] != 0x88 || !masked || length <= 2 || length > maxControlPayload {
		return
	}
	c.mask = [4]byte(head[len(head)-4:])
	c.bytes = make([]byte, 0, length)
}

// collect collects payload bytes. After the last byte, it returns an error if the reason is not
// valid UTF-8.
func (c *closeFrameCollector) collect(p []byte) error {
	if c.bytes == nil {
		return nil
	}
	for _, b := range p {
		c.bytes = append(c.bytes, b^c.mask[len(c.bytes)&3])
	}
	if len(c.bytes) < cap(c.bytes) {
		return nil
	}
	valid := utf8.Valid(c.bytes[2:])
	c.bytes = nil
	if !valid {
		return errCloseReason
	}
	return nil
}
