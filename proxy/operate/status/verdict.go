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

// Judge makes the verdict from the rest of the state. The watch, which may be nil, sees the judged
// state and adds how long it has lasted.
func (s *Status) Judge(w *Watch) {
	for i := range s.Upstreams {
		s.Upstreams[i].rest(s.Now)
	}
	s.judge()
	w.see(s)
	keys := s.soon()
	if s.Draining {
		s.Verdict = Verdict{LevelDraining, fmt.Sprintf("Shutting down: %s left.", count(int(s.InFlight), "call")), nil}
		return
	}
	var out, troubles, about []string
	served := "Every model is served."
	for i := range s.Models {
		m := &s.Models[i]
		if m.State != ModelServed {
			about = append(about, m.ID)
		}
		switch m.State {
		case ModelFallback:
			troubles = append(troubles, m.inPlace()+since(m.TroubleSeconds))
			served = "No model is out."
		case ModelOut:
			out = append(out, m.ID+since(m.TroubleSeconds))
		case ModelDegraded:
			troubles = append(troubles, m.ID+" "+strings.Join(m.Troubles, ", and ")+since(m.TroubleSeconds))
			served = "No model is out."
		}
	}
	good := 0
	for _, i := range s.byTrouble() {
		u := &s.Upstreams[i]
		if t := u.trouble(); t != "" {
			troubles, about = append(troubles, t), append(about, u.Label)
			continue
		}
		good++
		for _, t := range []string{s.failing(u), u.unread()} {
			if t != "" {
				troubles, about = append(troubles, t), append(about, u.Label)
			}
		}
	}
	troubles = append(ownTroubles(s), troubles...)
	troubles = append(troubles, s.Certificate.delays(s.Now)...)
	for _, p := range pairsOf(s) { // what fails now comes first
		if p.Level == LevelDegraded {
			troubles = append(troubles, "the "+p.Text)
		}
	}
	for _, h := range s.Hooks {
		if t := h.Problem(); t != "" {
			troubles = append(troubles, t)
		}
	}
	for _, c := range s.Copies {
		if t := c.Problem(); t != "" {
			troubles = append(troubles, t)
		}
	}
	for _, d := range s.Discoveries {
		if t := d.Problem(); t != "" {
			troubles = append(troubles, t)
		}
	}
	for _, i := range s.Issuers {
		if t := i.Problem(); t != "" {
			troubles = append(troubles, t)
		}
	}
	if t := s.Fleet.Trouble(); t != "" {
		troubles = append(troubles, t)
	}
	if r := s.LastReload; r != nil && r.KeysInForce {
		troubles = append(troubles, "the configuration on disk was refused: its keys are in force, its models are not")
	} else if r != nil && !r.OK {
		troubles = append(troubles, "the configuration on disk is invalid, so the previous one stays in force")
	}
	switch {
	case len(out) > 0:
		s.Verdict = Verdict{LevelOut, "Out: no engine serves " + list(out) + ".", about}
		if len(troubles) > 0 {
			s.Verdict.Text += " Trouble: " + strings.Join(clip(troubles), "; ") + "."
		}
	case len(troubles) > 0:
		s.Verdict = Verdict{LevelDegraded, "Degraded: " + strings.Join(clip(troubles),
			"; ") + ". " + served, about}
	default:
		s.Verdict = Verdict{LevelOK, fmt.Sprintf("Healthy: %d of %s, %s in flight, %s.", good,
			takes(len(s.Upstreams)), count(int(s.InFlight), "call"), s.waiting()), nil}
	}
	if r := s.refusing(); len(r) > 0 {
		s.Verdict.Text += " Look at: " + strings.Join(clip(r), "; ") + "."
	}
	if len(keys) > 0 {
		s.Verdict.Text += " Keys: " + strings.Join(keys, "; ") + "."
	}
}

