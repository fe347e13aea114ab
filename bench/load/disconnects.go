package load

import (
	"context"
	"slices"
	"strings"
	"time"

	"penstock/bench/load/client"
	"penstock/bench/result"
)

const (
	gaugePollInterval = 50 * time.Millisecond // how often the gauge is read while clients leave
	gaugeSettleTime   = 5 * time.Second       // how long the gauge may take to fall after the run
	minLeakDuration   = 2 * time.Second       // a surplus of requests that lasts longer is a leak
)

// findInFlightScraper returns the scraper whose gauge shows whether the server notices that clients
// disconnect. It prefers the scraper of an engine, then that of the target, then that of the edge.
// If no scraper has such a gauge, best is nil.
func findInFlightScraper(all []*scraper) (readings []metricsReading, best *scraper, gauge string) {
	for _, source := range []string{"engine", "target", "edge"} {
		for _, s := range all {
			readings := s.successfulReadings()
			// The engine's name may follow.
			if kind, _, _ := strings.Cut(s.source, " "); kind == source && len(readings) > 0 {
				if _, name, ok := requestsAtServer(readings[len(readings)-1].values); ok {
					return readings, s, name
				}
			}
		}
	}
	return nil, nil, ""
}

// disconnectReport describes whether the server noticed that clients disconnected. It is called
// after all requests have ended.
func disconnectReport(ctx context.Context, set *settings, samples []client.Sample, all []*scraper) *result.Leaving {
	if set.work.LeaveShare == 0 {
		return nil
	}
	out := &result.Leaving{Share: set.work.LeaveShare, Phase: set.leaveText}
	var left []int64
	for i := range samples {
		if samples[i].Left {
			left = append(left, samples[i].At.End)
		}
	}
	out.Left = len(left)
	readings, s, gauge := findInFlightScraper(all)
	switch {
	case s == nil:
		out.Reason = "no gauge of running requests could be read: name the engine by --engine-url, or the edge's admin listener by --admin"
		return out
	case len(left) == 0:
		out.Reason = "no client left"
		return out
	case len(set.Engine) > 1:
		out.Reason = "several engines: no one gauge has all requests"
		return out
	case readings[0].surplus > 0:
		out.Reason = "the server had requests of others before the run"
		return out
	}
	out.Source = gauge
	leaked := 0
	for end := time.Now().Add(gaugeSettleTime); ; {
		s.scrapeOnce(ctx)
		readings = s.successfulReadings()
		leaked = max(readings[len(readings)-1].surplus, 0)
		if leaked == 0 || time.Now().After(end) || !sleepUnlessDone(ctx, gaugePollInterval) {
			break
		}
	}
	freed, longest := departureReleaseTimes(readings, left)
	ok := leaked == 0 && longest < minLeakDuration
	out.Leaked, out.Freed, out.Verified = &leaked, freed.Distribution(), &ok
	return out
}

// departureReleaseTimes measures, for each departure, how long the gauge took to fall to the number
// of requests that the client still had open. longest is the longest time during which the gauge
// exceeded that number.
func departureReleaseTimes(readings []metricsReading, left []int64) (h result.Histogram, longest time.Duration) {
	for _, at := range left {
		if i := slices.IndexFunc(readings, func(r metricsReading) bool { return r.at >= at && r.surplus <= 0 }); i >= 0 {
			h.Record(readings[i].at - at)
		}
	}
	since := int64(client.MissingValue)
	for _, r := range readings {
		switch {
		case r.surplus <= 0:
			since = client.MissingValue
		case since == client.MissingValue:
			since = r.at
		default:
			longest = max(longest, time.Duration(r.at-since))
		}
	}
	return h, longest
}
