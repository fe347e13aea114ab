package status

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"penstock/proxy/telemetry/observe"
)

// A StateWatch stores the newest events and, for each model and upstream, an hour of history by
// minute (3 KB).
const (
	maxListedEvents = 200
	hourMinutes     = 60
)

// troubleHoldTime is how long a problem must be absent before it counts as over. Near a threshold,
// problems appear and disappear repeatedly.
const troubleHoldTime = time.Minute

// StateWatch records how long states last, how often they occur, and which events preceded them.
// recordState must be called about every second. The zero value is ready for use. A nil *StateWatch
// records nothing. A StateWatch is safe for concurrent use.
type StateWatch struct {
	mu         sync.Mutex
	lastCheck  time.Time // time of the last check, or zero
	lastReload time.Time
	upstreams  map[string]*watchedState // keyed by label
	models     map[string]*watchedState
	concerns   map[string]*lastingProblem // keyed by subject
	keys       map[string]*lastingProblem // keys over a limit, keyed by label
	limits     map[string]limitValue      // limits that refuse calls, keyed by key and limit name
	total      watchedState
	events     []Event // oldest first
	eventCount int
}

// Event is an entry in the list of events.
type Event struct {
	At time.Time `json:"at"`
	// Up, down, stalled, breaker, mode, drained, trouble, model, key, edge, reload, start.
	Kind  string `json:"kind"`
	Level string `json:"level,omitempty"` // ok, degraded, failing, out
	Who   string `json:"who,omitempty"`   // an upstream or a model
	Text  string `json:"text"`

	// Number is the event's number since the edge started. It identifies the event on an open page.
	Number int `json:"-"`
}

// Hour is the last hour by minute, oldest first. Unknown values are -1.
type Hour struct {
	TokensPerSecond []float64 `json:"tokens_per_second"`
	TTFTP95Millis   []float64 `json:"ttft_p95_ms"`
	Failed          []float64 `json:"failed_or_refused"`
	Downs           int       `json:"downs"`
	DownSeconds     float64   `json:"down_seconds"`
}

type watchedState struct {
	state, breaker, mode                string
	stateSince, breakerSince, modeSince time.Time
	wasDrained                          bool
	// Whether an event has reported that no engine serves the model.
	outageReported    bool
	downCount         uint64         // the upstream's Downs at the last check
	trouble           lastingProblem // a model's problem, or the failures of an upstream
	failing           lastingProblem // only for a model
	refusing, unheard lastingProblem // only for an upstream
	minutes           [hourMinutes]minuteCounts
}

type minuteCounts struct {
	minuteNumber         int64 // the row's minute, counted from 1970; older rows are stale
	tokens, ttft, failed float64
	downs                int
	downSeconds          float64 // seconds of downtime in the minute
}

type limitValue struct {
	value     string
	changedAt time.Time
}

// dropChangedLimits removes limits whose value has changed, because earlier refusals do not apply
// to the new value.
func (w *StateWatch) dropChangedLimits(s *Status) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := map[string]limitValue{}
	for i := range s.Keys {
		k := &s.Keys[i]
		k.exceededLimits = slices.DeleteFunc(k.exceededLimits, func(o exceededLimit) bool {
			name := k.label() + " " + o.limit
			l, known := w.limits[name]
			if value := k.limitValueText(o.limit); !known {
				l.value = value
			} else if l.value != value {
				l = limitValue{value, s.Now}
			}
			now[name] = l
			return o.last.Before(l.changedAt)
		})
	}
	w.limits = now
}

// lastingProblem is a problem that counts as over once it has been absent for troubleHoldTime.
type lastingProblem struct{ startedAt, lastSeen time.Time }

// update records whether the problem exists now, and reports whether it has just started or is
// over.
func (l *lastingProblem) update(there bool, now time.Time) (begins, over bool) {
	switch {
	case there:
		l.lastSeen = now
		if begins = l.startedAt.IsZero(); begins {
			l.startedAt = now
		}
	case !l.startedAt.IsZero() && now.Sub(l.lastSeen) >= troubleHoldTime:
		over = true
	}
	return begins, over
}

func (l *lastingProblem) seconds(now time.Time) float64 {
	if l.startedAt.IsZero() {
		return 0
	}
	return now.Sub(l.startedAt).Seconds()
}

