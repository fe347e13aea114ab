package client

import (
	"bytes"
	"encoding/binary"
	"math"
)

const audioSampleRate = 16000

// ToneWAV returns a WAV file (16-bit mono) with a tone whose volume rises and falls.
func ToneWAV(seconds float64) []byte {
	n := int(seconds * audioSampleRate)
	out := make([]byte, 0, 44+2*n)
	out = append(out, "RIFF"...)
	out = binary.LittleEndian.AppendUint32(out, uint32(36+2*n))
	out = append(out, "WAVEfmt "...)
	for _, v := range []uint32{16, 1 | 1<<16, audioSampleRate, 2 * audioSampleRate, 2 | 16<<16} {
		out = binary.LittleEndian.AppendUint32(out, v)
	}
	out = append(out, "data"...)
	out = binary.LittleEndian.AppendUint32(out, uint32(2*n))
	for i := range n {
		t := float64(i) / audioSampleRate
		v := 8000 * math.Sin(2*math.Pi*220*t) * math.Sin(2*math.Pi*1.5*t)
		out = binary.LittleEndian.AppendUint16(out, uint16(int16(v)))
	}
	return out
}

// audioStartFinder finds where the audio starts in a response. In a WAV file, the audio follows the
// header, which is often sent before there is any audio. In other formats, the audio starts at the
// first byte. The zero value is ready to use.
type audioStartFinder struct {
	head []byte // the bytes received so far
}

// maxWAVHeader is the maximum length of a WAV header. Bytes after this length count as audio.
const maxWAVHeader = 64 << 10

// addPiece adds the next piece of the response, and reports whether any audio has arrived so far.
func (h *audioStartFinder) addPiece(piece []byte) bool {
	h.head = append(h.head, piece...)
	riff := []byte("RIFF")
	if n := min(len(h.head), len(riff)); !bytes.Equal(h.head[:n], riff[:n]) {
		return true
	}
	have := uint64(len(h.head))
	for at := uint64(12); at+8 <= have; { // after RIFF, the size and WAVE
		size := uint64(binary.LittleEndian.Uint32(h.head[at+4:]))
		if string(h.head[at:at+4]) == "data" {
			return have > at+8
		}
		at += 8 + size + size&1
	}
	return have > maxWAVHeader
}
