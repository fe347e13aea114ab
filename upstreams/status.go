package upstreams

import (
	"cmp"
	"fmt"
	"time"

	"penstock/upstreams/engine"
	"penstock/upstreams/progress"
	"penstock/upstreams/residency"
	"penstock/upstreams/wake"
)

// Status is a snapshot of an upstream, as plain data for the status page and for tests. It contains
// no credentials.
type Status struct {
	Name    string `json:"name"`
	Label   string `json:"label"`
	URL     string `json:"url"`
	Address string `json:"address,omitempty"`
	// Of a discovered upstream: DNS vllm, pod default/vllm-0.
	Origin       string   `json:"origin,omitempty"`
	Engine       string   `json:"engine"`
	EngineTitle  string   `json:"engine_title"`
	Quirks       []string `json:"quirks,omitempty"`
	State        string   `json:"state"`
	StateSeconds float64  `json:"state_seconds"`
	Unheard      float64  `json:"unheard_seconds,omitempty"` // silence of a suspected busy upstream
	// Its calls are retried elsewhere, because it is silent.
	Leaves bool `json:"-"`
	// Number of times it went down or stalled.
	Downs uint64 `json:"downs"`
	Mode  string `json:"mode"` // the operator's setting
	// Since the mode was changed; -1 if never.
	ModeSeconds float64    `json:"mode_seconds"`
	Check       *LastProbe `json:"last_check,omitempty"`
	// A call failed to connect, and no probe has confirmed it yet.
	Suspect      bool               `json:"suspect"`
	Breaker      string             `json:"breaker"`
	BreakerOpens float64            `json:"breaker_half_open_in_seconds,omitempty"`
	Limits       Limits             `json:"limits"`
	Ghosts       int                `json:"ghosts"` // slots that ghosts occupy
	Pools        []PoolStatus       `json:"pools"`
	Others       int                `json:"others"`
	Report       *LoadReport        `json:"report,omitempty"` // the newest report, possibly stale
	ReportFresh  bool               `json:"report_fresh"`
	ReportAge    float64            `json:"report_age_seconds"` // -1 if none
	Progress     ProgressStatus     `json:"progress"`
	ProbeAge     float64            `json:"probe_age_seconds"` // -1 if none
	Models       []engine.ModelInfo `json:"models"`
	Missing      []string           `json:"missing,omitempty"` // expected names that are not served now
	Lacks        []LackedFeature    `json:"lacks,omitempty"`   // features that only siblings have
	Refuses      []RefusedFeature   `json:"refuses,omitempty"` // refuses most calls for them
	LastFailure  *LastFailure       `json:"last_failure,omitempty"`
	TTFT         float64            `json:"ttft_seconds"`
	// Average of prompts; assumed until the first report.
	BytesPerToken float64      `json:"bytes_per_token"`
	Speeds        []ModelSpeed `json:"speeds,omitempty"`

	Attempts  map[string]uint64 `json:"attempts"`  // number of attempts by outcome, since the start
	Abandoned map[string]uint64 `json:"abandoned"` // number of abandoned calls by the fate of their slots

	Wake      *wake.Status        `json:"wake,omitempty"`      // set if the engine can be woken
	Residency *residency.Snapshot `json:"residency,omitempty"` // set if the models take turns

	GenerationProbes map[string]uint64    `json:"generation_probes"` // number of probes by result
	Generation       *LastGenerationProbe `json:"last_generation_probe,omitempty"`
}

// ProgressStatus shows whether the upstream's calls make progress.
type ProgressStatus struct {
	By    string  `json:"by"`                      // ProgressByCounters or ProgressByAnswers
	Still float64 `json:"still_seconds,omitempty"` // time without progress
	Bound float64 `json:"bound_seconds"`           // the upstream stalls when still_seconds exceeds this
}

// The values of ProgressStatus.By.
const (
	ProgressByCounters = "counters" // the engine's counters
	ProgressByAnswers  = "answers"  // the responses to the edge's calls
)

func progressStatus(f progress.WatchFacts) ProgressStatus {
	p := ProgressStatus{By: ProgressByAnswers, Still: f.Still.Seconds(), Bound: f.Bound.Seconds()}
	if f.Counts {
		p.By = ProgressByCounters
	}
	return p
}

// PoolStatus is one pool's load.
type PoolStatus struct {
	Pool    string  `json:"pool"`
	Active  int     `json:"active"` // this edge's calls
	Limit   int     `json:"limit"`
	Places  int     `json:"places"` // number of calls that the engine runs concurrently
	Tokens  int64   `json:"tokens"`
	Penalty float64 `json:"penalty"`

	Elsewhere int `json:"elsewhere,omitempty"` // calls of the fleet's other edges
}

