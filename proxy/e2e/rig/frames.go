package rig

import (
	"encoding/binary"
	"fmt"
	"io"
)

// WebSocketFrame returns a WebSocket frame with the given first byte. It uses no library, so that the frame
// can violate RFC 6455, 5.2.
func WebSocketFrame(first byte, payload string, masked bool) string {
	bit := byte(0)
	if masked {
		bit = 0x80
	}
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, bit|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, bit|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, bit|127), uint64(n))
	}
	if !masked {
		return string(b) + payload
	}
	mask := [4]byte{0x5a, 0x00, 0xff, 0x13}
	b = append(b, mask[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^mask[i&3])
	}
	return string(b)
}

// ReadFrame reads a frame from the edge. It returns an error if the frame is incomplete or masked.
func (c *RawConn) ReadFrame() (op byte, payload string, err error) {
	var head [2]byte
	if _, err := io.ReadFull(c.In, head[:]); err != nil {
		return 0, "", err
	}
	n := uint64(head[1])
	if head[0]&0xf0 != 0x80 || n&0x80 != 0 {
		return 0, "", fmt.Errorf("a frame begins with %x", head)
	}
	var long [8]byte
	switch n {
	case 126:
		_, _ = io.ReadFull(c.In, long[6:])
		n = binary.BigEndian.Uint64(long[:])
	case 127:
		_, _ = io.ReadFull(c.In, long[:])
		n = binary.BigEndian.Uint64(long[:])
	}
	b := make([]byte, n)
	_, err = io.ReadFull(c.In, b)
	return head[0] & 0xf, string(b), err
}
