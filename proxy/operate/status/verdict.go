package status

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/proxy/telemetry/observe"
	"penstock/routing"
	"penstock/upstreams"
)

// SetVerdict derives the verdict from the other fields. If w is not nil, it records the state and
// provides how long each state has lasted.
func (s *Status) SetVerdict(w *StateWatch) {
	for i := range s.Upstreams {
		s.Upstreams[i].updateBreakerIdle(s.Now)
	}
	s.judgeModels()
	w.dropChangedLimits(s)
	keys, concerns := s.keyWarnings(), s.collectConcerns()
	w.recordState(s, concerns)
	if s.Draining {
		s.Verdict = Verdict{LevelDraining, fmt.Sprintf("Shutting down: %s left.", pluralize(int(s.InFlight), "call")), nil}
		return
	}
	var out, failing, troubles, about []string
	served := "Every model is served."
	for _, i := range rankedIndexes(len(s.Models), func(i int) int { return s.Models[i].rank() }) {
		m := &s.Models[i]
		if m.State != ModelServed {
			about = append(about, m.ID)
		}
		switch m.State {
		case ModelFallback:
			troubles = append(troubles, m.fallbackText()+sinceSuffix(m.TroubleSeconds))
			served = "No model is out."
		case ModelOut:
			out = append(out, m.ID+sinceSuffix(m.TroubleSeconds))
		case ModelFailing, ModelDegraded:
			t := m.ID + " " + strings.Join(m.Troubles, ", and ") + sinceSuffix(m.TroubleSeconds)
			if m.State == ModelFailing {
				failing = append(failing, t)
			} else {
				troubles = append(troubles, t)
			}
			served = "No model is out."
		}
	}
	good := 0
	for _, i := range s.upstreamOrder() {
		u := &s.Upstreams[i]
		if t := u.troubleText(); t != "" {
			troubles, about = append(troubles, t), append(about, u.Label)
			continue
		}
		good++
		for _, t := range []string{s.failingUpstreamText(u), u.lateReportText()} {
			if t != "" {
				troubles, about = append(troubles, t), append(about, u.Label)
			}
		}
	}
	var own, others []string
	for i := range concerns {
		switch c := &concerns[i]; {
		case c.level == LevelFailing:
			failing = append(failing, c.text)
		case c.edgeItself:
			own = append(own, c.text)
		default:
			others = append(others, c.text)
		}
	}
	troubles = slices.Concat(own, troubles, others) // current failures come first
	switch {
	case len(out) > 0:
		s.Verdict = Verdict{LevelOut, "Out: no engine serves " + joinNames(out) + ".", about}
		if all := slices.Concat(failing, troubles); len(all) > 0 {
			s.Verdict.Text += " Trouble: " + strings.Join(shortenList(all), "; ") + "."
		}
	case len(failing) > 0:
		s.Verdict = Verdict{LevelFailing, "Failing: " + strings.Join(shortenList(slices.Concat(failing, troubles)), "; ") + ".", about}
	case len(troubles) > 0:
		s.Verdict = Verdict{LevelDegraded, "Degraded: " + strings.Join(shortenList(troubles),
			"; ") + ". " + served, about}
	default:
		s.Verdict = Verdict{LevelOK, fmt.Sprintf("Healthy: %d of %s, %s in flight, %s.", good,
			acceptingUpstreamsText(len(s.Upstreams)), pluralize(int(s.InFlight), "call"), s.waitingText()), nil}
	}
	look := s.refusedFeatureTexts()
	for i := range s.Upstreams {
		// Some engines do not answer probes during long answers.
		if u := &s.Upstreams[i]; u.Unheard > 0 && !u.Leaves {
			look = append(look, u.silenceText())
		}
	}
	for _, p := range certificateNotes(s) {
		if p.Soon {
			look = append(look, p.Ends)
		}
	}
	if len(look) > 0 {
		s.Verdict.Text += " Look at: " + strings.Join(shortenList(look), "; ") + "."
	}
	if len(keys) > 0 {
		s.Verdict.Text += " Keys: " + strings.Join(keys, "; ") + "."
	}
}

func (u *Upstream) silenceText() string {
	return u.Label + " does not answer its probes, and nothing has come from it for " + FormatDuration(secondsDuration(u.Unheard)) +
		": it is busy or has stopped"
}

// edgeConcern is a problem that is not about a model or an upstream.
type edgeConcern struct {
	subject    string // the problem's subject, which stays the same while the problem lasts
	text       string
	level      string
	edgeItself bool // whether the problem is in the edge itself, and therefore precedes problems of models
}

// reloadConcernSubject is the subject of a rejected configuration.
const reloadConcernSubject = "the configuration on disk"

