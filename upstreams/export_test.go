package upstreams

import (
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
)

// These test helpers replace probes, and commits that would start probes.

// SetState sets the state as if probes had caused it.
func (u *Upstream) SetState(s State) { u.bring(s) }

// SetConcurrency changes the slot limits as a reload would.
func (u *Upstream) SetConcurrency(c config.Concurrency) {
	st := *u.settings.Load()
	st.spec.Concurrency = c
	u.settings.Store(&st)
	u.slots.configure(&config.Upstream{Concurrency: c}, st.weight, u.engine.Load())
}

// SetGhosts marks n of the slots as ghosts, as if the engine's reports had revealed them.
func (u *Upstream) SetGhosts(n int) { u.slots.setObserved(n, 0) }

// Load returns the load that ReadLoad stores.
func (u *Upstream) Load(p SlotPool, now time.Time) (l Load) {
	u.ReadLoad(&l, p, MomentOf(now))
	return l
}

// ModelBack reverts RecordModelGone, as if the engine's list contained the model again.
func (u *Upstream) ModelBack() { u.Models.setList(nil, time.Now().Add(time.Hour)) }

// RecordLoad records a report of the engine's work, as if a probe had read it.
func (u *Upstream) RecordLoad(running, waiting int, now time.Time) {
	u.book(&LoadReport{EngineLoad: engine.EngineLoad{Running: running, Waiting: waiting}, OwnAtScrape: u.slots.inFlight(), Elsewhere: u.slots.fleet.others.Load().inFlight(PoolText, true), At: now}, 0, now)
}

// book records a report, as if a probe had read it.
func (u *Upstream) book(r *LoadReport, batch int, now time.Time) {
	(&prober{up: u}).storeReport(r, batch, now)
}

// newest returns the newest report, or false if there is none or it has expired.
func (r *loadReports) newest(now time.Time) (LoadReport, bool) {
	if last := r.last.Load(); last.isFresh(MomentOf(now)) {
		return last.LoadReport, true
	}
	return LoadReport{}, false
}

// Adopt adds the plan's upstreams to their set like Commit, but starts no probes.
func (p *ChangePlan) Adopt() {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	for i := range p.items {
		p.set.byID[p.items[i].up.identity.id] = p.items[i].up
	}
}
