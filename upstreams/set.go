package upstreams

import (
	"cmp"
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"
)

// Options configures a Set. The zero value is usable.
type Options struct {
	Log *zap.Logger // default: no log

	// Guard catches panics in the set's goroutines. By default, they are not caught.
	Guard Guard
	// Register and Unregister add and remove the metrics of one upstream or of the set. By default
	// they use the metrics package's registry.
	Register, Unregister func(*metrics.Set)

	// Dial connects to the upstreams. By default it uses TCP.
	Dial http1.Dialer
	// Lookup resolves the names of upstreams with `resolve`. By default it uses the system's
	// resolver.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// LookupSRV returns the records of a name with `resolve: srv:NAME`. By default it uses the
	// system's resolver.
	LookupSRV func(ctx context.Context, name string) ([]*net.SRV, error)
	// OnAddresses is called from a goroutine of the set when a discovery finds different endpoints.
	// The owner of the set should then plan again.
	OnAddresses func()
	// OnModels is called from any goroutine when the model list of an upstream with published
	// models changes. The owner of the set should then apply the configuration again. OnModels must
	// not block.
	OnModels func()
	// SlotAccount returns the slot account of an upstream whose slots the fleet counts exactly. By
	// default, each edge counts only its own slots.
	SlotAccount func(*Upstream) FleetSlotAccount
	// OnFree is called from any goroutine after a lease was released. It must not block.
	OnFree func(*Upstream)
	// Stall decides what to do about a stalled upstream. It is called from a goroutine of the set.
	// By default, the upstream gets no new calls.
	Stall func(u *Upstream, now time.Time) StallDecision
	// DrainTime returns how long running calls may stay at an upstream that gets no new calls. By
	// default, there is no limit.
	DrainTime func() time.Duration
	// OnRoom is called from any goroutine when a change of the health, breaker, mode, models or
	// slots may have made an upstream start or stop admitting calls. When a lease is released,
	// OnFree is called instead. A lock of the upstream may be held during the call. OnRoom must
	// therefore not block, and may use only the methods that routing uses.
	OnRoom func(*Upstream)
}

// Set contains all live upstreams by identity. It outlives reloads. For each configuration, call
// PlanChanges, build routes from the plan, and call Commit. Once the routes are in use, call
// RetireOmitted to remove the upstreams that the plan omits. PlanChanges is safe for concurrent
// use, but Commit and RetireOmitted are not.
type Set struct {
	o              Options
	profiles       atomic.Pointer[engine.Profiles] // profiles of the committed plan
	ownMetrics     *metrics.Set
	doubleReleases *metrics.Counter

	stallMu sync.Mutex // serialises decisions about stalled upstreams

	mu          sync.Mutex
	byID        map[ID]*Upstream
	discoveries map[string]*endpointDiscovery // keyed by discoveryKey
	isClosed    bool
}

// NewSet returns an empty set with the bundled profiles.
func NewSet(o Options) (*Set, error) {
	profiles, err := engine.LoadProfiles(nil)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Register == nil {
		o.Register = metrics.RegisterSet
	}
	if o.Unregister == nil {
		o.Unregister = func(s *metrics.Set) { metrics.UnregisterSet(s, true) }
	}
	if o.Lookup == nil {
		o.Lookup = net.DefaultResolver.LookupHost
	}
	if o.LookupSRV == nil {
		o.LookupSRV = lookupSRV
	}
	if o.OnFree == nil {
		o.OnFree = func(*Upstream) {}
	}
	if o.OnModels == nil {
		o.OnModels = func() {}
	}
	if o.OnRoom == nil {
		o.OnRoom = func(*Upstream) {}
	}
	if o.Stall == nil {
		o.Stall = func(*Upstream, time.Time) StallDecision { return StallTakeOut }
	}
	if o.Guard == nil {
		o.Guard = unguardedLoop{}
	}
	s := &Set{o: o, ownMetrics: metrics.NewSet(), byID: map[ID]*Upstream{}, discoveries: map[string]*endpointDiscovery{}}
	s.profiles.Store(profiles)
	s.doubleReleases = s.ownMetrics.NewCounter("penstock_lease_double_release_total")
	o.Register(s.ownMetrics)
	return s, nil
}

