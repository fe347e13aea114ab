package status

import (
	"fmt"
	"slices"
)

// judge determines the models' states and problems.
func (s *Status) judge() {
	s.soles()
	for i := range s.Models {
		m := &s.Models[i]
		m.Troubles = s.troublesOf(m)
		m.StandIns = standIns(s, m)
		switch {
		case m.StandIns != nil:
			m.State = ModelFallback
		case !m.Ready:
			m.State = ModelOut
		case m.failing():
			m.State = ModelFailing
		case len(m.Troubles) > 0:
			m.State = ModelDegraded
		default:
			m.State = ModelServed
		}
	}
}

// soles finds the upstreams that are the only ones to take calls for a model.
func (s *Status) soles() {
	of := map[string][]string{}
	for i := range s.Models {
		alone := ""
		for j := range s.Models[i].Targets {
			t := &s.Models[i].Targets[j]
			if !t.Eligible || t.Upstream == alone {
				continue
			}
			if alone != "" {
				alone = ""
				break
			}
			alone = t.Upstream
		}
		if alone != "" {
			of[alone] = append(of[alone], s.Models[i].ID)
		}
	}
	for i := range s.Upstreams {
		s.Upstreams[i].SoleFor = of[s.Upstreams[i].Label]
	}
}

// servedBy reports whether the model is served by its own engines, by its fallback, or not at all.
func (m *Model) servedBy() string {
	if m.State == ModelDegraded || m.State == ModelFailing {
		return ModelServed
	}
	return m.State
}

// failing reports whether most of the model's calls fail or find no free slot.
func (m *Model) failing() bool {
	n := &m.History.Minute
	return most(n.Failed+n.Full, n.Calls)
}

// standIns returns the models that answer m's calls while no engine serves it: its served
// fallbacks, in order. It does not follow the fallbacks' own fallbacks. It returns all served
// fallbacks, because a key may lack the right to the first.
func standIns(s *Status, m *Model) (out []string) {
	if m.Ready {
		return nil
	}
	for _, name := range m.Fallback {
		if slices.ContainsFunc(s.Models, func(f Model) bool { return f.ID == name && f.Ready }) {
			out = append(out, name)
		}
	}
	return out
}

// troublesOf describes the problems of a model's calls, worst first.
func (s *Status) troublesOf(m *Model) (out []string) {
	n, say := &m.History.Minute, func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if Bounds.Failed.share(n.Failed, n.Calls) {
		say("fails %s%s", shareOf(n.Failed, n.Calls), s.blame(m.ID))
	}
	if Bounds.Full.share(n.Full, n.Calls) {
		say("is full for %s: %s%s", shareOf(n.Full, n.Calls), s.slots(m), s.hit(m.ID))
	}
	if Bounds.Queue.quantile(n.QueueP95, n.Queued) {
		say("keeps calls waiting %s for a slot (p95)", millis(n.QueueP95))
	}
	if Bounds.TTFT.quantile(n.TTFTP95Millis, n.Streams) {
		say("takes %s to its first token (p95)", millis(n.TTFTP95Millis))
	}
	return out
}

// shareOf describes in words that n out of all calls in the last minute were affected.
func shareOf(n, all int) string {
	return fmt.Sprintf("%d %% of its calls (%d of %d in the last minute)", percent(n, all), n, all)
}

// slots describes how full a model is, or which of its engines take no new calls while they are
// busy.
func (s *Status) slots(m *Model) string {
	active, total := 0, 0
	for _, p := range poolsOf(*m) {
		active, total = active+p.Active, total+p.Total
	}
	switch busy := s.busy(m); {
	case active < total && len(busy) == 1:
		return "no new calls go to " + busy[0] + ", which does not answer its probes"
	case active < total && busy != nil:
		return "no new calls go to " + list(busy) + ", which do not answer their probes"
	case active < total:
		return fmt.Sprintf("%d of %d slots are in use now", active, total)
	}
	if total == 1 {
		return "its only slot is in use"
	}
	return fmt.Sprintf("all %d slots are in use", total)
}

// busy returns the busy upstreams of a model.
func (s *Status) busy(m *Model) (out []string) {
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		if u.State == "busy" && u.Mode == "ready" && slices.ContainsFunc(m.Targets, func(t Target) bool { return t.Upstream == u.Label }) {
			out = append(out, u.Label)
		}
	}
	return out
}

