package load

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"

	"penstock/bench/load/client"
	"penstock/bench/result"
)

// maxSeriesIntervals is the maximum number of intervals in a series. A series that would need more
// halves its resolution.
const maxSeriesIntervals = 1200

// timeSeries counts tokens and gaps per time interval as they occur. Values that describe entire
// requests are added at the end, from the samples. It is safe for concurrent use.
type timeSeries struct {
	mu       sync.Mutex
	interval int64 // in ns
	tokens   []float64
	gaps     []*hdrhistogram.Histogram // in microseconds, with 2 digits; nil if empty
	total    int64
}

func newSeries() *timeSeries { return &timeSeries{interval: 1e9} }

// intervalIndex returns the index of the interval that contains a time. The caller holds s.mu.
func (s *timeSeries) intervalIndex(ns int64) int {
	for ns/s.interval >= maxSeriesIntervals {
		s.mergeAdjacentIntervals()
	}
	i := int(max(ns, 0) / s.interval)
	for len(s.tokens) <= i {
		s.tokens = append(s.tokens, 0)
		s.gaps = append(s.gaps, nil)
	}
	return i
}

// mergeAdjacentIntervals merges each pair of adjacent intervals.
func (s *timeSeries) mergeAdjacentIntervals() {
	s.interval *= 2
	n := (len(s.tokens) + 1) / 2
	for i := range n {
		s.tokens[i], s.gaps[i] = s.tokens[2*i], s.gaps[2*i]
		if j := 2*i + 1; j < len(s.tokens) {
			s.tokens[i] += s.tokens[j]
			if s.gaps[i] == nil {
				s.gaps[i] = s.gaps[j]
			} else if s.gaps[j] != nil {
				s.gaps[i].Merge(s.gaps[j])
			}
		}
	}
	s.tokens, s.gaps = s.tokens[:n], s.gaps[:n]
}

// addToken counts a token event and its gap, which may be client.MissingValue.
func (s *timeSeries) addToken(at, gap int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.intervalIndex(at)
	s.tokens[i]++
	s.total++
	if gap == client.MissingValue {
		return
	}
	if s.gaps[i] == nil {
		s.gaps[i] = hdrhistogram.New(result.HistogramMinMicros, result.HistogramMaxMicros, 2)
	}
	// Cannot fail, because the value is in range.
	_ = s.gaps[i].RecordValue(min(max(gap/1000, 0), result.HistogramMaxMicros))
}

// tokenEventCount returns how many token events have occurred so far.
func (s *timeSeries) tokenEventCount() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// resultSeries returns the series for the result. It converts token events to tokens, based on the
// token counts of the requests.
func (s *timeSeries) resultSeries(samples []client.Sample, stages []result.Stage) result.Series {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := int64(1)
	for i := range samples {
		end = max(end, samples[i].At.End)
	}
	s.intervalIndex(end - 1)
	n := len(s.tokens)
	out := result.Series{
		IntervalS: float64(s.interval) / 1e9, TS: make([]float64, n), Stage: make([]int, n), InFlight: make([]int, n),
		OutputTokens: s.tokens,
		Scheduled:    make([]int, n), Sent: make([]int, n), Completed: make([]int, n), Failed: make([]int, n),
		Left: make([]int, n), Upstreams: map[string][]int{},
		Latency: map[string]map[string][]*float64{result.ITL: intervalPercentiles(n,
			func(i int) (*hdrhistogram.Histogram, float64) { return s.gaps[i], math.Inf(1) })},
	}
	for i := range n {
		out.TS[i] = float64(i) * out.IntervalS
		out.Stage[i] = slices.IndexFunc(stages, func(st result.Stage) bool {
			mid := out.TS[i] + out.IntervalS/2
			return mid >= st.StartS && mid <= st.EndS
		})
	}
	index := func(ns int64) int { return min(int(max(ns, 0)/s.interval), n-1) }
	counted := samples
	if slices.ContainsFunc(samples, func(x client.Sample) bool { return x.Target != 0 }) {
		counted = slices.DeleteFunc(slices.Clone(samples), func(x client.Sample) bool { return x.Target != 0 })
	}
	addRequestsToSeries(&out, counted, index)
	fillInFlight(out.InFlight, counted, index)
	return out
}

