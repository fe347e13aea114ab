package upstreams

import (
	"math"
	"sync/atomic"
	"time"
)

// Averages are what an upstream's calls have shown of it. Any goroutine may feed and read them.
type Averages struct {
	ttft          average // seconds
	bytesPerToken average
}

// BytesPerToken returns how many bytes of prompt text make a token here, learned from the usage
// that the engine reports; 0 when it has reported none yet.
func (a *Averages) BytesPerToken() float64 { return a.bytesPerToken.value() }

// usualBytesPerToken is where learning starts: English text in the tokens of most models.
const usualBytesPerToken = 4

// LearnTokens feeds BytesPerToken with one call's prompt: its bytes of text and the tokens that the
// engine counted.
func (a *Averages) LearnTokens(bytes, tokens int) {
	if bytes > 0 && tokens > 0 {
		a.bytesPerToken.learn(min(32, max(0.25, float64(bytes)/float64(tokens))), usualBytesPerToken, 0.05)
	}
}

// TTFT returns the moving average of the time to first token, 0 before the first.
func (a *Averages) TTFT() time.Duration { return time.Duration(a.ttft.value() * float64(time.Second)) }

// average is an exponentially weighted moving average. The zero value knows nothing yet.
type average struct{ bits atomic.Uint64 }

// value is 0 as long as nothing is known.
func (a *average) value() float64 { return math.Float64frombits(a.bits.Load()) }

// learn moves the average toward v by weight, starting from start (from v itself when start is 0).
func (a *average) learn(v, start, weight float64) {
	for {
		old := a.bits.Load()
		from := math.Float64frombits(old)
		if old == 0 {
			if from = start; start == 0 {
				from = v
			}
		}
		if a.bits.CompareAndSwap(old, math.Float64bits(from+(v-from)*weight)) {
			return
		}
	}
}
