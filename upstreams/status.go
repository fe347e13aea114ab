package upstreams

import (
	"cmp"
	"fmt"
	"time"

	"penstock/upstreams/engine"
)

// Status is everything about an upstream at one moment, as plain data for the status page and for
// tests. It holds no credential.
type Status struct {
	Name          string             `json:"name"`
	Label         string             `json:"label"`
	URL           string             `json:"url"`
	Address       string             `json:"address,omitempty"`
	Engine        string             `json:"engine"`
	EngineTitle   string             `json:"engine_title"`
	Quirks        []string           `json:"quirks,omitempty"`
	State         string             `json:"state"`
	StateSeconds  float64            `json:"state_seconds"`
	Mode          string             `json:"mode"`         // ready, drain or maintenance: the operator's wish
	ModeSeconds   float64            `json:"mode_seconds"` // since it was wished; -1: it was never changed
	Check         *LastCheck         `json:"last_check,omitempty"`
	Suspect       bool               `json:"suspect"` // a call could not reach it, and no probe has confirmed that yet
	Breaker       string             `json:"breaker"`
	BreakerOpens  float64            `json:"breaker_half_open_in_seconds,omitempty"`
	Limits        Limits             `json:"limits"`
	Ghosts        int                `json:"ghosts"` // taken off a shared limit
	Pools         []PoolStatus       `json:"pools"`
	Others        int                `json:"others"`
	Report        *Report            `json:"report,omitempty"` // the newest, fresh or not
	ReportFresh   bool               `json:"report_fresh"`
	ReportAge     float64            `json:"report_age_seconds"` // -1: none
	ProbeAge      float64            `json:"probe_age_seconds"`  // -1: none
	Models        []engine.ModelInfo `json:"models"`
	Missing       []string           `json:"missing,omitempty"` // expected names that it does not serve now
	LastFailure   *LastFailure       `json:"last_failure,omitempty"`
	TTFT          float64            `json:"ttft_seconds"`
	BytesPerToken float64            `json:"bytes_per_token"` // of prompts; what is assumed before any was counted

	Attempts  map[string]uint64 `json:"attempts"`  // by result, since the start
	Abandoned map[string]uint64 `json:"abandoned"` // calls given up, by what the engine did with their slots

	GenerationProbes map[string]uint64 `json:"generation_probes"` // the edge's own, by result, since the start
	Generation       *LastGeneration   `json:"last_generation_probe,omitempty"`
}

// PoolStatus is one pool's load.
type PoolStatus struct {
	Pool    string  `json:"pool"`
	Active  int     `json:"active"`
	Limit   int     `json:"limit"`
	Tokens  int64   `json:"tokens"`
	Penalty float64 `json:"penalty"`
}

// Obstacle says why no call for a served name may go here now, for an operator; empty when one may.
func (u *Upstream) Obstacle(served string, now time.Time) string {
	switch s := u.State(); {
	case u.Mode() != ModeReady:
		return "upstream is out by the operator's hand: " + u.Mode().String()
	case s == StateRetiring:
		return "upstream is retiring: the configuration has left it out"
	case s == StatePending:
		return "upstream has not been probed yet: it is used only while the route has none that is up"
	case s == StateDown:
		return "upstream is down: " + u.lastFailure()
	case u.Breaker(now) == BreakerOpen:
		return "breaker is open: " + u.lastFailure()
	case !u.passes(At(now)):
		return "breaker is half-open and its trial is under way: " + u.lastFailure()
	case !u.Serves(served):
		return u.notServedReason(served)
	}
	return ""
}

func (u *Upstream) lastFailure() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.failure
	switch {
	case f == nil:
		return "no failure is known"
	case f.Status != 0:
		return fmt.Sprintf("last %s failed (%s, status %d)", f.During, f.Reason, f.Status)
	}
	return fmt.Sprintf("last %s failed (%s)", f.During, f.Reason)
}

// notServedReason says why a name is not served.
func (u *Upstream) notServedReason(served string) string {
	if u.isMissing(served) {
		return "engine answered 404 for the model"
	}
	if _, listed := u.Model(served); listed {
		return "engine lists the model but has not loaded it"
	}
	return "engine does not list the model"
}

// Status returns a copy of everything that is known.
func (u *Upstream) Status(now time.Time) Status {
	profile, report := u.engine.Load(), u.report.Load()
	st := Status{
		Name: u.name, Label: u.label, URL: u.url, Address: u.address,
		Engine: profile.Name(), EngineTitle: profile.Title(), Quirks: profile.Quirks(),
		State: u.State().String(), Breaker: u.Breaker(now).String(),
		Limits: u.Limits(), Ghosts: int(u.ghostSlots.Load()), Others: u.others(now),
		Mode: u.Mode().String(), Attempts: map[string]uint64{}, Abandoned: map[string]uint64{}, GenerationProbes: map[string]uint64{},
		ReportAge: -1, Models: u.Models(), TTFT: u.TTFT().Seconds(), BytesPerToken: cmp.Or(u.BytesPerToken(), usualBytesPerToken),
	}
	if report != nil {
		r := *report
		st.Report, st.ReportFresh, st.ReportAge = &r, report.fresh(now), age(report.At, now)
	}
	if until := u.openUntil.Load(); until != breakerClosed && until > ticks(now) {
		st.BreakerOpens = time.Duration(until - ticks(now)).Seconds()
	}
	for o := range outcomeCount {
		st.Attempts[o.String()] = u.attempts[o].Get()
	}
	for f := range fateCount {
		st.Abandoned[f.String()] = u.abandoned[f].Get()
	}
	for g := range engine.GenerationCount {
		st.GenerationProbes[g.String()] = u.generated[g].Get()
	}
	for p := range poolCount {
		l := u.Load(p, now)
		st.Pools = append(st.Pools, PoolStatus{p.String(), l.Active, l.Limit, l.Tokens, l.Penalty})
	}
	for _, name := range u.settings.Load().expected {
		if !u.Serves(name) {
			st.Missing = append(st.Missing, name)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	st.Suspect, st.ProbeAge, st.StateSeconds = u.health.suspect, age(u.probedAt, now), now.Sub(u.stateChanged).Seconds()
	st.ModeSeconds = age(u.modeChanged, now)
	if u.check != nil {
		c := *u.check
		st.Check = &c
	}
	if u.failure != nil {
		f := *u.failure
		st.LastFailure = &f
	}
	if u.generator.last != nil {
		g := *u.generator.last
		st.Generation = &g
	}
	return st
}