// addRequestsToSeries adds the number of requests, and their latencies and tokens, to each
// interval.
func addRequestsToSeries(out *result.Series, samples []client.Sample, index func(int64) int) {
	n := len(out.TS)
	latencies := map[string][]result.Histogram{}
	for _, m := range []string{result.TTFT, result.TTFTFromSchedule, result.E2EL} {
		latencies[m] = make([]result.Histogram, n)
	}
	record := func(m string, x *client.Sample, at int64) {
		if v := x.Latency(m); v != client.MissingValue {
			latencies[m][index(at)].Record(v)
		}
	}
	unary := make([]float64, n)
	chunks, tokens := 0, 0
	for i := range samples {
		x := &samples[i]
		out.Scheduled[index(x.At.Scheduled)]++
		if x.At.Sent != client.MissingValue {
			out.Sent[index(x.At.Sent)]++
		}
		record(result.TTFT, x, x.At.FirstToken)
		record(result.TTFTFromSchedule, x, x.At.FirstToken)
		switch end := index(x.At.End); {
		case x.Left:
			out.Left[end]++
		case x.Failed():
			out.Failed[end]++
		case x.Completed():
			out.Completed[end]++
			if up := x.Edge.Upstream; up != "" {
				if out.Upstreams[up] == nil {
					out.Upstreams[up] = make([]int, n)
				}
				out.Upstreams[up][end]++
			}
			record(result.E2EL, x, x.At.End)
			if !x.Stream {
				unary[end] += float64(max(x.Tokens.Out, 0))
			} else if x.Tokens.Out > 0 {
				chunks, tokens = chunks+x.Flow.Chunks, tokens+x.Tokens.Out
			}
		}
	}
	scale := 1.0
	if chunks > 0 {
		scale = float64(tokens) / float64(chunks)
	}
	for i := range n {
		out.OutputTokens[i] = out.OutputTokens[i]*scale + unary[i]
	}
	for m, hists := range latencies {
		out.Latency[m] = intervalPercentiles(n, func(i int) (*hdrhistogram.Histogram, float64) { return hists[i].H, hists[i].High })
	}
}

// intervalPercentiles returns the percentiles for each interval as columns, in ms. Each value is
// capped at high, the maximum in its interval. Percentile 100 is named max.
func intervalPercentiles(n int, of func(i int) (h *hdrhistogram.Histogram, high float64)) map[string][]*float64 {
	out := map[string][]*float64{}
	for name, p := range map[string]float64{"50": 50, "90": 90, "99": 99, "max": 100} {
		out[name] = make([]*float64, n)
		for i := range n {
			if h, high := of(i); h != nil {
				out[name][i] = new(min(float64(h.ValueAtQuantile(p))/1000, high))
			}
		}
	}
	return out
}

// fillInFlight stores the highest number of requests in flight in each interval.
func fillInFlight(out []int, samples []client.Sample, index func(int64) int) {
	type change struct {
		at int64
		by int
	}
	var all []change
	for i := range samples {
		if x := &samples[i]; x.At.Sent != client.MissingValue {
			all = append(all, change{x.At.Sent, 1}, change{x.At.End, -1})
		}
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	now, done := 0, 0
	for _, c := range all {
		for i := index(c.at); done < i; {
			done++
			out[done] = now
		}
		now += c.by
		out[done] = max(out[done], now)
	}
}

// highestRate returns the highest rate in any interval, or NaN if there are no intervals.
func highestRate(values []float64, interval float64) float64 {
	out := math.NaN()
	for _, v := range values {
		if rate := v / interval; !(rate <= out) { // also true if out is NaN
			out = rate
		}
	}
	return out
}