func (s *Status) collectConcerns() (all []edgeConcern) {
	add := func(of, text string) {
		if text != "" {
			all = append(all, edgeConcern{subject: of, text: text, level: LevelDegraded})
		}
	}
	all = ownEdgeConcerns(s)
	for _, t := range s.Certificate.overdueRenewals(s.Now) {
		add("a certificate's renewal", t)
	}
	for _, p := range certificateNotes(s) {
		if p.Ends != "" && !p.Soon {
			all = append(all, edgeConcern{"the certificate of " + p.Of, p.Ends, LevelDegraded, p.Level == LevelFailing})
		}
	}
	for _, h := range s.Hooks {
		add("the hook "+h.Name, h.Problem())
	}
	for _, c := range s.Copies {
		add("copies for the hook "+c.Hook, c.Problem())
	}
	for _, d := range s.Discoveries {
		add(d.Source, d.Problem())
	}
	for _, i := range s.Issuers {
		add("the issuer "+i.Name, i.Problem())
	}
	add("the fleet", s.Fleet.StoreProblem())
	add(reloadConcernSubject, s.LastReload.problemText())
	return all
}

func (r *Reload) problemText() string {
	if r == nil || r.OK && !r.KeysInForce {
		return ""
	}
	text := "the configuration on disk is invalid, so the previous one stays in force, keys included"
	if r.KeysInForce {
		text = "the configuration on disk was refused: its keys are in force, its models are not"
	}
	return text + r.firstProblem()
}

