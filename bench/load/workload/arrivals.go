package workload

import (
	"math"
	"math/rand/v2"
	"time"
)

// Pacer determines when requests are due. Next returns the time of the next request, measured from
// the start of the stage, or false after the last one. The times do not decrease. A closed loop
// does not use a Pacer. A Pacer is not safe for concurrent use.
type Pacer interface {
	Next() (time.Duration, bool)
}

// gammaPacer draws gaps from a gamma distribution, like vLLM's tool. Shape 1 results in Poisson
// arrivals, a larger shape in steadier arrivals, a smaller shape in burstier arrivals, and infinity
// in constant gaps.
type gammaPacer struct {
	rng   *rand.Rand
	rate  float64 // requests per second
	shape float64
	at    float64 // in seconds
	scale float64 // factor for all times
	left  int     // remaining arrivals; negative if there is no end
}

// NewGammaPacer returns a pacer with count arrivals. If count is 0, the pacer never ends. If count
// is not 0, the times are scaled as in vLLM's tool, so that the last arrival is exactly at
// count/rate. Without scaling, the rate of a short run would differ from the requested rate.
func NewGammaPacer(seed uint64, rate, shape float64, count int) *gammaPacer {
	p := &gammaPacer{rng: rand.New(rand.NewPCG(seed, 1)), rate: rate, shape: shape, scale: 1, left: -1}
	if count > 0 {
		p.left = count
		if !math.IsInf(shape, 1) && !math.IsInf(rate, 1) {
			twin := &gammaPacer{rng: rand.New(rand.NewPCG(seed, 1)), rate: rate, shape: shape, scale: 1, left: count}
			var last time.Duration
			for at, ok := twin.Next(); ok; at, ok = twin.Next() {
				last = at
			}
			if last > 0 {
				p.scale = float64(count) / rate / last.Seconds()
			}
		}
	}
	return p
}

// Next implements Pacer.
func (p *gammaPacer) Next() (time.Duration, bool) {
	if p.left == 0 {
		return 0, false
	}
	p.left--
	switch {
	case math.IsInf(p.rate, 1):
		return 0, true
	case math.IsInf(p.shape, 1):
		p.at += 1 / p.rate
	default:
		p.at += GammaVariate(p.rng, p.shape) / (p.rate * p.shape)
	}
	return secondsDuration(p.at * p.scale), true
}

// RampPacer is a Pacer whose rate changes linearly during a given time and then stays constant. The
// expected number of arrivals is the integral of the rate. Measured in expected arrivals, the gaps
// are constant or gamma-distributed.
type RampPacer struct {
	Rng      *rand.Rand
	Shape    float64
	From, To float64
	Over     float64 // in seconds
	sum      float64 // number of arrivals expected so far
	Left     int
}

// Next implements Pacer.
func (p *RampPacer) Next() (time.Duration, bool) {
	if p.Left == 0 {
		return 0, false
	}
	p.Left--
	if math.IsInf(p.Shape, 1) {
		p.sum++
	} else {
		p.sum += GammaVariate(p.Rng, p.Shape) / p.Shape
	}
	return secondsDuration(p.arrivalTime(p.sum)), true
}

// arrivalTime returns the time by which n arrivals are expected.
func (p *RampPacer) arrivalTime(n float64) float64 {
	whole := p.Over * (p.From + p.To) / 2 // number of arrivals during the ramp
	switch {
	case n > whole:
		return p.Over + (n-whole)/p.To
	case p.From == p.To:
		return n / p.From
	}
	slope := (p.To - p.From) / p.Over
	return (math.Sqrt(p.From*p.From+2*slope*n) - p.From) / slope
}

// ReplayPacer is a Pacer that replays recorded times.
type ReplayPacer struct{ times []time.Duration }

// Next implements Pacer.
func (p *ReplayPacer) Next() (time.Duration, bool) {
	if len(p.times) == 0 {
		return 0, false
	}
	at := p.times[0]
	p.times = p.times[1:]
	return at, true
}

// GammaVariate returns a gamma-distributed value with the given shape and scale 1, using the method
// of Marsaglia and Tsang.
func GammaVariate(rng *rand.Rand, shape float64) float64 {
	if shape == 1 {
		return rng.ExpFloat64()
	}
	if shape < 1 {
		return GammaVariate(rng, shape+1) * math.Pow(1-rng.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		u := 1 - rng.Float64()
		if math.Log(u) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

func secondsDuration(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
