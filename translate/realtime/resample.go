package realtime

import (
	"math"
	"sync"
)

// resampler converts audio from 24 to 16 kHz. It doubles the rate, removes frequencies above 8 kHz
// with a windowed sinc filter, and outputs every third sample. The zero value is ready for use.
type resampler struct {
	history []int16 // the last input samples, which later output depends on
	nextPos int     // position of the next output sample relative to history, at 48 kHz
}

// filterHalfLength is the length of the filter on each side, in samples at 48 kHz.
const filterHalfLength = 48

var resampleFilter = sync.OnceValue(func() *[2*filterHalfLength + 1]float32 {
	const cut = 7600.0 / 48000 // slightly below 8 kHz, because the filter is not infinitely steep
	var h [2*filterHalfLength + 1]float32
	for i := range h {
		x := float64(i - filterHalfLength)
		sinc := 2 * cut
		if x != 0 {
			sinc = math.Sin(2*math.Pi*cut*x) / (math.Pi * x)
		}
		window := 0.5 + 0.5*math.Cos(math.Pi*x/(filterHalfLength+1))
		h[i] = float32(2 * sinc * window) // times 2, because every second sample at 48 kHz is zero
	}
	return &h
})

func (r *resampler) append(dst, in []int16) []int16 {
	h := resampleFilter()
	if r.history == nil {
		r.history = make([]int16, filterHalfLength/2, filterHalfLength) // silence before the start
		r.nextPos = filterHalfLength
	}
	r.history = append(r.history, in...)
	for ; (r.nextPos+filterHalfLength)/2 < len(r.history); r.nextPos += 3 {
		sum := float32(0)
		for k := (r.nextPos - filterHalfLength + 1) / 2; 2*k <= r.nextPos+filterHalfLength; k++ {
			sum += float32(r.history[k]) * h[r.nextPos-2*k+filterHalfLength]
		}
		dst = append(dst, int16(max(math.MinInt16, min(math.MaxInt16, math.Round(float64(sum))))))
	}
	used := (r.nextPos - filterHalfLength) / 2
	r.history = r.history[:copy(r.history, r.history[used:])]
	r.nextPos -= 2 * used
	return dst
}