// DescribeObstacle explains to the operator why calls for a served name cannot be sent to the
// upstream now. It returns "" if such calls can be sent.
func (u *Upstream) DescribeObstacle(served string, now time.Time) string {
	switch s := u.State(); {
	case u.Mode() != ModeReady:
		return "upstream was taken out by the operator: " + u.Mode().String()
	case s == StateRetiring && u.removal.podGone.Load():
		return "upstream is retiring: Kubernetes has no pod for it that takes calls"
	case s == StateRetiring:
		return "upstream is retiring: the configuration no longer has it"
	case s == StatePending:
		return "upstream has not been probed yet: it is used only while no other of the route is up"
	case s == StateDown && u.Health.Wake.IsStarting(now):
		return "upstream's engine is being woken"
	case s == StateDown:
		return "upstream is down: " + u.Health.lastFailure()
	case s == StateStalled:
		return "upstream has stalled: it has work and nothing moves"
	case s == StateBusy:
		return "upstream is busy: it has calls, which keep their slots, and does not answer its probes"
	case u.Breaker.StateAt(now) == BreakerOpen:
		return "breaker is open: " + u.Health.lastFailure()
	case !u.Breaker.admitsCalls(MomentOf(now)):
		return "breaker is half-open and its trial is under way: " + u.Health.lastFailure()
	case !u.Models.Serves(served):
		return u.Models.unavailableReason(served)
	}
	return ""
}

// UnavailableReason explains to the operator why the upstream will not serve a model soon. It
// returns "" if the upstream will serve the model, or if that is unknown. An open breaker does not
// count, because it closes by itself.
func (u *Upstream) UnavailableReason(served string) string {
	switch u.Health.currentState() {
	case StateDown:
		return fmt.Sprintf("upstream %s is down: %s", u.identity.label, u.Health.lastFailure())
	case StatePending:
		return fmt.Sprintf("upstream %s has not answered a probe yet", u.identity.label)
	case StateUp, StateStalled, StateBusy, StateRetiring:
	}
	if !u.Models.Serves(served) {
		return fmt.Sprintf("upstream %s: %s", u.identity.label, u.Models.unavailableReason(served))
	}
	return ""
}

// Status returns a snapshot of the upstream.
func (u *Upstream) Status(now time.Time) Status {
	profile, id, health := u.engine.Load(), &u.identity, u.Health.factsSnapshot()
	others, _ := u.reports.otherRequests(MomentOf(now))
	st := Status{
		Name: id.name, Label: id.label, URL: id.url, Address: id.address, Origin: u.settings.Load().endpoint.origin,
		Engine: profile.Name(), EngineTitle: profile.Title(), Quirks: profile.Quirks(),
		State: u.State().String(), StateSeconds: now.Sub(health.changedAt).Seconds(), Downs: health.downCount,
		Suspect: health.liveness.isSuspect,
		Check:   health.lastCheck, LastFailure: health.lastFailure, ProbeAge: secondsSince(health.probedAt, now),
		Breaker: u.Breaker.StateAt(now).String(),
		Limits:  u.Limits(), Ghosts: u.slots.ghostCount(), Others: others,
		Mode: u.Mode().String(), ModeSeconds: u.mode.secondsSinceChange(now),
		Attempts: map[string]uint64{}, Abandoned: map[string]uint64{}, GenerationProbes: map[string]uint64{},
		ReportAge: -1, Models: u.Models.ListedModels(), Missing: u.Models.unservedNames(u.settings.Load().expected),
		TTFT: u.Averages.TTFT().Seconds(), BytesPerToken: cmp.Or(u.Averages.BytesPerToken(), initialBytesPerToken),
		Lacks: ListLackedFeatures(u, now), Refuses: ListRefusedFeatures(u, now), Generation: u.generations.lastGeneration(), Wake: u.Health.Wake.Status(now),
		Progress: progressStatus(u.Progress.Facts(now)), Speeds: modelSpeeds(&u.Models, MomentOf(now)),
	}
	if since, suspected := u.Health.suspectedSince(); suspected {
		st.Unheard, st.Leaves = time.Duration(momentTicks(now)-since).Seconds(), u.Health.ShouldRetryElsewhere()
	}
	if report := u.reports.last.Load(); report != nil {
		r := report.LoadReport
		st.Report, st.ReportFresh, st.ReportAge = &r, report.isFresh(MomentOf(now)), secondsSince(report.At, now)
	}
	if g := u.Models.residents.Gate(); g != nil {
		st.Residency = g.Snapshot(now)
	}
	if until := u.Breaker.openUntil.Load(); until != breakerClosed && until > momentTicks(now) {
		st.BreakerOpens = time.Duration(until - momentTicks(now)).Seconds()
	}
	for o := range outcomeCount {
		st.Attempts[o.String()] = u.series.attempts[o].Get()
	}
	for f := range slotFateCount {
		st.Abandoned[f.String()] = u.series.abandoned[f].Get()
	}
	for g := range engine.GenerationVerdictCount {
		st.GenerationProbes[g.String()] = u.series.generated[g].Get()
	}
	for p := range poolCount {
		var l Load
		u.ReadLoad(&l, p, MomentOf(now))
		st.Pools = append(st.Pools, PoolStatus{
			p.String(), l.Active - l.Elsewhere, l.Limit, l.Places, l.Tokens, l.Penalty, l.Elsewhere,
		})
	}
	return st
}
