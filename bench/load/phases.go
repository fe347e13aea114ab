package load

import (
	"math"
	"strings"
	"time"

	"penstock/bench/load/client"
	"penstock/bench/result"
)

const maxPhases = 12

// phaseLengths contains the possible lengths of a trace's phases. Longer phases last a whole number
// of hours.
var phaseLengths = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
}

// choosePhaseLength returns the shortest phase length with which at most maxPhases phases cover d.
func choosePhaseLength(d time.Duration) time.Duration {
	for _, l := range phaseLengths {
		if d <= maxPhases*l {
			return l
		}
	}
	return time.Duration(math.Ceil(float64(d)/float64(maxPhases*time.Hour))) * time.Hour
}

// tracePhases describes the fleet in each phase of a replayed trace. A request belongs to the phase
// in which it was due.
func (f *findings) tracePhases(telemetry []result.Telemetry) []result.Phase {
	if f.s.DatasetName != "trace" || len(f.stages) == 0 || f.stages[0].sendEnd <= f.stages[0].start {
		return []result.Phase{}
	}
	sp := &f.stages[0]
	long := int64(choosePhaseLength(time.Duration(sp.sendEnd - sp.start)))
	var engines []string
	byEngine := map[string][]*client.Sample{}
	for i := range f.samples {
		if s := &f.samples[i]; s.Target == 0 && s.Edge.Upstream != "" {
			if byEngine[s.Edge.Upstream] == nil {
				engines = append(engines, s.Edge.Upstream)
			}
			byEngine[s.Edge.Upstream] = append(byEngine[s.Edge.Upstream], s)
		}
	}
	out := []result.Phase{}
	for start := sp.start; start < sp.sendEnd; {
		end := start + long
		if sp.sendEnd-end < long/2 { // merge a short last phase into the previous one
			end = sp.sendEnd
		}
		p := f.summarizePhase(start, end, end == sp.sendEnd)
		p.Engines = map[string]float64{}
		sum, most := 0.0, 0.0
		for _, name := range engines {
			n := meanInFlight(byEngine[name], start, end)
			p.Engines[name] = n
			sum, most = sum+n, max(most, n)
		}
		if len(engines) > 1 && sum > 0 {
			p.Imbalance = new(most / (sum / float64(len(engines))))
		}
		p.Waiting = meanQueuedRequests(telemetry, p.StartS, p.EndS)
		out, start = append(out, p), end
	}
	return out
}

// summarizePhase summarises the requests that were due between start and end. If last is true,
// requests due at end are included.
func (f *findings) summarizePhase(start, end int64, last bool) result.Phase {
	p := result.Phase{StartS: float64(start) / 1e9, EndS: float64(end) / 1e9}
	var t nonLatencySums
	var ttft, queue result.Histogram
	for i := range f.samples {
		s := &f.samples[i]
		due := s.At.Scheduled
		if s.Target != 0 || s.Stage == warmupStage || due < start || due > end || due == end && !last {
			continue
		}
		p.Requests++
		if s.Failed() {
			p.Failed++
		}
		if !s.Completed() {
			continue
		}
		t.addSample(s)
		for m, h := range map[string]*result.Histogram{result.TTFTFromSchedule: &ttft, result.Queue: &queue} {
			if v := s.Latency(m); v != client.MissingValue {
				h.Record(v)
			}
		}
	}
	p.TTFT, p.Queue = ttft.Distribution(), queue.Distribution()
	p.InputTokens, p.OutputTokens = t.in, t.out
	if t.cachedKnown > 0 {
		p.CachedShare = new(float64(t.cached) / float64(t.cacheableTokens))
	}
	return p
}

// meanInFlight returns the mean number of requests in flight from start to end.
func meanInFlight(samples []*client.Sample, start, end int64) float64 {
	sum := int64(0)
	for _, s := range samples {
		if s.At.Sent != client.MissingValue {
			sum += max(0, min(s.At.End, end)-max(s.At.Sent, start))
		}
	}
	return float64(sum) / float64(end-start)
}

// meanQueuedRequests returns the mean number of requests that were queued in all engines together
// from start to end. If no engine has reported the number, it returns nil.
func meanQueuedRequests(telemetry []result.Telemetry, start, end float64) *float64 {
	var out *float64
	for i := range telemetry {
		t := &telemetry[i]
		if !strings.HasPrefix(t.Source, "engine") {
			continue
		}
		for _, names := range inFlightGauges {
			column := t.Metrics[names[len(names)-1]]
			if len(names) < 2 || column == nil {
				continue
			}
			sum, n := 0.0, 0
			for j, at := range t.TS {
				if at >= start && at <= end && column[j] != nil {
					sum += *column[j]
					n++
				}
			}
			if n > 0 {
				if out == nil {
					out = new(float64)
				}
				*out += sum / float64(n)
			}
		}
	}
	return out
}