// Commit applies the plan: it replaces settings, adds new upstreams to the set and starts probing
// them immediately. Upstreams that the plan omits remain until RetireOmitted is called.
func (s *Set) Commit(p *ChangePlan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return
	}
	for key, d := range p.discoveries {
		if s.discoveries[key] == nil {
			s.discoveries[key] = d
			d.start(s)
		}
	}
	renewed := s.profiles.Swap(p.profiles) != p.profiles
	for i := range p.items {
		s.commitUpstream(&p.items[i], renewed)
	}
}

// commitUpstream applies the plan to one upstream. renewed is true if the engine profiles have
// changed.
func (s *Set) commitUpstream(item *plannedUpstream, renewed bool) {
	u, st := item.up, item.settings
	old := u.settings.Swap(st)
	updatePodGoneState(u, st) // the plan may be older than a pod event
	if item.transport != nil {
		if before := u.client.transport.Swap(item.transport); before != nil && before != item.transport {
			before.CloseIdle() // running exchanges keep their connections
		}
	}
	if s.applySettings(u, old, st, renewed) {
		s.addUpstream(u)
	} else if old.probe != st.probe || item.transport != nil || renewed {
		s.restartProber(u)
	}
}

// applySettings applies new settings to the parts of an upstream. It reports whether the upstream
// must be added to the set.
func (s *Set) applySettings(u *Upstream, old, st *settings, renewed bool) (entering bool) {
	u.profileMu.Lock()
	defer u.profileMu.Unlock()
	if old.spec.Engine != st.spec.Engine || renewed {
		u.engine.Store(s.profiles.Load().ProfileAfterReload(u.engine.Load(), old.spec.Engine, st.spec.Engine))
	}
	u.slots.configure(&st.spec, st.weight, u.engine.Load())
	u.Models.configure(u.engine.Load(), st)
	u.Health.Wake.Configure(st.spec.Wake)
	if old.probe != st.probe {
		u.Health.setThresholds(st.probe.fall, st.probe.rise)
	}
	return u.probeControl.currentProber() == nil
}

// addUpstream adds a new or revived upstream to the set. The caller must hold mu.
func (s *Set) addUpstream(u *Upstream) {
	for _, other := range s.byID { // only the newest upstream with this label has metrics
		if other != u && other.identity.label == u.identity.label {
			s.dropMetrics(other)
		}
	}
	s.byID[u.identity.id] = u
	u.removal.isRemoved.Store(false)
	u.removal.isRetiring.Store(false)
	updateDrainTimer(u)
	if !u.series.isRegistered {
		if u.series.set == nil {
			u.series.createMetrics(u)
		}
		s.o.Register(u.series.set)
		u.series.isRegistered = true
	}
	s.restartProber(u)
}

// dropMetrics unregisters an upstream's series. The caller must hold mu.
func (s *Set) dropMetrics(u *Upstream) {
	if u.series.isRegistered {
		s.o.Unregister(u.series.set)
		u.series.set, u.series.isRegistered = nil, false
		u.series.currentSet.Store(nil)
	}
}

// restartProber replaces the prober with a new one for the current settings.
func (s *Set) restartProber(u *Upstream) {
	transport, err := http1.NewTransport(u.settings.Load().transport.options.ProbeOptions())
	if err != nil { // cannot happen, because NewTransport has already accepted the same configuration
		panicIfTesting("probe transport: " + err.Error())
		return
	}
	p := newProber(u, transport.PageFetcher(), transport.CloseIdle)
	p.getCounters = transport.PageFetcher()
	p.engine, p.generate = u.settings.Load().spec.Engine, engine.NewGenerateFunc(transport)
	p.start(transport.Close)
	if before := u.probeControl.replace(p); before != nil {
		before.stop()
	}
}

// WaitFirstProbes waits until every upstream that the plan has added has a first verdict, or until
// ctx is done.
func (s *Set) WaitFirstProbes(ctx context.Context, p *ChangePlan) {
	for i := range p.items {
		if !p.items[i].isNew {
			continue
		}
		select {
		case <-p.items[i].up.probeControl.firstVerdict:
		case <-ctx.Done():
			return
		}
	}
}

