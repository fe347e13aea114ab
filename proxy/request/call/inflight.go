package call

import (
	"sync/atomic"
	"time"

	"penstock/proxy/front/listen"
	"penstock/proxy/operate/status"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/observe"
	"penstock/upstreams"
)

// callStatus is the part of a running call that the status page reads. Before the connection
// watches the call, publishStatus sets the fields that are not atomic. These fields do not change
// afterwards.
type callStatus struct {
	model, pool, class string
	isStream           bool

	phase         atomic.Pointer[observe.Phase]
	fallbackModel atomic.Pointer[snapshot.Model] // the fallback model that answers the call, if any
	target        atomic.Pointer[upstreams.Upstream]
	firstAt       atomic.Int64 // when the first event arrived, in Unix nanoseconds
}

// These are variables, because setPhase must store a pointer without allocating.
var (
	phaseHook           = observe.PhaseHook
	phaseQueued         = observe.PhaseQueued
	phaseAwaitingEngine = observe.PhaseAwaitingAnswer
	phaseStreaming      = observe.PhaseStreaming
)

// publishStatus sets the fields that do not change later. It must be called before the connection
// watches the call.
func (s *callStatus) publishStatus(r *observe.Record) {
	s.model, s.pool, s.isStream = r.Model, r.Pool, r.Stream
	s.class = r.Class
}

func (c *Call) setPhase(p *observe.Phase) {
	c.record.Phase = *p
	c.callStatus.phase.Store(p)
}

func (s *callStatus) answeringModel() string {
	if m := s.fallbackModel.Load(); m != nil {
		return m.Config.ID
	}
	return s.model
}

// statusRow may be called from any goroutine once the connection watches the call. The fields of the
// record that it reads do not change from then on.
func (c *Call) statusRow(now time.Time) status.Call {
	s, r := &c.callStatus, &c.record
	start := r.Start
	row := status.Call{
		ID: r.RequestID.String(), Start: start, Key: r.Key, Dialect: r.Dialect,
		Model: s.model, Pool: s.pool, Class: s.class, Stream: s.isStream,
		State: string(observe.PhaseBody), Duration: status.Millis(now.Sub(start)),
	}
	if m := s.answeringModel(); m != s.model {
		row.Model, row.Asked = m, s.model
	}
	if p := s.phase.Load(); p != nil {
		row.State = string(*p)
	}
	if u := s.target.Load(); u != nil {
		row.Upstream = u.Label()
	}
	if first := s.firstAt.Load(); first != 0 {
		row.TTFT = status.Millis(time.Unix(0, first).Sub(start))
	}
	return row
}

// InFlightCalls returns the running calls whose model is known.
func InFlightCalls(clients *listen.Listener, now time.Time) (out []status.Call) {
	clients.EachWaiter(func(w listen.DisconnectWaiter) { out = append(out, w.(*Call).statusRow(now)) })
	return out
}

// CountInFlightCalls counts the running calls whose model is known. models counts them by the model
// that answers, and accounts by the account to which metrics attribute the key.
func CountInFlightCalls(clients *listen.Listener) (models, accounts map[string]int) {
	models, accounts = map[string]int{}, map[string]int{}
	clients.EachWaiter(func(w listen.DisconnectWaiter) {
		c := w.(*Call)
		models[c.callStatus.answeringModel()]++
		accounts[c.record.AccountName()]++
	})
	return models, accounts
}
