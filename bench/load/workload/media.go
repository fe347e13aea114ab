package workload

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"math/rand/v2"

	"penstock/bench/load/client"
)

// mediaPool contains the images and the audio of a workload.
type mediaPool struct {
	images [][]byte // data URLs
	audio  []byte   // a WAV file
	audioS float64
}

const (
	distinctImages = 8
	toneSeconds    = 5
)

func newMediaPool(s *Spec) (*mediaPool, error) {
	m := &mediaPool{}
	if s.Images > 0 {
		for i := range distinctImages {
			url, err := randomImageURL(rand.New(rand.NewPCG(s.Seed, uint64(i))))
			if err != nil {
				return nil, err
			}
			m.images = append(m.images, url)
		}
	}
	for _, x := range s.Mix {
		if x.D.Name == "transcription" {
			m.audio, m.audioS = client.ToneWAV(toneSeconds), toneSeconds
		}
	}
	return m, nil
}

func (m *mediaPool) pickImages(rng *rand.Rand, n int) [][]byte {
	var out [][]byte
	for range n {
		out = append(out, m.images[rng.IntN(len(m.images))])
	}
	return out
}

// randomImageURL returns an image with soft colours and some grain, as a data URL. The data is
// about as large as that of a photograph with the same dimensions.
func randomImageURL(rng *rand.Rand) ([]byte, error) {
	const w, h = 512, 512
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
