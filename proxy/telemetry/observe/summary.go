package observe

import "time"

// HistorySummary summarizes the last few minutes.
type HistorySummary struct {
	Total             History
	Models, Upstreams map[string]*History
	Failures          []FailureReasonCount
	Attempts          []FailureReasonCount // failed attempts, including attempts of calls that then succeeded
	Refusals          []FailureReasonCount // calls that were refused before a request was sent to an engine
}

// Model returns the history of a model. It is empty if the model has had no calls.
func (o *HistorySummary) Model(id string) History { return historyOrEmpty(o.Models[id]) }

// Upstream returns the history of an upstream. It is empty if the upstream has had no calls.
func (o *HistorySummary) Upstream(name string) History { return historyOrEmpty(o.Upstreams[name]) }

func historyOrEmpty(h *History) History {
	if h == nil {
		return new(historySums).historyWithoutSteps()
	}
	return *h
}

// Summary returns the summary of the last few minutes.
func (c *Calls) Summary(now time.Time) *HistorySummary {
	models, upstreams, total := map[string]*historySums{}, map[string]*historySums{}, new(historySums)
	last := historyStepOf(now)
	for k, h := range c.series.histories.all() {
		h.addLiveEvents(now)
		h.addTo(last, getOrAddSums(models, k.model), getOrAddSums(upstreams, k.upstream))
	}
	for _, m := range models {
		total.merge(m)
	}
	o := &HistorySummary{
		Models: map[string]*History{}, Upstreams: map[string]*History{},
		Failures: c.Recent.Failures.Counts(now), Refusals: c.Recent.Refusals.Counts(now),
		Attempts: c.Recent.Attempts.Counts(now),
	}
	present := max(1, time.Duration(now.UnixNano()-last*int64(historyStep)).Seconds())
	for i := range o.Refusals {
		if r := &o.Refusals[i]; r.Model != "" {
			getOrAddSums(models, r.Model)
		}
	}
	for id, h := range models {
		read := h.fullHistory(present)
		o.Models[id] = &read
	}
	for name, h := range upstreams {
		read := h.fullHistory(present)
		o.Upstreams[name] = &read
	}
	o.Total = total.fullHistory(present)
	for i := range o.Refusals {
		r := &o.Refusals[i]
		o.Total.Minute.addRefusals(r)
		if m := o.Models[r.Model]; m != nil {
			m.Minute.addRefusals(r)
		}
	}
	return o
}

func getOrAddSums(all map[string]*historySums, name string) *historySums {
	t := all[name]
	if t == nil {
		t = new(historySums)
		all[name] = t
	}
	return t
}