func (l *lastingProblem) finishText() string {
	took := l.lastSeen.Sub(l.startedAt)
	*l = lastingProblem{}
	if took < time.Second {
		return ""
	}
	return " after " + FormatDuration(took)
}

// recordState records the changes since the last check, and sets the fields of s that depend on
// earlier states.
func (w *StateWatch) recordState(s *Status, concerns []edgeConcern) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	step := min(max(0, s.Now.Sub(w.lastCheck)), 10*time.Second) // the state during a longer gap is unknown
	if w.lastCheck.IsZero() {
		step = 0
		w.upstreams, w.models = map[string]*watchedState{}, map[string]*watchedState{}
		w.concerns, w.keys = map[string]*lastingProblem{}, map[string]*lastingProblem{}
		w.addEvent(s.Now, Event{Kind: "start", Text: "the edge has started"})
	}
	known := map[string]bool{}
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		known[u.Label] = true
		w.recordUpstream(s, u, step)
	}
	deleteUnknown(w.upstreams, known)
	clear(known)
	for i := range s.Models {
		m := &s.Models[i]
		known[m.ID] = true
		w.recordModel(s, m)
	}
	deleteUnknown(w.models, known)
	w.recordConcerns(s, concerns)
	w.total.minuteRow(s.Now).setFrom(&s.Total.Minute)
	s.Hour = w.total.lastHour(s.Now)
	if r := s.LastReload; r != nil && !r.At.Equal(w.lastReload) {
		w.lastReload = r.At
		if !r.Unchanged {
			w.addEvent(r.At, reloadEvent(r))
		}
	}
	w.lastCheck = s.Now
	s.Events = slices.Clone(w.events)
	slices.Reverse(s.Events)
}

// maxWatchedKeys limits the number of keys with events, so that these events do not displace all
// other events.
const maxWatchedKeys = 20

func (w *StateWatch) recordConcerns(s *Status, concerns []edgeConcern) {
	now := s.Now
	for i := range concerns {
		c := &concerns[i]
		if c.subject == reloadConcernSubject { // rejected reloads have separate events
			continue
		}
		if w.concerns[c.subject] == nil {
			w.concerns[c.subject] = &lastingProblem{}
		}
		if begins, _ := w.concerns[c.subject].update(true, now); begins {
			w.addEvent(now, Event{Kind: "edge", Level: c.level, Text: c.text})
		}
	}
	for of, l := range w.concerns {
		if _, over := l.update(false, now); over {
			w.addEvent(now, Event{Kind: "edge", Level: LevelOK, Text: of + ": the trouble is over" + l.finishText()})
			delete(w.concerns, of)
		}
	}
	for i := range s.Keys {
		k := &s.Keys[i]
		if k.Badge != badgeOverLimit || w.keys[k.label()] == nil && len(w.keys) >= maxWatchedKeys {
			continue
		}
		if w.keys[k.label()] == nil {
			w.keys[k.label()] = &lastingProblem{}
		}
		if begins, _ := w.keys[k.label()].update(true, now); begins {
			w.addEvent(now, Event{Kind: "key", Level: LevelDegraded, Text: k.label() + " " + k.Notes[0]})
		}
	}
	for label, l := range w.keys {
		if _, over := l.update(false, now); over {
			w.addEvent(now, Event{Kind: "key", Level: LevelOK, Text: label + " is within its limits again" + l.finishText()})
			delete(w.keys, label)
		}
	}
}

func deleteUnknown(all map[string]*watchedState, known map[string]bool) {
	for name := range all {
		if !known[name] {
			delete(all, name)
		}
	}
}

func reloadEvent(r *Reload) Event {
	e := Event{Kind: "reload", Level: LevelOK, Text: fmt.Sprintf("configuration #%d is in force", r.Version)}
	switch {
	case r.OK:
	case r.KeysInForce:
		e.Level, e.Text = LevelDegraded, "the configuration was refused, its keys are in force"
	default:
		e.Level, e.Text = LevelDegraded, fmt.Sprintf("the configuration was refused, #%d stays in force, keys included", r.Version)
	}
	if e.Level == LevelDegraded {
		e.Text += r.firstProblem()
	}
	return e
}