// RetireOmitted removes the upstreams that the plan omits. They get no new leases and no probes,
// and are removed when their last lease is released. Call RetireOmitted once no new request can
// pick these upstreams.
func (s *Set) RetireOmitted(p *ChangePlan) {
	var out []*Upstream
	s.mu.Lock()
	for _, u := range s.byID {
		if _, kept := p.index[u]; !kept && !u.removal.isRetiring.Swap(true) {
			out = append(out, u)
		}
	}
	for key, d := range s.discoveries {
		if p.discoveries[key] == nil {
			d.stop(s)
			delete(s.discoveries, key)
		}
	}
	s.mu.Unlock()
	for _, u := range out {
		updateDrainTimer(u)
		u.probeControl.stop()
		s.removeIdle(u)
	}
}

// freeSlot releases a slot and wakes the calls that are waiting for a slot.
func (s *Set) freeSlot(u *Upstream, p SlotPool) {
	u.slots.release(p)
	defer s.removeIdle(u)
	s.o.OnFree(u)
}

// returnUnusedSlot releases a slot that was not used. If trial is true, it also ends the breaker's
// trial.
func (s *Set) returnUnusedSlot(u *Upstream, p SlotPool, trial bool) {
	if trial {
		u.Breaker.trialRunning.Store(false)
	}
	u.slots.release(p)
	s.removeIdle(u)
}

// removeIdle removes a retiring upstream if it has no leases. Both RetireOmitted and the release of
// a slot call removeIdle, so their order does not matter.
func (s *Set) removeIdle(u *Upstream) {
	if !u.removal.isRetiring.Load() || u.slots.inUse.Load() != 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !u.removal.isRetiring.Load() || u.slots.inUse.Load() != 0 || u.removal.isRemoved.Swap(true) {
		return // revived or removed in the meantime
	}
	if s.byID[u.identity.id] == u {
		delete(s.byID, u.identity.id)
	}
	u.removal.handover.stop() // otherwise the timer keeps the upstream in memory for the drain time
	s.dropMetrics(u)
	u.client.transport.Load().Close()
}

// All returns all upstreams of the set, including retiring ones, ordered by ID.
func (s *Set) All() []*Upstream {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Upstream, 0, len(s.byID))
	for _, u := range s.byID {
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b *Upstream) int { return cmp.Compare(a.identity.id, b.identity.id) })
	return out
}

// PublishedModels returns the published models by upstream name. It omits upstreams whose engines
// have not listed models yet.
func PublishedModels(s *Set) map[string][]config.ListedModel {
	out := map[string][]config.ListedModel{}
	for _, u := range s.All() {
		models, ok := publishedModels(&u.Models)
		if !ok || u.State() == StateRetiring {
			continue
		}
		all := out[u.Name()]
		for _, m := range models {
			if !slices.ContainsFunc(all, func(l config.ListedModel) bool { return l.Name == m.Name }) {
				all = append(all, m)
			}
		}
		out[u.Name()] = all
	}
	return out
}

// Close stops all probes, waits until all leases are released or ctx is done, and closes all
// connections. It returns the error of ctx if leases remain.
func (s *Set) Close(ctx context.Context) error {
	s.mu.Lock()
	s.isClosed = true
	for key, d := range s.discoveries {
		d.stop(s)
		delete(s.discoveries, key)
	}
	s.mu.Unlock()
	all := s.All()
	for _, u := range all {
		if done := u.probeControl.stop(); done != nil {
			<-done
		}
	}
	err := waitSlotsReleased(ctx, all)
	for _, u := range all {
		u.client.transport.Load().Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range all {
		s.dropMetrics(u)
	}
	s.o.Unregister(s.ownMetrics)
	return err
}

const idlePollInterval = 20 * time.Millisecond

func waitSlotsReleased(ctx context.Context, all []*Upstream) error {
	tick := time.NewTicker(idlePollInterval)
	defer tick.Stop()
	for slices.ContainsFunc(all, func(u *Upstream) bool { return u.slots.inUse.Load() != 0 }) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
