package observe

import "time"

// Outlook summarizes the last few minutes.
type Outlook struct {
	Total             History
	Models, Upstreams map[string]*History
	Failures          []ReasonCount
	Attempts          []ReasonCount // failed attempts, including those of calls that did not fail
	Refusals          []ReasonCount // calls that were refused before a request was sent to an engine
}

// Model returns the history of a model. It is empty if the model has had no calls.
func (o *Outlook) Model(id string) History { return orEmpty(o.Models[id]) }

// Upstream returns the history of an upstream. It is empty if the upstream has had no calls.
func (o *Outlook) Upstream(name string) History { return orEmpty(o.Upstreams[name]) }

func orEmpty(h *History) History {
	if h == nil {
		return new(sums).recent()
	}
	return *h
}

// Outlook returns the summary of the last few minutes.
func (c *Calls) Outlook(now time.Time) *Outlook {
	models, upstreams, total := map[string]*sums{}, map[string]*sums{}, new(sums)
	last := stepOf(now)
	for k, h := range c.series.pairs.all() {
		h.fold(now)
		h.addTo(last, of(models, k.model), of(upstreams, k.upstream))
	}
	for _, m := range models {
		total.add(m)
	}
	o := &Outlook{
		Models: map[string]*History{}, Upstreams: map[string]*History{},
		Failures: c.Recent.Failures.Counts(now), Refusals: c.Recent.Refusals.Counts(now),
		Attempts: c.Recent.Attempts.Counts(now),
	}
	present := max(1, time.Duration(now.UnixNano()-last*int64(historyStep)).Seconds())
	for i := range o.Refusals {
		if r := &o.Refusals[i]; r.Model != "" {
			of(models, r.Model)
		}
	}
	for id, h := range models {
		read := h.read(present)
		o.Models[id] = &read
	}
	for name, h := range upstreams {
		read := h.read(present)
		o.Upstreams[name] = &read
	}
	o.Total = total.read(present)
	for i := range o.Refusals {
		r := &o.Refusals[i]
		o.Total.Minute.refuse(r)
		if m := o.Models[r.Model]; m != nil {
			m.Minute.refuse(r)
		}
	}
	return o
}

func of(all map[string]*sums, name string) *sums {
	t := all[name]
	if t == nil {
		t = new(sums)
		all[name] = t
	}
	return t
}