func (w *StateWatch) addEvent(at time.Time, e Event) {
	w.eventCount++
	e.At, e.Number = at, w.eventCount
	if len(w.events) == maxListedEvents {
		w.events = slices.Delete(w.events, 0, 1)
	}
	w.events = append(w.events, e)
}

func (w *StateWatch) recordUpstream(s *Status, u *Upstream, step time.Duration) {
	now, was := s.Now, w.upstreams[u.Label]
	if was == nil {
		was = &watchedState{state: u.State, breaker: u.Breaker, mode: u.Mode, stateSince: now, breakerSince: now, modeSince: now, downCount: u.Downs}
		w.upstreams[u.Label] = was
	}
	row := was.minuteRow(now)
	row.setFrom(&u.History.Minute)
	say := func(kind, level, format string, args ...any) {
		w.addEvent(now, Event{Kind: kind, Level: level, Who: u.Label, Text: fmt.Sprintf(format, args...)})
	}
	if isOutOfService(u.State) {
		row.downSeconds += step.Seconds()
	}
	why := ""
	if f := u.LastFailure; f != nil {
		why = ": " + causeWithStatus(f.Why(), f.Status)
	}
	if text, n := was.describeMissedDowns(u); n > 0 {
		row.downs += n
		say("down", LevelDegraded, "%s%s", text, why)
	}
	if u.State != was.state {
		switch {
		case u.State == "down":
			row.downs++
			say("down", LevelOut, "is down%s", why)
		case u.State == "stalled":
			row.downs++
			say("stalled", LevelOut, "has stalled: it has work and nothing moves")
		case (u.State == "up" || u.State == "busy") && isOutOfService(was.state):
			say("up", LevelOK, "is up again after %s", FormatDuration(now.Sub(was.stateSince)))
		}
		was.state, was.stateSince = u.State, now
	}
	was.recordFailures(s, u, say)
	w.recordBreaker(u, was, now, say)
	w.recordMode(u, was, now, say)
	u.Hour = was.lastHour(now)
}

func (w *watchedState) recordFailures(s *Status, u *Upstream, say func(kind, level, format string, args ...any)) {
	now, refusal := s.Now, s.firstRefusalText(u)
	for _, t := range []struct {
		*lastingProblem
		there bool
		text  func() string
		again string
	}{
		{&w.trouble, s.failingUpstreamText(u) != "", func() string { return u.failureShareText(s.mainFailureReason(u)) }, "fails few of its attempts again"},
		{&w.refusing, refusal != "", func() string { return refusal }, "refuses no feature any more"},
		{&w.unheard, u.Unheard > 0, func() string { return "does not answer its probes, and nothing comes from it" }, "is heard again"},
	} {
		begins, over := t.update(t.there, now)
		if begins {
			say("trouble", LevelDegraded, "%s", t.text())
		}
		if over {
			say("trouble", LevelOK, "%s%s", t.again, t.finishText())
		}
	}
	u.FailingSeconds, u.RefusingSeconds = w.trouble.seconds(now), w.refusing.seconds(now)
}

// describeMissedDowns describes how often an upstream went down and up again between two checks. It
// ignores a change that is already visible from the upstream's states at the two checks.
func (w *watchedState) describeMissedDowns(u *Upstream) (text string, n int) {
	n = int(u.Downs - w.downCount)
	w.downCount = u.Downs
	before, after := isOutOfService(w.state), isOutOfService(u.State)
	if !before && after {
		n--
	}
	text = "was down for less than a second"
	if before && after {
		text = "was up for less than a second"
	}
	if n > 1 {
		text += ", " + timesText(n)
	}
	return text, n
}

func isOutOfService(state string) bool { return state == "down" || state == "stalled" }

func (*StateWatch) recordBreaker(u *Upstream, was *watchedState, now time.Time, say func(kind, level, format string, args ...any)) {
	if u.Breaker == was.breaker {
		return
	}
	switch {
	case was.breaker == "closed":
		why := ""
		if f := u.LastFailure; f != nil && f.During == "call" {
			why = " (" + causeWithStatus(f.Why(), f.Status) + ")"
		}
		say("breaker", LevelDegraded, "fails its calls%s: its breaker opens", why)
		was.breakerSince = now
	case u.Breaker == "closed":
		say("breaker", LevelOK, "serves its calls again: its breaker closes after %s", FormatDuration(now.Sub(was.breakerSince)))
	}
	was.breaker = u.Breaker
}