// soon describes which keys are over a limit or have expired, and then which keys expire and which
// budgets run out soon. That is not a trouble of the edge.
func (s *Status) soon() []string {
	var all, soon []string
	for i := range s.Keys {
		k := &s.Keys[i]
		now, shown := k.describe(s.Now)
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

// refusing describes the upstreams that refuse most calls with a feature which the other engines of
// the model do not refuse. Whether the engine is at fault is not known yet, so that is not a trouble
// of the edge. With one engine, or if all refuse, the calls are the more likely cause.
func (s *Status) refusing() (all []string) {
	for _, i := range s.byTrouble() {
		u := &s.Upstreams[i]
		if u.trouble() != "" {
			continue
		}
		for _, r := range u.Refuses {
			if s.alone(u, &r) {
				all = append(all, u.Label+" "+refusesText(&r)+", the others of its model did not: "+r.Remedy())
			}
		}
	}
	return all
}

// refusesText describes what an upstream refuses.
func refusesText(r *upstreams.Refusing) string {
	return fmt.Sprintf("refused %d of its last %s with %s (status %d)", r.Refused, count(r.Answers, "call"),
		featureWords(r.Feature), r.Status)
}

// alone reports whether a model has other engines that take calls and do not refuse what u refuses.
func (s *Status) alone(u *Upstream, refused *upstreams.Refusing) bool {
	refuses := map[string]bool{}
	for i := range s.Upstreams {
		other := &s.Upstreams[i]
		refuses[other.Label] = slices.ContainsFunc(other.Refuses, func(r upstreams.Refusing) bool { return r.Feature == refused.Feature })
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

// sign returns the level as a character.
func (v Verdict) sign() string {
	switch v.Level {
	case LevelOK:
		return "✓"
	case LevelDegraded:
		return "!"
	case LevelOut:
		return "✕"
	}
	return "↓"
}

// title returns the page's title. In trouble the sign comes first, because a narrow tab shows only
// the beginning.
func (v Verdict) title() string {
	if v.Level == LevelOK {
		return "Penstock"
	}
	return v.sign() + " Penstock"
}

// ownTroubles describes the troubles of the edge itself, worst first.
func ownTroubles(s *Status) (out []string) {
	if s.Panicking != "" {
		out = append(out, "the edge panics repeatedly ("+s.Panicking+
			"), so it is not ready; its log has the stacks")
	}
	if t := s.Certificate.Trouble(s.Now); t != "" {
		out = append(out, t+", so clients cannot connect")
	}
	if t := s.AdminCertificate.Trouble(s.Now); t != "" {
		out = append(out, "the admin listener's "+strings.TrimPrefix(t, "the ")+
			", so scrapers and commands cannot connect")
	}
	if s.Unsaved > unsavedMost {
		out = append(out, fmt.Sprintf("the ledger has not been written for %.0f s, "+
			"so usage is in memory alone; the log says why", s.Unsaved))
	}
	if s.TurnedAway {
		out = append(out, "clients are turned away: the limit of open connections is reached (limits.connections, limits.connections_per_address)")
	}
	if s.AdminPortShared {
		out = append(out, "the admin port is shared with "+count(s.OnAdminPort, "other edge")+
			", so reloads, drains and pages reach one of them at random: give each its own admin.listen")
	}
	return out
}

// inPlace describes which models answer the model's calls in its place.
func (m *Model) inPlace() string { return "no engine serves " + m.ID + ", so " + m.fallsBack() }

func (m *Model) fallsBack() string { return "its calls go to its fallback " + list(m.StandIns) }

// waiting describes what waits: for a slot of the edge, for its model's turn at an engine, and
// within the engines, which also queue other clients' requests.
func (s *Status) waiting() string {
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

// since describes how long something has lasted, if that is worth mentioning.
func since(seconds float64) string {
	if seconds < 1 {
		return ""
	}
	return ", for " + Ago(secondsOf(seconds))
}

// Since returns how many seconds the upstream has been in the shown state: the operator's mode,
// which takes precedence, or its health.
func (u *Upstream) Since() float64 {
	if u.Mode != "ready" {
		return u.ModeSeconds
	}
	return u.StateSeconds
}

// Busy explains the state of the same name.
const Busy = "it has calls and does not answer its probes: no new calls until it does"

// trouble returns why an upstream takes no calls; "" if it does.
func (u *Upstream) trouble() string {
	since := " for " + Ago(secondsOf(u.Since()))
	switch {
	case u.State == "retiring":
		return ""
	case u.Mode != "ready":
		return u.Label + " is in " + u.Mode + " mode" + since
	case u.State == "pending":
		return u.Label + " has not been probed yet"
	case u.State == "down" && u.LastFailure != nil:
		return u.Label + " is down" + since + " (" + reason(u.LastFailure.Why(), u.LastFailure.Status) + ")"
	case u.State == "stalled":
		return u.Label + " has stalled" + since + ": it has work and nothing moves"
	case u.Unheard > 0:
		return u.Label + " does not answer its probes, and nothing has come from it for " + Ago(secondsOf(u.Unheard)) + ": it is busy or has stopped"
	case u.State == "busy":
		return "" // some engines are busy during each call
	case u.State != "up":
		return u.Label + " is " + u.State + since
	case len(u.Lacks) > 0: // before the breaker, whose failure may be older
		l := u.Lacks[0]
		return fmt.Sprintf("%s refuses calls with %s (status %d, %s), which others of its model answer: %s", u.Label,
			featureWords(l.Feature), l.Status, refusedCalls(l.Refused), l.Remedy())
	case u.failsCalls() && u.LastFailure != nil && u.LastFailure.During == "call":
		return u.Label + " answers its probes but fails its calls (" + reason(u.LastFailure.Why(), u.LastFailure.Status) + "; breaker " + u.Breaker + ")"
	case u.failsCalls():
		return u.Label + " answers its probes but fails its calls (breaker " + u.Breaker + ")"
	case len(u.Missing) > 0:
		return u.Label + " does not serve " + list(u.Missing)
	}
	return ""
}

// rest sets BreakerIdle. A half-open breaker waits for a call, which on an idle edge may not come for
// hours; the failures that opened it say nothing about the engine any more.
func (u *Upstream) rest(now time.Time) {
	u.BreakerIdle = u.Breaker == upstreams.BreakerHalfOpen.String() && u.active() == 0 &&
		u.LastFailure != nil && now.Sub(u.LastFailure.At) >= observe.ReasonWindow
}

// failsCalls reports whether the breaker keeps calls away, or lets only one try the engine.
func (u *Upstream) failsCalls() bool { return u.Breaker != "closed" && !u.BreakerIdle }

// reportLate is how many seconds an engine's metrics may be out of date before the page reports
// that. A busy engine may answer late, and the next read compensates for one or two failed ones.
const reportLate = 60

// unread describes metrics that could be read before and cannot be read any more, of an upstream
// that takes calls.
func (u *Upstream) unread() string {
	if u.Report == nil || u.ReportFresh || u.ReportAge < reportLate || u.State != "up" && u.State != "busy" {
		return ""
	}
	return "the metrics of " + u.Label + " were last read " + Ago(secondsOf(u.ReportAge)) +
		" ago, so only this edge's own calls count there"
}

// reason describes why a probe or a call failed.
func reason(cause string, status int) string { return withStatus(words(cause), status) }

// withStatus adds the status of the engine's answer. For two statuses it adds what to do, because a
// probe often needs no key where calls do.
func withStatus(word string, status int) string {
	if status != 0 {
		if word != string(upstreams.CauseStatus) {
			word += ", status"
		}
		word += " " + strconv.Itoa(status)
	}
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		word += ": look at its api_key"
	}
	return word
}

// reasonOf describes why an upstream was picked, given the word for it.
func reasonOf(choice string) string { return routing.Reason(choice).Meaning() }

// meaningOf describes the meaning of a cause.
func meaningOf(cause string) string {
	return strings.ReplaceAll(upstreams.Cause(cause).Meaning(), "`", "") // of Markdown
}
