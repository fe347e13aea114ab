package audio

import (
	"bytes"
	"encoding/binary"
	"math"
	"time"
)

// The encoding of the audio.
const (
	SampleRate = 24000
	WordTime   = 60 * time.Millisecond // of speech
)

// WAVHeader returns the header of a WAV file of unknown length: 16 bit, one channel.
func WAVHeader() []byte {
	b := append([]byte(nil), "RIFF\xff\xff\xff\xffWAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"...)
	b = binary.LittleEndian.AppendUint32(b, SampleRate)
	b = binary.LittleEndian.AppendUint32(b, 2*SampleRate)
	return append(b, "\x02\x00\x10\x00data\xff\xff\xff\xff"...)
}

// Tone is a sine wave that continues from piece to piece.
type Tone struct{ phase, Step float64 }

// Next returns the next n samples, 16 bit each.
func (t *Tone) Next(n int) []byte {
	b := make([]byte, 0, 2*n)
	for range n {
		b = binary.LittleEndian.AppendUint16(b, uint16(int16(8000*math.Sin(t.phase))))
		t.phase += t.Step
	}
	return b
}

// SilentFrames returns n silent frames of MPEG-1 layer III at 128 kbit/s and 44.1 kHz.
func SilentFrames(n int) []byte {
	frame := make([]byte, 417)
	copy(frame, "\xff\xfb\x90\xc4")
	return bytes.Repeat(frame, n)
}