func (*StateWatch) recordMode(u *Upstream, was *watchedState, now time.Time, say func(kind, level, format string, args ...any)) {
	if u.Mode != was.mode {
		if u.Mode == "ready" {
			say("mode", LevelOK, "takes calls again after %s of %s", FormatDuration(now.Sub(was.modeSince)), was.mode)
		} else {
			who := ""
			if u.ModeWho != "" {
				who = " by " + u.ModeWho
			}
			say("mode", LevelDraining, "goes into %s%s", u.Mode, who)
		}
		was.mode, was.modeSince, was.wasDrained = u.Mode, now, false
	}
	active := 0
	for _, p := range u.Pools {
		active += p.Active
	}
	if u.Mode != "ready" && !was.wasDrained && active == 0 {
		was.wasDrained = true
		say("drained", LevelDraining, "is drained: no call is left")
	}
}

func (w *StateWatch) recordModel(s *Status, m *Model) {
	now, was := s.Now, w.models[m.ID]
	if was == nil {
		// All models are briefly out when the edge starts.
		was = &watchedState{state: m.serviceState(), stateSince: now}
		w.models[m.ID] = was
	}
	was.minuteRow(now).setFrom(&m.History.Minute)
	say := func(level, text string) { w.addEvent(now, Event{Kind: "model", Level: level, Who: m.ID, Text: text}) }
	by := m.serviceState()
	if by != was.state {
		switch by {
		case ModelOut:
			say(LevelOut, "is out: no engine serves it")
			was.outageReported = true
		case ModelFallback:
			say(LevelDegraded, "has no engine: "+m.fallbackClause())
			was.outageReported = true
		default:
			if was.outageReported {
				say(LevelOK, "is served again after "+FormatDuration(now.Sub(was.stateSince)))
			}
		}
		if by == ModelServed || was.state == ModelServed {
			was.stateSince = now
		}
		was.state = by
	}
	if by != ModelServed {
		m.TroubleSeconds = now.Sub(was.stateSince).Seconds()
	}
	begins, over := was.trouble.update(len(m.Troubles) > 0, now)
	worse, better := was.failing.update(m.State == ModelFailing, now)
	if better {
		was.failing = lastingProblem{}
	}
	switch level := m.State; {
	case begins || worse:
		if level != ModelFailing {
			level = LevelDegraded
		}
		say(level, m.Troubles[0])
	case over:
		say(LevelOK, "has recovered"+was.trouble.finishText())
	}
	if len(m.Troubles) > 0 && by == ModelServed {
		m.TroubleSeconds = was.trouble.seconds(now)
	}
	m.Hour = was.lastHour(now)
}

func (w *watchedState) minuteRow(now time.Time) *minuteCounts {
	at := now.Unix() / 60
	row := &w.minutes[at%hourMinutes]
	if row.minuteNumber != at {
		*row = minuteCounts{minuteNumber: at}
	}
	return row
}

func (r *minuteCounts) setFrom(m *observe.Minute) {
	r.tokens, r.ttft, r.failed = m.Out/60, m.TTFTP95Millis, float64(m.Failed+m.Full+m.Limited)
}

func (w *watchedState) lastHour(now time.Time) Hour {
	h, last := Hour{
		TokensPerSecond: make([]float64, 0, hourMinutes), TTFTP95Millis: make([]float64, 0, hourMinutes), Failed: make([]float64, 0, hourMinutes),
	}, now.Unix()/60
	for at := last - hourMinutes + 1; at <= last; at++ {
		row := &w.minutes[at%hourMinutes]
		if row.minuteNumber != at {
			h.TokensPerSecond, h.TTFTP95Millis, h.Failed = append(h.TokensPerSecond, -1), append(h.TTFTP95Millis, -1), append(h.Failed, -1)
			continue
		}
		h.TokensPerSecond = append(h.TokensPerSecond, roundTenth(row.tokens))
		h.TTFTP95Millis = append(h.TTFTP95Millis, roundTenth(row.ttft))
		h.Failed = append(h.Failed, row.failed)
		h.Downs += row.downs
		h.DownSeconds += row.downSeconds
	}
	return h
}
