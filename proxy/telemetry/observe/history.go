package observe

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A history has historySlotCount slots of historyStep each, and occupies 11 KB.
const (
	historyStep      = 5 * time.Second
	historySlotCount = 60
	slotsPerMinute   = int64(time.Minute / historyStep)
)

// history records the last few minutes of one model at one upstream. It is safe for concurrent use.
type history struct {
	liveEvents atomic.Int64 // number of events in running streams that have not been added to a slot yet

	mu      sync.Mutex
	prompts PromptCacheCounts // totals since the edge started
	slots   [historySlotCount]historySlot
}

// historySlot contains the results of one step. The field step is the number of the step since
// 1970.
type historySlot struct {
	step                       int64
	promptTokens, outputTokens float64
	prompts                    PromptCacheCounts
	ok, failed, full, other    uint32
	retried                    uint32 // failed attempts that were followed by another attempt
	ttft, wait                 [len(historyBounds) + 1]uint16
}

// historyBounds are the upper bounds of the buckets, in milliseconds. They include 1000 and 2000,
// because the status page's verdict compares quantiles with these values. The precision of a
// quantile is limited by the width of its bucket, but the quantile is always on the correct side of
// a bound.
var historyBounds = [...]float64{
	1, 2, 4, 7, 10, 15, 20, 30, 45, 70, 100, 150, 220, 330, 500, 750, 1000, 1400, 2000,
	3000, 5000, 8000, 12000, 18000, 27000, 40000, 60000, 120000,
}

type durationBucketCounts [len(historyBounds) + 1]int

func (t *durationBucketCounts) merge(o *durationBucketCounts) {
	for class, n := range o {
		t[class] += n
	}
}

func (t *durationBucketCounts) totalCount() (n int) {
	for _, c := range t {
		n += c
	}
	return n
}

func historyStepOf(at time.Time) int64 { return at.UnixNano() / int64(historyStep) }

// slot returns the slot of a step, and clears the slot if the step is new. The caller must hold mu.
func (h *history) slot(step int64) *historySlot {
	s := &h.slots[step%historySlotCount]
	if s.step != step {
		*s = historySlot{step: step}
	}
	return s
}

// addLiveEvents adds the events of running streams to the current slot.
func (h *history) addLiveEvents(now time.Time) {
	if h.liveEvents.Load() == 0 {
		return
	}
	h.mu.Lock()
	h.slot(historyStepOf(now)).outputTokens += float64(h.liveEvents.Swap(0))
	h.mu.Unlock()
}

// addCall counts an ended call. It distributes tokens that were not counted as events over the time
// in which they were generated.
func (h *history) addCall(r *Record, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.slot(historyStepOf(now))
	switch {
	case r.Outcome == OutcomeOK:
		s.ok++
	case r.Outcome.Failed():
		s.failed++
	case r.Outcome == OutcomeLimited:
		s.full++
	default:
		s.other++
	}
	if r.Stream && r.UpstreamTTFT > 0 {
		incrementSaturating(&s.ttft[bucketIndex(r.UpstreamTTFT)])
	}
	if r.Queue > 0 && r.Outcome != OutcomeLimited {
		incrementSaturating(&s.wait[bucketIndex(r.Queue)])
	}
	s.promptTokens += float64(r.PromptTokens)
	s.prompts.addCall(r)
	h.prompts.addCall(r)
	h.spreadTokens(float64(r.CompletionTokens-r.streamed), now.Add(-r.outputTime(now)), now)
}

// addRetry counts an attempt that failed at this upstream and was followed by another attempt.
func (h *history) addRetry(now time.Time) {
	h.mu.Lock()
	h.slot(historyStepOf(now)).retried++
	h.mu.Unlock()
}

func (h *history) spreadTokens(tokens float64, from, to time.Time) {
	if tokens == 0 {
		return
	}
	last := historyStepOf(to)
	first := max(historyStepOf(from), last-historySlotCount+1)
	for step := first; step <= last; step++ {
		h.slot(step).outputTokens += tokens / float64(last-first+1)
	}
}

// incrementSaturating increments n unless n is at its maximum. More counts would hardly change a
// quantile.
func incrementSaturating(n *uint16) {
	if *n < math.MaxUint16 {
		*n++
	}
}

func bucketIndex(d time.Duration) int {
	ms := float64(d) / float64(time.Millisecond)
	for i, bound := range historyBounds {
		if ms <= bound {
			return i
		}
	}
	return len(historyBounds)
}

// quantileMillis returns a quantile in milliseconds, with the precision of a bucket. It returns -1
// if nothing was counted.
func quantileMillis(counts *durationBucketCounts, q float64) float64 {
	total := counts.totalCount()
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
