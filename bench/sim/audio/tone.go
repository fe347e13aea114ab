package audio

import (
	"bytes"
	"encoding/binary"
	"math"
	"time"
)

// Encoding of the audio.
const (
	SampleRate = 24000
	WordTime   = 60 * time.Millisecond // duration of a spoken word
)

// WAVHeader returns the header of a 16-bit mono WAV file of unknown length.
func WAVHeader() []byte {
	b := append([]byte(nil), "RIFF\xff\xff\xff\xffWAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"...)
	b = binary.LittleEndian.AppendUint32(b, SampleRate)
	b = binary.LittleEndian.AppendUint32(b, 2*SampleRate)
	return append(b, "\x02\x00\x10\x00data\xff\xff\xff\xff"...)
}

// Tone is a sine wave. Its phase continues from one piece of audio to the next.
type Tone struct{ phase, Step float64 }

// NextSamples returns the next n 16-bit samples.
func (t *Tone) NextSamples(n int) []byte {
	b := make([]byte, 0, 2*n)
	for range n {
		b = binary.LittleEndian.AppendUint16(b, uint16(int16(8000*math.Sin(t.phase))))
		t.phase += t.Step
	}
	return b
}

// SilentFrames returns n silent MP3 frames at 128 kbit/s and 44.1 kHz.
func SilentFrames(n int) []byte {
	frame := make([]byte, 417)
	copy(frame, "\xff\xfb\x90\xc4")
	return bytes.Repeat(frame, n)
}
