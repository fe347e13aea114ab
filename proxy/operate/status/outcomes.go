package status

import (
	"fmt"
	"slices"
)

func (s *Status) judgeModels() {
	s.findSoleUpstreams()
	for i := range s.Models {
		m := &s.Models[i]
		m.Troubles = s.modelProblemTexts(m)
		m.Fallbacks = availableFallbacks(s, m)
		switch {
		case m.Fallbacks != nil:
			m.State = ModelFallback
		case !m.Ready:
			m.State = ModelOut
		case m.isFailing():
			m.State = ModelFailing
		case len(m.Troubles) > 0:
			m.State = ModelDegraded
		default:
			m.State = ModelServed
		}
	}
}

// findSoleUpstreams finds each upstream that is the only upstream to accept calls for a model.
func (s *Status) findSoleUpstreams() {
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

// serviceState returns ModelServed if an engine serves the model, ModelFallback if a fallback
// serves its calls, and ModelOut otherwise.
func (m *Model) serviceState() string {
	if m.State == ModelDegraded || m.State == ModelFailing {
		return ModelServed
	}
	return m.State
}

// isFailing reports whether most of the model's calls fail or find no free slot.
func (m *Model) isFailing() bool {
	n := &m.History.Minute
	return isMajority(n.Failed+n.Full, n.Calls)
}

// availableFallbacks returns the fallbacks that can answer calls for m, in order. It returns all of
// these, because a key may not be allowed to use the first fallback. Fallbacks of fallbacks are
// ignored.
func availableFallbacks(s *Status, m *Model) (out []string) {
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

func (s *Status) modelProblemTexts(m *Model) (out []string) {
	n, say := &m.History.Minute, func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if Thresholds.Failed.shareExceeds(n.Failed, n.Calls) {
		say("fails %s%s", callShareText(n.Failed, n.Calls), s.failureSourceText(m.ID))
	}
	if Thresholds.Full.shareExceeds(n.Full, n.Calls) {
		say("is full for %s: %s%s", callShareText(n.Full, n.Calls), s.slotsText(m), s.dominantKeyText(m.ID))
	}
	if Thresholds.Queue.quantileExceeds(n.QueueP95, n.Queued) {
		say("keeps calls waiting %s for a slot (p95)", formatMillis(n.QueueP95))
	}
	if Thresholds.TTFT.quantileExceeds(n.TTFTP95Millis, n.Streams) {
		say("takes %s to its first token (p95)", formatMillis(n.TTFTP95Millis))
	}
	return out
}

func callShareText(n, all int) string {
	return fmt.Sprintf("%d %% of its calls (%d of %d in the last minute)", percentOf(n, all), n, all)
}

// slotsText describes how full a model is, or which of its engines get no new calls while they are
// busy.
func (s *Status) slotsText(m *Model) string {
	active, total := m.Slots.Active, m.Slots.Total
	for i := 1; i < len(m.Tiers); i++ {
		active, total = active+m.Tiers[i].Slots.Active, total+m.Tiers[i].Slots.Total
	}
	switch busy := s.busyUpstreams(m); {
	case active < total && len(busy) == 1:
		return "no new calls go to " + busy[0] + ", which does not answer its probes"
	case active < total && busy != nil:
		return "no new calls go to " + joinNames(busy) + ", which do not answer their probes"
	case active < total:
		return fmt.Sprintf("%d of %d slots are in use now", active, total)
	}
	if total == 1 {
		return "its only slot is in use"
	}
	return fmt.Sprintf("all %d slots are in use", total)
}

// busyUpstreams returns the busy upstreams of a model.
func (s *Status) busyUpstreams(m *Model) (out []string) {
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		if u.State == "busy" && u.Mode == "ready" && slices.ContainsFunc(m.Targets, func(t Target) bool { return t.Upstream == u.Label }) {
			out = append(out, u.Label)
		}
	}
	return out
}

func (s *Status) failureSourceText(model string) string {
	where, why := map[string]int{}, map[string]map[string]int{} // keyed by upstream, and by upstream and reason
	for _, all := range [][]Reason{s.Failures, s.Refusals} {
		for i := range all {
			if r := &all[i]; r.Model == model && r.Failed {
				if why[r.Upstream] == nil {
					why[r.Upstream] = map[string]int{}
				}
				where[r.Upstream] += r.Minute
				why[r.Upstream][r.causeText()] += r.Minute
			}
		}
	}
	at, most, all := findHighestCount(where)
	code, _, _ := findHighestCount(why[at])
	if most*2 <= all {
		code = mostFrequentReason(why)
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
	return fmt.Sprintf(", on %s (%s)", pluralize(len(where), "upstream"), code)
}

// mostFrequentReason returns the most frequent reason for failed calls, over all upstreams.
func mostFrequentReason(why map[string]map[string]int) string {
	sum := map[string]int{}
	for _, reasons := range why {
		for reason, n := range reasons {
			sum[reason] += n
		}
	}
	reason, _, _ := findHighestCount(sum)
	return reason
}

// dominantKeyText names the key of most of the calls that find no free slot at a model. If no
// single key has most of these calls, it returns "".
func (s *Status) dominantKeyText(model string) string {
	whose := map[string]int{}
	for i := range s.Refusals {
		if r := &s.Refusals[i]; r.Model == model && r.Limit == "" && !r.Failed {
			whose[r.Key] += r.Minute
		}
	}
	if key, most, all := findHighestCount(whose); key != "" && most*2 > all {
		return ", most calls are of " + key
	}
	return ""
}

// findHighestCount returns the name with the highest count. If more than one name has the highest
// count, findHighestCount returns the first of these names in alphabetical order.
func findHighestCount(counts map[string]int) (name string, most, all int) {
	for n, c := range counts {
		all += c
		if c > most || c == most && n < name {
			name, most = n, c
		}
	}
	return name, most, all
}

// failingUpstreamText describes an upstream that fails even though its models still work.
func (s *Status) failingUpstreamText(u *Upstream) string {
	if !Thresholds.Attempts.shareExceeds(u.failedAttempts()) || s.blamesUpstream(u.Name) {
		return ""
	}
	return u.Label + " " + u.failureShareText(s.mainFailureReason(u)) + sinceSuffix(u.FailingSeconds) + ": see its log, or take it out (penstock drain " + u.Label + ")"
}

func (s *Status) mainFailureReason(u *Upstream) string {
	why := map[string]int{}
	for i := range s.Attempts {
		if r := &s.Attempts[i]; r.Upstream == u.Name {
			why[r.causeText()] += r.Minute
		}
	}
	word, _, _ := findHighestCount(why)
	return word
}

// failedAttempts counts failed attempts, including failures that a retry hid from the client.
func (u *Upstream) failedAttempts() (n, all int) {
	m := &u.History.Minute
	return m.Failed + m.Retried, m.Calls + m.Retried
}

func (u *Upstream) failureShareText(why string) string {
	n, all := u.failedAttempts()
	text := fmt.Sprintf("fails %d %% of what it is asked (%d of %d in the last minute", percentOf(n, all), n, all)
	if hidden := u.History.Minute.Retried; hidden > 0 {
		text += fmt.Sprintf(", %d of them hidden by retries", hidden)
	}
	if why != "" {
		text += "; " + why
	}
	return text + ")"
}

// blamesUpstream reports whether the sentence about a failing model already mentions the upstream.
func (s *Status) blamesUpstream(upstream string) bool {
	return slices.ContainsFunc(s.Failures, func(r Reason) bool {
		return r.Upstream == upstream && r.Minute > 0 && slices.ContainsFunc(s.Models, func(m Model) bool {
			return m.ID == r.Model && Thresholds.Failed.shareExceeds(m.History.Minute.Failed, m.History.Minute.Calls)
		})
	})
}
