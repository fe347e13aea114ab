package bench

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"os"
)

// media are the images and the sound of a workload, made once.
type media struct {
	images [][]byte // data URLs
	audio  []byte   // a WAV file
	audioS float64
}

const (
	imageKinds  = 8
	toneSeconds = 5
)

func newMedia(s *workloadSpec) (*media, error) {
	m := &media{}
	if s.images > 0 {
		for i := range imageKinds {
			url, err := dataURL(rand.New(rand.NewPCG(s.seed, uint64(i))), s.imageW, s.imageH)
			if err != nil {
				return nil, err
			}
			m.images = append(m.images, url)
		}
	}
	for _, x := range s.mix {
		if x.d.name != "transcription" {
			continue
		}
		if s.audioFile == "" {
			m.audio, m.audioS = tone(toneSeconds), toneSeconds
			break
		}
		var err error
		if m.audio, err = os.ReadFile(s.audioFile); err != nil {
			return nil, usageError("--audio-file: %v", err)
		}
		if m.audioS = wavSeconds(m.audio); m.audioS == 0 {
			return nil, usageError("--audio-file %s: not a WAV file of plain samples", s.audioFile)
		}
		break
	}
	return m, nil
}

// pick returns n images.
func (m *media) pick(rng *rand.Rand, n int) [][]byte {
	var out [][]byte
	for range n {
		out = append(out, m.images[rng.IntN(len(m.images))])
	}
	return out
}

// dataURL returns a picture of soft colours with some grain, which is about as large as a photograph of that size.
func dataURL(rng *rand.Rand, w, h int) ([]byte, error) {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	a, b := rng.Float64()*6, rng.Float64()*6
	for y := range h {
		for x := range w {
			grain := rng.IntN(24)
			wave := func(f float64) uint8 {
				return uint8(110 + 90*math.Sin(f+float64(x)/float64(w)*a+float64(y)/float64(h)*b) + float64(grain))
			}
			img.SetRGBA(x, y, color.RGBA{wave(0), wave(2), wave(4), 255})
		}
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, img, &jpeg.Options{Quality: 80}); err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode([]byte("data:image/jpeg;base64,"), file.Bytes()), nil
}

const sampleRate = 16000

// tone returns a WAV file: one channel of 16-bit samples, a tone that comes and goes.
func tone(seconds float64) []byte {
	n := int(seconds * sampleRate)
	out := make([]byte, 0, 44+2*n)
	out = append(out, "RIFF"...)
	out = binary.LittleEndian.AppendUint32(out, uint32(36+2*n))
	out = append(out, "WAVEfmt "...)
	for _, v := range []uint32{16, 1 | 1<<16, sampleRate, 2 * sampleRate, 2 | 16<<16} {
		out = binary.LittleEndian.AppendUint32(out, v)
	}
	out = append(out, "data"...)
	out = binary.LittleEndian.AppendUint32(out, uint32(2*n))
	for i := range n {
		t := float64(i) / sampleRate
		v := 8000 * math.Sin(2*math.Pi*220*t) * math.Sin(2*math.Pi*1.5*t)
		out = binary.LittleEndian.AppendUint16(out, uint16(int16(v)))
	}
	return out
}

// wavSeconds returns the length of a WAV file; 0 when it is none.
func wavSeconds(b []byte) float64 {
	if len(b) < 12 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WAVE" {
		return 0
	}
	rate := uint32(0)
	for b = b[12:]; len(b) >= 8; {
		kind, size := string(b[:4]), binary.LittleEndian.Uint32(b[4:])
		b = b[8:]
		switch {
		case kind == "fmt " && len(b) >= 12:
			rate = binary.LittleEndian.Uint32(b[8:])
		case kind == "data" && rate > 0:
			return float64(min(uint64(size), uint64(len(b)))) / float64(rate)
		}
		skip := uint64(size) + uint64(size&1)
		if skip > uint64(len(b)) {
			return 0
		}
		b = b[skip:]
	}
	return 0
}
