package status

import (
	"fmt"
	"slices"
)

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

// soles finds each upstream that is the only upstream to accept calls for a model.
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

// servedBy returns ModelServed if an engine serves the model, ModelFallback if a fallback does, and
// ModelOut otherwise.
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

// standIns returns the fallbacks that can answer calls for m, in order. It returns all of them,
// because a key may not be allowed to use the first. Fallbacks of fallbacks are ignored.
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

func shareOf(n, all int) string {
	return fmt.Sprintf("%d %% of its calls (%d of %d in the last minute)", percent(n, all), n, all)
}

// slots describes how full a model is, or which of its engines get no new calls while they are
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

// mostFrequent returns the reason for which most calls failed, at any upstream.
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

// If most calls that find no free slot at a model use the same key, hit names this key.
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

// greatest returns the name with the highest count. If more than one name has the highest count,
// greatest returns the first in alphabetical order.
func greatest(counts map[string]int) (name string, most, all int) {
	for n, c := range counts {
		all += c
		if c > most || c == most && n < name {
			name, most = n, c
		}
	}
	return name, most, all
}

// failing describes an upstream that fails even though its models still work.
func (s *Status) failing(u *Upstream) string {
	if !Bounds.Attempts.share(u.failed()) || s.told(u.Name) {
		return ""
	}
	return u.Label + " " + u.fails(s.whyFails(u)) + since(u.FailingSeconds) + ": see its log, or take it out (penstock drain " + u.Label + ")"
}

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

// failed counts failed attempts, including failures that a retry hid from the client.
func (u *Upstream) failed() (n, all int) {
	m := &u.History.Minute
	return m.Failed + m.Retried, m.Calls + m.Retried
}

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