// blame describes where and why a model's calls failed in the last minute.
func (s *Status) blame(model string) string {
	where, why := map[string]int{}, map[string]map[string]int{} // by upstream; by upstream and reason
	for _, all := range [][]Reason{s.Failures, s.Refusals} {
		for i := range all {
			if r := &all[i]; r.Model == model && r.Failed {
				if why[r.Upstream] == nil {
					why[r.Upstream] = map[string]int{}
				}
				where[r.Upstream] += r.Minute
				why[r.Upstream][r.why()] += r.Minute
			}
		}
	}
	at, most, all := greatest(where)
	code, _, _ := greatest(why[at])
	if most*2 <= all {
		code = mostFrequent(why)
	}
	switch {
	case all == 0:
		return ""
	case at == "":
		return ", most before an upstream was asked (" + code + ")"
	case most == all:
		return ", all on " + at + " (" + code + ")"
	case most*2 > all:
		return ", most on " + at + " (" + code + ")"
	}
	return fmt.Sprintf(", on %s (%s)", count(len(where), "upstream"), code)
}

// mostFrequent returns the reason that most calls failed for, at whatever upstream.
func mostFrequent(why map[string]map[string]int) string {
	sum := map[string]int{}
	for _, reasons := range why {
		for reason, n := range reasons {
			sum[reason] += n
		}
	}
	reason, _, _ := greatest(sum)
	return reason
}

// hit names the key whose calls find no free slot at a model, if most of these calls use one key.
func (s *Status) hit(model string) string {
	whose := map[string]int{}
	for i := range s.Refusals {
		if r := &s.Refusals[i]; r.Model == model && r.Limit == "" && !r.Failed {
			whose[r.Key] += r.Minute
		}
	}
	if key, most, all := greatest(whose); key != "" && most*2 > all {
		return ", most calls are of " + key
	}
	return ""
}

// greatest returns the name with the highest count. Of names with equal counts it returns the first
// in alphabetical order.
func greatest(counts map[string]int) (name string, most, all int) {
	for n, c := range counts {
		all += c
		if c > most || c == most && n < name {
			name, most = n, c
		}
	}
	return name, most, all
}

// failing describes an upstream that fails although all its models still work, because retries or
// other upstreams compensate. The text has the reason and the remedy.
func (s *Status) failing(u *Upstream) string {
	if !Bounds.Attempts.share(u.failed()) || s.told(u.Name) {
		return ""
	}
	return u.Label + " " + u.fails(s.whyFails(u)) + since(u.FailingSeconds) + ": see its log, or take it out (penstock drain " + u.Label + ")"
}

// whyFails returns the most frequent reason why attempts at the upstream failed in the last minute.
func (s *Status) whyFails(u *Upstream) string {
	why := map[string]int{}
	for i := range s.Attempts {
		if r := &s.Attempts[i]; r.Upstream == u.Name {
			why[r.why()] += r.Minute
		}
	}
	word, _, _ := greatest(why)
	return word
}

// failed returns how many attempts at the upstream failed in the last minute, and how many there
// were. Failures that a retry hid from the client count, too.
func (u *Upstream) failed() (n, all int) {
	m := &u.History.Minute
	return m.Failed + m.Retried, m.Calls + m.Retried
}

// fails describes the share of attempts that fail, and why. why may be empty.
func (u *Upstream) fails(why string) string {
	n, all := u.failed()
	text := fmt.Sprintf("fails %d %% of what it is asked (%d of %d in the last minute", percent(n, all), n, all)
	if hidden := u.History.Minute.Retried; hidden > 0 {
		text += fmt.Sprintf(", %d of them hidden by retries", hidden)
	}
	if why != "" {
		text += "; " + why
	}
	return text + ")"
}

// told reports whether the sentence about a failing model already mentions the upstream.
func (s *Status) told(upstream string) bool {
	return slices.ContainsFunc(s.Failures, func(r Reason) bool {
		return r.Upstream == upstream && r.Minute > 0 && slices.ContainsFunc(s.Models, func(m Model) bool {
			return m.ID == r.Model && Bounds.Failed.share(m.History.Minute.Failed, m.History.Minute.Calls)
		})
	})
}