func (r *Reload) firstProblem() string {
	if len(r.Problems) == 0 {
		return ""
	}
	text, _, _ := strings.Cut(r.Problems[0], "\n")
	place, _, _ := strings.Cut(text, ": ")
	text = text[strings.LastIndexAny(place, `/\`)+1:] // removes the folder
	if n := len(r.Problems) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return " (" + text + ")"
}

// keyWarnings describes problems with keys: exceeded limits, expiry, and nearly exhausted budgets.
// They do not count as problems of the edge.
func (s *Status) keyWarnings() []string {
	var all, soon []string
	for i := range s.Keys {
		k := &s.Keys[i]
		now, shown := k.setNotesAndBadge(s.Now)
		for j, note := range k.Notes[:shown] {
			note = k.label() + " " + note
			if j < now {
				all = append(all, note)
			} else {
				soon = append(soon, note)
			}
		}
	}
	all = append(all, soon...)
	const most = 3
	if len(all) > most {
		all = append(all[:most], fmt.Sprintf("%d more", len(all)-most))
	}
	return all
}

// refusedFeatureTexts describes the upstreams that refuse most calls with a feature that the
// model's other engines accept. It omits features refused by all engines, because the requests are
// more likely to be at fault.
func (s *Status) refusedFeatureTexts() (all []string) {
	for _, i := range s.upstreamOrder() {
		u := &s.Upstreams[i]
		if u.troubleText() != "" {
			continue
		}
		for _, r := range s.RefusedOnlyBy(u) {
			all = append(all, u.Label+" "+refusalShareText(&r)+sinceSuffix(u.RefusingSeconds)+", the others of its model did not: "+r.Remedy())
		}
		for _, r := range s.SoleRefusals(u) {
			all = append(all, u.Label+" "+refusalShareText(&r)+", and no other engine of its model can be compared: are the calls right? Otherwise "+r.Remedy())
		}
	}
	return all
}

// RefusedOnlyBy returns the features that the upstream refuses but the other upstreams of its model
// accept.
func (s *Status) RefusedOnlyBy(u *Upstream) (all []upstreams.RefusedFeature) {
	for i := range u.Refuses {
		if s.acceptedByOthers(u, &u.Refuses[i]) {
			all = append(all, u.Refuses[i])
		}
	}
	return all
}

func refusalShareText(r *upstreams.RefusedFeature) string {
	return fmt.Sprintf("refused %d of its last %s with %s (status %d)", r.Refused, pluralize(r.Answers, "call"),
		describeFeature(r.Feature), r.Status)
}

// minSoleEngineRefusals is how many calls in a row a model's only engine must have refused before the
// page mentions the engine.
const minSoleEngineRefusals = 10

// SoleRefusals returns the features for which the upstream refused each of the last calls. It
// returns only features whose refusal would be explained by a missing flag, and only if the model
// has no other engine to compare with.
func (s *Status) SoleRefusals(u *Upstream) (all []upstreams.RefusedFeature) {
	for i := range u.Refuses {
		if r := &u.Refuses[i]; r.Flag != "" && r.Refused >= minSoleEngineRefusals && r.Refused == r.Answers && s.isSoleTarget(u, r.Served) {
			all = append(all, *r)
		}
	}
	return all
}

// isSoleTarget reports whether the upstream is the only target of its models with that served name.
func (s *Status) isSoleTarget(u *Upstream, served string) bool {
	for i := range s.Models {
		targets := s.Models[i].Targets
		if slices.ContainsFunc(targets, func(t Target) bool { return t.Upstream == u.Label && t.Served == served }) &&
			slices.ContainsFunc(targets, func(t Target) bool { return t.Upstream != u.Label }) {
			return false
		}
	}
	return true
}

// firstRefusalText describes the first feature that the upstream refuses but the model's other
// upstreams accept. It returns "" if there is no such feature.
func (s *Status) firstRefusalText(u *Upstream) string {
	if len(u.Lacks) > 0 {
		l := &u.Lacks[0]
		return "refuses calls with " + describeFeature(l.Feature) + ": " + l.Remedy()
	}
	if all := s.RefusedOnlyBy(u); len(all) > 0 {
		return refusalShareText(&all[0])
	}
	return ""
}

// acceptedByOthers reports whether other engines of a model accept calls with the feature that u
// refuses.
func (s *Status) acceptedByOthers(u *Upstream, refused *upstreams.RefusedFeature) bool {
	refuses := map[string]bool{}
	for i := range s.Upstreams {
		other := &s.Upstreams[i]
		refuses[other.Label] = slices.ContainsFunc(other.Refuses, func(r upstreams.RefusedFeature) bool { return r.Feature == refused.Feature })
	}
	for i := range s.Models {
		targets := s.Models[i].Targets
		if !slices.ContainsFunc(targets, func(t Target) bool { return t.Upstream == u.Label && t.Served == refused.Served }) {
			continue
		}
		if slices.ContainsFunc(targets, func(t Target) bool { return t.Eligible && !refuses[t.Upstream] }) {
			return true
		}
	}
	return false
}

func (v Verdict) levelSign() string {
	switch v.Level {
	case LevelOK:
		return "✓"
	case LevelDegraded:
		return "!"
	case LevelFailing, LevelOut:
		return "✕"
	}
	return "↓"
}

// tabTitle returns the title of the browser tab. The sign comes first, because a narrow tab shows
// only the first characters.
func (v Verdict) tabTitle() string {
	if v.Level == LevelOK {
		return "Penstock"
	}
	return v.levelSign() + " Penstock"
}

func ownEdgeConcerns(s *Status) (all []edgeConcern) {
	add := func(level, of, text string) { all = append(all, edgeConcern{of, text, level, true}) }
	if s.Panicking != "" {
		add(LevelFailing, "panics", "the edge panics repeatedly ("+s.Panicking+
			"), so it is not ready; its log has the stacks")
	}
	if t := s.Certificate.Trouble(s.Now); t != "" {
		add(LevelFailing, "the certificate", t+", so clients cannot connect"+s.Certificate.replacementText("tls"))
	}
	if t := s.AdminCertificate.Trouble(s.Now); t != "" {
		add(LevelDegraded, "the admin listener's certificate", "the admin listener's "+strings.TrimPrefix(t, "the ")+
			", so scrapers and commands cannot connect"+s.AdminCertificate.replacementText("admin.tls"))
	}
	if s.Unsaved > maxUnsavedSeconds {
		add(LevelDegraded, "the ledger", fmt.Sprintf("the ledger has not been written for %.0f s, "+
			"so usage is in memory alone; the log says why", s.Unsaved))
	}
	if s.RejectsConnections {
		add(LevelDegraded, "the limit of connections", "clients are turned away: the limit of open connections is reached (limits.connections, limits.connections_per_address)")
	}
	if s.AdminPortShared {
		add(LevelDegraded, "the admin port", "the admin port is shared with "+pluralize(s.OnAdminPort, "other edge")+
			", so reloads, drains and pages reach one of them at random: give each its own admin.listen")
	}
	return all
}

// fallbackText says which fallbacks answer calls for the model while no engine serves it.
func (m *Model) fallbackText() string {
	return "no engine serves " + m.ID + ", so " + m.fallbackClause()
}

func (m *Model) fallbackClause() string {
	return "its calls go to its fallback " + joinNames(m.Fallbacks)
}

// waitingText describes how many calls are waiting for a slot, for their model's turn, or inside
// the engines. The number inside the engines includes requests from other clients.
func (s *Status) waitingText() string {
	slot, turn, within := 0, 0, 0
	for i := range s.Models {
		if q := s.Models[i].Queue; q != nil {
			slot += q.Waiting
		}
	}
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		if u.Residency != nil {
			for _, m := range u.Residency.Models {
				turn += m.Waiting
			}
		}
		if u.Report != nil && u.ReportFresh {
			within += u.Report.Waiting
		}
	}
	var parts []string
	for _, p := range []struct {
		n     int
		where string
	}{{slot, "for a slot"}, {turn, "for its model's turn"}, {within, "within the engines"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d waiting %s", p.n, p.where))
		}
	}
	if parts == nil {
		return "nothing waits"
	}
	return strings.Join(parts, ", ")
}

// sinceSuffix says how long a state has lasted. If the state has lasted less than a second,
// sinceSuffix returns "".
func sinceSuffix(seconds float64) string {
	if seconds < 1 {
		return ""
	}
	return ", for " + FormatDuration(secondsDuration(seconds))
}

func lastsSuffix(seconds float64) string {
	if seconds < 1 {
		return ""
	}
	return " for " + FormatDuration(secondsDuration(seconds))
}

// Since returns how many seconds the upstream has been in the displayed state. This state is the
// operator's mode or, if the mode is ready, the health.
func (u *Upstream) Since() float64 {
	if u.Mode != "ready" {
		return u.ModeSeconds
	}
	return u.StateSeconds
}

// BusyMeaning explains the state "busy".
const BusyMeaning = "it has calls and does not answer its probes: no new calls until it does"

func (u *Upstream) troubleText() string {
	switch {
	case u.State == "retiring":
		return ""
	case u.Mode != "ready":
		return u.Label + " is in " + u.Mode + " mode" + u.lastsText()
	case u.State == "pending":
		return u.Label + " has not been probed yet"
	case u.State == "down" && u.LastFailure != nil:
		return u.Label + " is down" + u.lastsText() + " (" + causeWithStatus(u.LastFailure.Why(), u.LastFailure.Status) + ")"
	case u.State == "stalled":
		return u.Label + " has stalled" + u.lastsText() + ": it has work and nothing moves"
	case u.Leaves:
		return u.silenceText() + ". Look at its process and its log, or take it out (penstock drain " + u.Label + ")"
	case u.State == "busy":
		return "" // some engines are busy during every call
	case u.State != "up":
		return u.Label + " is " + u.State + u.lastsText()
	case len(u.Lacks) > 0: // checked before the breaker, whose failure may be older
		l := u.Lacks[0]
		return fmt.Sprintf("%s refuses calls with %s (status %d, %s), which others of its model answer%s: %s", u.Label,
			describeFeature(l.Feature), l.Status, refusedCallsText(l.Refused), sinceSuffix(u.RefusingSeconds), l.Remedy())
	case u.breakerBlocksCalls() && u.LastFailure != nil && u.LastFailure.During == "call":
		return u.Label + " answers its probes but fails its calls (" + causeWithStatus(u.LastFailure.Why(), u.LastFailure.Status) + "; breaker " + u.Breaker + ")"
	case u.breakerBlocksCalls():
		return u.Label + " answers its probes but fails its calls (breaker " + u.Breaker + ")"
	case len(u.Missing) > 0:
		return u.Label + " does not serve " + joinNames(u.Missing)
	}
	return ""
}

func (u *Upstream) lastsText() string { return lastsSuffix(u.Since()) }

// updateBreakerIdle sets BreakerIdle. If an idle edge receives no calls for hours, the failures that
// opened the breaker are too old to describe the engine.
func (u *Upstream) updateBreakerIdle(now time.Time) {
	u.BreakerIdle = u.Breaker == upstreams.BreakerHalfOpen.String() && u.activeCalls() == 0 &&
		u.LastFailure != nil && now.Sub(u.LastFailure.At) >= observe.ReasonWindow
}

// breakerBlocksCalls reports whether the breaker blocks calls, or admits only a single call as a
// test.
func (u *Upstream) breakerBlocksCalls() bool { return u.Breaker != "closed" && !u.BreakerIdle }

// lateReportSeconds is how many seconds an engine's metrics may be out of date. A busy engine may
// respond late, and one or two failed requests for metrics do not matter.
const lateReportSeconds = 60

func (u *Upstream) lateReportText() string {
	if u.Report == nil || u.ReportFresh || u.ReportAge < lateReportSeconds || u.State != "up" && u.State != "busy" {
		return ""
	}
	return "the metrics of " + u.Label + " were last read " + FormatDuration(secondsDuration(u.ReportAge)) +
		" ago, so only this edge's own calls count there"
}

func causeWithStatus(cause string, status int) string {
	return withStatus(describeCause(cause), status)
}

// withStatus adds the engine's status to a cause. For 401, 403 and 404, it also adds a remedy,
// because probes often need neither a key nor the right path.
func withStatus(word string, status int) string {
	if status != 0 {
		if word != string(upstreams.CauseStatus) {
			word += ", status"
		}
		word += " " + strconv.Itoa(status)
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		word += ": look at its api_key"
	case http.StatusNotFound:
		word += ": look at its url, and at served of its models"
	}
	return word
}

func choiceMeaning(choice string) string { return routing.ChoiceReason(choice).Meaning() }

func causeMeaning(cause string) string {
	return strings.ReplaceAll(upstreams.Cause(cause).Meaning(), "`", "") // removes Markdown
}
