package fleet

import "github.com/VictoriaMetrics/metrics"

type fleetMetrics struct {
	storeWaits       *metrics.PrometheusHistogram
	sent             *metrics.Counter
	failed           *metrics.Counter
	offlineDecisions *metrics.Counter // decisions without the store
}

func newFleetMetrics(set *metrics.Set) fleetMetrics {
	messages := func(result string) *metrics.Counter {
		return set.NewCounter(`penstock_fleet_messages_total{result="` + result + `"}`)
	}
	return fleetMetrics{
		storeWaits: set.NewPrometheusHistogramExt("penstock_fleet_wait_seconds", storeWaitBuckets),
		sent:       messages("ok"), failed: messages("error"),
		offlineDecisions: set.NewCounter("penstock_fleet_alone_total"),
	}
}

// storeWaitBuckets are the histogram buckets for waits, in seconds.
var storeWaitBuckets = []float64{.0005, .001, .002, .005, .01, .025, .05, .1}
