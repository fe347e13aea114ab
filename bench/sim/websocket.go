package sim

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // RFC 6455 requires it
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
)

// webSocket is the engine's end of a WebSocket connection (RFC 6455). It implements only the parts
// that realtime sessions need. It does not use the edge's WebSocket library, because the simulator
// and the edge must not share bugs.
type webSocket struct {
	in  *bufio.Reader
	out net.Conn
}

const maxMessageBytes = 64 << 20

// Opcodes of frames.
const (
	opcodeContinuation = 0x0
	opcodeText         = 0x1
	opcodeClose        = 0x8
	opcodePing         = 0x9
)

var (
	errMalformedFrame = errors.New("malformed frame")
	errPeerClosed     = errors.New("the peer has closed")
)

// handshakeAnswer returns the response to a handshake with the given key.
func handshakeAnswer(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // see the import
	return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n"
}

// read returns the next message. It answers pings and the close frame.
func (w *webSocket) read() ([]byte, error) {
	var message []byte
	for {
		head, err := w.readBytes(2)
		if err != nil {
			return nil, err
		}
		final, op, length := head[0]&0x80 != 0, head[0]&0xf, uint64(head[1]&0x7f)
		if head[1]&0x80 == 0 || head[0]&0x70 != 0 {
			return nil, errMalformedFrame
		}
		switch length {
		case 126:
			more, err := w.readBytes(2)
			if err != nil {
				return nil, err
			}
			length = uint64(binary.BigEndian.Uint16(more))
		case 127:
			more, err := w.readBytes(8)
			if err != nil {
				return nil, err
			}
			length = binary.BigEndian.Uint64(more)
		}
		mask, err := w.readBytes(4)
		if err != nil {
			return nil, err
		}
		if length > maxMessageBytes || uint64(len(message))+length > maxMessageBytes {
			return nil, errMalformedFrame
		}
		payload, err := w.readBytes(int(length))
		if err != nil {
			return nil, err
		}
		for i := range payload {
			payload[i] ^= mask[i&3]
		}
		switch op {
		case opcodeClose:
			_ = w.write(opcodeClose, payload)
			return nil, errPeerClosed
		case opcodePing:
			if err := w.write(0xa, payload); err != nil {
				return nil, err
			}
		case opcodeText, opcodeContinuation:
			if message = append(message, payload...); final {
				return message, nil
			}
		}
	}
}

func (w *webSocket) readBytes(n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(w.in, b)
	return b, err
}

func (w *webSocket) write(op byte, payload []byte) error {
	frame := []byte{0x80 | op}
	switch n := len(payload); {
	case n < 126:
		frame = append(frame, byte(n))
	case n <= 0xffff:
		frame = binary.BigEndian.AppendUint16(append(frame, 126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 127), uint64(n))
	}
	_, err := w.out.Write(append(frame, payload...))
	return err
}

func (r *request) requestsWebSocket() bool {
	return r.method == "GET" && strings.EqualFold(r.headerValue("Upgrade"), "websocket") && r.headerValue("Sec-WebSocket-Key") != ""
}
