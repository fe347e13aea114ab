package sim

import (
	"bytes"
	"compress/gzip"
	"net"
	"strconv"
	"time"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/textgen"
)

// bodyWriter writes a response to the socket. It can send the body chunked, compressed, in pieces,
// or as a fault requires.
type bodyWriter struct {
	nc          net.Conn
	client      *clientWatch
	t           *fault.Effects
	out         []byte // bytes to write next
	gz          *gzip.Writer
	gzOut       bytes.Buffer
	framing     fault.Framing
	headWritten bool
	noBody      bool
	broken      bool // a fault ended the response
	writeFailed bool // a write failed, so the client has not read the whole response
	rng         uint64
	seed        uint64
}

// isEnded reports whether nothing more can be written to the response.
func (w *bodyWriter) isEnded() bool { return w.client.lost || w.broken }

// appendBody appends p to the body. If the body is chunked, p becomes one chunk.
func (w *bodyWriter) appendBody(p []byte) {
	if w.noBody || len(p) == 0 || w.isEnded() {
		return
	}
	if w.gz != nil {
		_, _ = w.gz.Write(p)
		_ = w.gz.Flush()
		p = bytes.Clone(w.gzOut.Bytes())
		w.gzOut.Reset()
	}
	if w.t.Piece == 0 {
		w.appendFramed(p)
		return
	}
	for len(p) > 0 && !w.client.lost {
		n := min(len(p), 1+int(w.nextRandom()%uint64(w.t.Piece)))
		w.appendFramed(p[:n])
		w.flush()
		p = p[n:]
		if w.t.PieceGap > 0 {
			w.client.pause(w.t.PieceGap)
		}
	}
}

func (w *bodyWriter) isChunked() bool {
	return w.framing == fault.FramingChunks || w.framing == fault.FramingTEAndLength
}

func (w *bodyWriter) appendFramed(p []byte) {
	if !w.isChunked() {
		w.out = append(w.out, p...)
		return
	}
	w.out = strconv.AppendUint(w.out, uint64(len(p)), 16)
	w.out = append(append(append(w.out, "\r\n"...), p...), "\r\n"...)
}

// flush writes the buffered bytes. It returns false if the client left or a fault ended the
// response.
func (w *bodyWriter) flush() bool {
	if len(w.out) > 0 && !w.client.lost {
		if w.t.DripBody > 0 && w.headWritten {
			w.writeByteByByte(w.t.DripBody)
		} else if _, err := w.nc.Write(w.out); err != nil {
			w.writeFailed = true
			w.client.lost = !w.client.stubborn
		}
	}
	w.out = w.out[:0]
	return !w.isEnded()
}

func (w *bodyWriter) writeByteByByte(gap time.Duration) {
	for i := range w.out {
		if i > 0 && !w.client.pause(gap) {
			break
		}
		if _, err := w.nc.Write(w.out[i : i+1]); err != nil {
			w.client.lost = true
			break
		}
	}
	w.out = w.out[:0]
}

// appendEnd appends the end of the body, and any bytes that a fault adds after the end.
func (w *bodyWriter) appendEnd() {
	if w.gz != nil {
		_ = w.gz.Close()
		if p := bytes.Clone(w.gzOut.Bytes()); len(p) > 0 && !w.noBody {
			w.appendFramed(p)
		}
	}
	if w.isChunked() && !w.noBody {
		w.out = append(w.out, "0\r\n\r\n"...)
	}
	w.out = append(w.out, w.t.Surplus...)
}

// repeatUntilClosed writes the same bytes until the client leaves or has read a gigabyte. The limit
// protects the machine against a client that never stops reading.
func (w *bodyWriter) repeatUntilClosed(p []byte) {
	for sent := 0; sent < 1<<30 && !w.client.lost; sent += len(p) {
		if w.framing == fault.FramingChunks {
			w.appendFramed(p)
		} else {
			w.out = append(w.out, p...)
		}
		if w.client.hasLeft() || !w.flush() {
			return
		}
	}
}

// padBegin and padEnd enclose the filler in the JSON member that makes a response larger.
const padBegin, padEnd = `"padding":"`, `",`

// paddingSize returns how many bytes a fault adds to a JSON body.
func (w *bodyWriter) paddingSize(body []byte) int {
	if w.t.Pad == 0 || len(body) < 3 || body[0] != '{' || w.t.Gzip {
		return 0
	}
	return max(w.t.Pad-len(body), len(padBegin)+len(padEnd))
}

// writePadded writes a JSON object with n additional bytes. It never holds all of these bytes in
// memory.
func (w *bodyWriter) writePadded(body []byte, n int) {
	filler := bytes.Repeat([]byte("w"), 64<<10)
	fill := func() {
		for left := n - len(padBegin) - len(padEnd); left > 0 && w.flush() && !w.client.hasLeft(); left -= len(filler) {
			w.appendBody(filler[:min(left, len(filler))])
		}
	}
	if w.t.PadEnd {
		w.appendBody(append(body[:len(body)-1:len(body)-1], ',')) // replaces the comma in padEnd
		w.appendBody([]byte(padBegin))
		fill()
		w.appendBody([]byte(`"}`))
		return
	}
	w.appendBody([]byte("{" + padBegin))
	fill()
	w.appendBody(append([]byte(padEnd), body[1:]...))
}

// nextRandom returns pseudo-random numbers that determine how a response is split into pieces. The
// numbers are the same in every run.
func (w *bodyWriter) nextRandom() uint64 {
	w.rng++
	return textgen.MixHash(w.rng, w.seed)
}
