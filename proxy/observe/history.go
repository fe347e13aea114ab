package observe

import (
	"sync"
	"sync/atomic"
	"time"
)

// The short memory of an upstream: historySlots slots of historyStep each, for the sparklines of
// the status page.
const (
	historyStep  = 5 * time.Second
	historySlots = 60
)

// history is what one upstream did in the last minutes. Its methods may be called from any
// goroutine.
type history struct {
	live atomic.Int64 // events of running streams that are in no slot yet

	mu    sync.Mutex
	slots [historySlots]slot
}

// slot is one step. at is its number since 1970.
type slot struct {
	at     int64
	tokens float64
	ended  int
	failed int
	ttft   [len(historyBounds) + 1]uint16
}

// historyBounds are the upper ends of the TTFT classes, in milliseconds.
var historyBounds = [...]float64{
	1, 2, 4, 7, 10, 15, 20, 30, 45, 70, 100, 150, 220, 330, 500, 750, 1100, 1600, 2400,
	3600, 5400, 8000, 12000, 18000, 27000, 40000, 60000, 120000,
}

func stepOf(at time.Time) int64 { return at.UnixNano() / int64(historyStep) }

// slot returns the slot of a step, empty when the step is new. Called with mu held.
func (h *history) slot(step int64) *slot {
	s := &h.slots[step%historySlots]
	if s.at != step {
		*s = slot{at: step}
	}
	return s
}

// fold puts the events of running streams into the present slot.
func (h *history) fold(now time.Time) {
	if h.live.Load() == 0 {
		return
	}
	h.mu.Lock()
	h.slot(stepOf(now)).tokens += float64(h.live.Swap(0))
	h.mu.Unlock()
}

// finish books an ended call. Tokens that no event announced are spread over the time in which they
// were made.
func (h *history) finish(r *Record, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.slot(stepOf(now))
	if r.Outcome == OK {
		s.ended++
	} else if r.Outcome != ClientGone {
		s.failed++
	}
	if r.Stream && r.UpstreamTTFT > 0 {
		s.ttft[classOf(r.UpstreamTTFT)]++
	}
	h.spread(float64(r.CompletionTokens-r.streamed), now.Add(-r.outputTime(now)), now)
}

func (h *history) spread(tokens float64, from, to time.Time) {
	if tokens == 0 {
		return
	}
	last := stepOf(to)
	first := max(stepOf(from), last-historySlots+1)
	for step := first; step <= last; step++ {
		h.slot(step).tokens += tokens / float64(last-first+1)
	}
}

func classOf(d time.Duration) int {
	ms := float64(d) / float64(time.Millisecond)
	for i, bound := range historyBounds {
		if ms <= bound {
			return i
		}
	}
	return len(historyBounds)
}

// noHistory is the history of an upstream that no call has reached.
func noHistory() History {
	return History{
		StepSeconds: historyStep.Seconds(), TokensPerSecond: []float64{}, TTFTMillis: []float64{},
		TTFTP50Millis: -1, TTFTP95Millis: -1,
	}
}

// History is the last five minutes of an upstream, oldest first, in steps of StepSeconds. Values
// that are not known are -1.
type History struct {
	StepSeconds     float64   `json:"step_seconds"`
	TokensPerSecond []float64 `json:"tokens_per_second"`
	TTFTMillis      []float64 `json:"ttft_p50_ms"`
	TTFTP50Millis   float64   `json:"ttft_p50_ms_5m"`
	TTFTP95Millis   float64   `json:"ttft_p95_ms_5m"`
	Ended           int       `json:"calls_5m"`
	Failed          int       `json:"failed_5m"`
}

// read returns what the upstream did in the last minutes.
func (h *history) read(now time.Time) History {
	h.fold(now)
	h.mu.Lock()
	defer h.mu.Unlock()
	out := History{StepSeconds: historyStep.Seconds()}
	var all [len(historyBounds) + 1]int
	last := stepOf(now)
	for step := last - historySlots + 1; step <= last; step++ {
		s := h.slots[step%historySlots]
		if s.at != step {
			s = slot{}
		}
		width := historyStep.Seconds()
		if step == last { // it is not over
			width = max(1, float64(now.UnixNano()-step*int64(historyStep))/float64(time.Second))
		}
		var own [len(historyBounds) + 1]int
		for i, n := range s.ttft {
			own[i] = int(n)
			all[i] += int(n)
		}
		out.TokensPerSecond = append(out.TokensPerSecond, max(0, s.tokens)/width)
		out.TTFTMillis = append(out.TTFTMillis, quantile(own[:], 0.5))
		out.Ended += s.ended
		out.Failed += s.failed
	}
	out.TTFTP50Millis, out.TTFTP95Millis = quantile(all[:], 0.5), quantile(all[:], 0.95)
	return out
}

// quantile returns the q quantile of counts over historyBounds in milliseconds, within the width of
// a class, or -1 when there is nothing.
func quantile(counts []int, q float64) float64 {
	total := 0
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return -1
	}
	rank, below := q*float64(total), 0
	for i, n := range counts {
		if n == 0 {
			continue
		}
		if float64(below+n) >= rank {
			low, high := 0.0, historyBounds[min(i, len(historyBounds)-1)]
			if i > 0 {
				low = historyBounds[i-1]
			}
			return low + (high-low)*max(0, rank-float64(below))/float64(n)
		}
		below += n
	}
	return historyBounds[len(historyBounds)-1]
}
