package status

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"penstock/proxy/telemetry/observe"
)

// A Watch stores the newest events and, for each model and upstream, an hour of history by minute
// (3 KB).
const (
	mostEvents  = 200
	hourMinutes = 60
)

// troubleEnds is how long a problem must be absent before it counts as over, because problems
// fluctuate near a threshold.
const troubleEnds = time.Minute

// Watch records how long states last, how often they occur, and which events preceded them. The
// method see must be called about every second. The zero value is ready for use. A nil *Watch
// records nothing. A Watch is safe for concurrent use.
type Watch struct {
	mu        sync.Mutex
	looked    time.Time // time of the last check, or zero
	reload    time.Time
	upstreams map[string]*watched // keyed by label
	models    map[string]*watched
	concerns  map[string]*lasting // keyed by subject
	keys      map[string]*lasting // keys over a limit, keyed by label
	limits    map[string]limitOf  // limits that refuse calls, keyed by key and name
	total     watched
	events    []Event // oldest first
	noted     int
}

// Event is an entry in the list of events.
type Event struct {
	At    time.Time `json:"at"`
	Kind  string    `json:"kind"`            // up, down, stalled, breaker, mode, drained, trouble, model, key, edge, reload, start
	Level string    `json:"level,omitempty"` // ok, degraded, failing, out
	Who   string    `json:"who,omitempty"`   // an upstream or a model
	Text  string    `json:"text"`

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

type watched struct {
	state, breaker, mode string
	since, broken, moded time.Time
	drained              bool
	told                 bool    // an event has already reported that no engine serves the model
	downs                uint64  // the upstream's count at the last check
	trouble              lasting // problem of a model or of a failing upstream
	failing              lasting // only for a model
	refusing, unheard    lasting // only for an upstream
	minutes              [hourMinutes]minute
}

type minute struct {
	at                   int64 // the row's minute, counted from 1970; the row is stale in any other minute
	tokens, ttft, failed float64
	downs                int
	down                 float64 // seconds of downtime
}

type limitOf struct {
	value   string
	changed time.Time
}

// changed removes limits whose value has changed, because earlier refusals do not apply to the new
// value.
func (w *Watch) changed(s *Status) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := map[string]limitOf{}
	for i := range s.Keys {
		k := &s.Keys[i]
		k.over = slices.DeleteFunc(k.over, func(o overLimit) bool {
			name := k.label() + " " + o.limit
			l, known := w.limits[name]
			if value := k.limitNow(o.limit); !known {
				l.value = value
			} else if l.value != value {
				l = limitOf{value, s.Now}
			}
			now[name] = l
			return o.last.Before(l.changed)
		})
	}
	w.limits = now
}

// lasting is a problem that counts as over after it has been absent for troubleEnds.
type lasting struct{ began, seen time.Time }

// look records whether the problem exists now, and reports whether it has just started or is over.
func (l *lasting) look(there bool, now time.Time) (begins, over bool) {
	switch {
	case there:
		l.seen = now
		if begins = l.began.IsZero(); begins {
			l.began = now
		}
	case !l.began.IsZero() && now.Sub(l.seen) >= troubleEnds:
		over = true
	}
	return begins, over
}

func (l *lasting) seconds(now time.Time) float64 {
	if l.began.IsZero() {
		return 0
	}
	return now.Sub(l.began).Seconds()
}

func (l *lasting) end() string {
	took := l.seen.Sub(l.began)
	*l = lasting{}
	if took < time.Second {
		return ""
	}
	return " after " + Ago(took)
}

// see records the changes since the last check, and sets the fields of s that only the watch can
// supply.
func (w *Watch) see(s *Status, concerns []concern) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	step := min(max(0, s.Now.Sub(w.looked)), 10*time.Second) // the state during a longer gap is unknown
	if w.looked.IsZero() {
		step = 0
		w.upstreams, w.models = map[string]*watched{}, map[string]*watched{}
		w.concerns, w.keys = map[string]*lasting{}, map[string]*lasting{}
		w.addEvent(s.Now, Event{Kind: "start", Text: "the edge has started"})
	}
	known := map[string]bool{}
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		known[u.Label] = true
		w.upstream(s, u, step)
	}
	forget(w.upstreams, known)
	clear(known)
	for i := range s.Models {
		m := &s.Models[i]
		known[m.ID] = true
		w.model(s, m)
	}
	forget(w.models, known)
	w.others(s, concerns)
	w.total.row(s.Now).set(&s.Total.Minute)
	s.Hour = w.total.hour(s.Now)
	if r := s.LastReload; r != nil && !r.At.Equal(w.reload) {
		w.reload = r.At
		if !r.Unchanged {
			w.addEvent(r.At, reloaded(r))
		}
	}
	w.looked = s.Now
	s.Events = slices.Clone(w.events)
	slices.Reverse(s.Events)
}

// watchedKeys limits the number of keys with events, so that these events do not displace all other
// events.
const watchedKeys = 20

func (w *Watch) others(s *Status, concerns []concern) {
	now := s.Now
	for i := range concerns {
		c := &concerns[i]
		if c.of == reloadConcern { // the reload has a separate event
			continue
		}
		if w.concerns[c.of] == nil {
			w.concerns[c.of] = &lasting{}
		}
		if begins, _ := w.concerns[c.of].look(true, now); begins {
			w.addEvent(now, Event{Kind: "edge", Level: c.level, Text: c.text})
		}
	}
	for of, l := range w.concerns {
		if _, over := l.look(false, now); over {
			w.addEvent(now, Event{Kind: "edge", Level: LevelOK, Text: of + ": the trouble is over" + l.end()})
			delete(w.concerns, of)
		}
	}
	for i := range s.Keys {
		k := &s.Keys[i]
		if k.Badge != badgeOver || w.keys[k.label()] == nil && len(w.keys) >= watchedKeys {
			continue
		}
		if w.keys[k.label()] == nil {
			w.keys[k.label()] = &lasting{}
		}
		if begins, _ := w.keys[k.label()].look(true, now); begins {
			w.addEvent(now, Event{Kind: "key", Level: LevelDegraded, Text: k.label() + " " + k.Notes[0]})
		}
	}
	for label, l := range w.keys {
		if _, over := l.look(false, now); over {
			w.addEvent(now, Event{Kind: "key", Level: LevelOK, Text: label + " is within its limits again" + l.end()})
			delete(w.keys, label)
		}
	}
}

func forget(all map[string]*watched, known map[string]bool) {
	for name := range all {
		if !known[name] {
			delete(all, name)
		}
	}
}

func reloaded(r *Reload) Event {
	e := Event{Kind: "reload", Level: LevelOK, Text: fmt.Sprintf("configuration #%d is in force", r.Version)}
	switch {
	case r.OK:
	case r.KeysInForce:
		e.Level, e.Text = LevelDegraded, "the configuration was refused, its keys are in force"
	default:
		e.Level, e.Text = LevelDegraded, fmt.Sprintf("the configuration was refused, #%d stays in force", r.Version)
	}
	if e.Level == LevelDegraded {
		e.Text += r.firstProblem()
	}
	return e
}

func (w *Watch) addEvent(at time.Time, e Event) {
	w.noted++
	e.At, e.Number = at, w.noted
	if len(w.events) == mostEvents {
		w.events = slices.Delete(w.events, 0, 1)
	}
	w.events = append(w.events, e)
}

func (w *Watch) upstream(s *Status, u *Upstream, step time.Duration) {
	now, was := s.Now, w.upstreams[u.Label]
	if was == nil {
		was = &watched{state: u.State, breaker: u.Breaker, mode: u.Mode, since: now, broken: now, moded: now, downs: u.Downs}
		w.upstreams[u.Label] = was
	}
	row := was.row(now)
	row.set(&u.History.Minute)
	say := func(kind, level, format string, args ...any) {
		w.addEvent(now, Event{Kind: kind, Level: level, Who: u.Label, Text: fmt.Sprintf(format, args...)})
	}
	if outOfService(u.State) {
		row.down += step.Seconds()
	}
	why := ""
	if f := u.LastFailure; f != nil {
		why = ": " + reason(f.Why(), f.Status)
	}
	if text, n := was.between(u); n > 0 {
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
		case (u.State == "up" || u.State == "busy") && outOfService(was.state):
			say("up", LevelOK, "is up again after %s", Ago(now.Sub(was.since)))
		}
		was.state, was.since = u.State, now
	}
	was.fails(s, u, say)
	w.breaker(u, was, now, say)
	w.mode(u, was, now, say)
	u.Hour = was.hour(now)
}

func (w *watched) fails(s *Status, u *Upstream, say func(kind, level, format string, args ...any)) {
	now, refusal := s.Now, s.refusal(u)
	for _, t := range []struct {
		*lasting
		there bool
		text  func() string
		again string
	}{
		{&w.trouble, s.failing(u) != "", func() string { return u.fails(s.whyFails(u)) }, "fails few of its attempts again"},
		{&w.refusing, refusal != "", func() string { return refusal }, "refuses no feature any more"},
		{&w.unheard, u.Unheard > 0, func() string { return "does not answer its probes, and nothing comes from it" }, "is heard again"},
	} {
		begins, over := t.look(t.there, now)
		if begins {
			say("trouble", LevelDegraded, "%s", t.text())
		}
		if over {
			say("trouble", LevelOK, "%s%s", t.again, t.end())
		}
	}
	u.FailingSeconds, u.RefusingSeconds = w.trouble.seconds(now), w.refusing.seconds(now)
}

// between describes how often an upstream went down and up again between two checks. It ignores a
// change that is visible from the upstream's states at the two checks.
func (w *watched) between(u *Upstream) (text string, n int) {
	n = int(u.Downs - w.downs)
	w.downs = u.Downs
	before, after := outOfService(w.state), outOfService(u.State)
	if !before && after {
		n--
	}
	text = "was down for less than a second"
	if before && after {
		text = "was up for less than a second"
	}
	if n > 1 {
		text += ", " + times(n)
	}
	return text, n
}

func outOfService(state string) bool { return state == "down" || state == "stalled" }

func (*Watch) breaker(u *Upstream, was *watched, now time.Time, say func(kind, level, format string, args ...any)) {
	if u.Breaker == was.breaker {
		return
	}
	switch {
	case was.breaker == "closed":
		why := ""
		if f := u.LastFailure; f != nil && f.During == "call" {
			why = " (" + reason(f.Why(), f.Status) + ")"
		}
		say("breaker", LevelDegraded, "fails its calls%s: its breaker opens", why)
		was.broken = now
	case u.Breaker == "closed":
		say("breaker", LevelOK, "serves its calls again: its breaker closes after %s", Ago(now.Sub(was.broken)))
	}
	was.breaker = u.Breaker
}

func (*Watch) mode(u *Upstream, was *watched, now time.Time, say func(kind, level, format string, args ...any)) {
	if u.Mode != was.mode {
		if u.Mode == "ready" {
			say("mode", LevelOK, "takes calls again after %s of %s", Ago(now.Sub(was.moded)), was.mode)
		} else {
			who := ""
			if u.ModeWho != "" {
				who = " by " + u.ModeWho
			}
			say("mode", LevelDraining, "goes into %s%s", u.Mode, who)
		}
		was.mode, was.moded, was.drained = u.Mode, now, false
	}
	active := 0
	for _, p := range u.Pools {
		active += p.Active
	}
	if u.Mode != "ready" && !was.drained && active == 0 {
		was.drained = true
		say("drained", LevelDraining, "is drained: no call is left")
	}
}

func (w *Watch) model(s *Status, m *Model) {
	now, was := s.Now, w.models[m.ID]
	if was == nil {
		was = &watched{state: m.servedBy(), since: now} // all models are briefly out at the start of the edge
		w.models[m.ID] = was
	}
	was.row(now).set(&m.History.Minute)
	say := func(level, text string) { w.addEvent(now, Event{Kind: "model", Level: level, Who: m.ID, Text: text}) }
	by := m.servedBy()
	if by != was.state {
		switch by {
		case ModelOut:
			say(LevelOut, "is out: no engine serves it")
			was.told = true
		case ModelFallback:
			say(LevelDegraded, "has no engine: "+m.fallsBack())
			was.told = true
		default:
			if was.told {
				say(LevelOK, "is served again after "+Ago(now.Sub(was.since)))
			}
		}
		if by == ModelServed || was.state == ModelServed {
			was.since = now
		}
		was.state = by
	}
	if by != ModelServed {
		m.TroubleSeconds = now.Sub(was.since).Seconds()
	}
	begins, over := was.trouble.look(len(m.Troubles) > 0, now)
	worse, better := was.failing.look(m.State == ModelFailing, now)
	if better {
		was.failing = lasting{}
	}
	switch level := m.State; {
	case begins || worse:
		if level != ModelFailing {
			level = LevelDegraded
		}
		say(level, m.Troubles[0])
	case over:
		say(LevelOK, "has recovered"+was.trouble.end())
	}
	if len(m.Troubles) > 0 && by == ModelServed {
		m.TroubleSeconds = was.trouble.seconds(now)
	}
	m.Hour = was.hour(now)
}

func (w *watched) row(now time.Time) *minute {
	at := now.Unix() / 60
	row := &w.minutes[at%hourMinutes]
	if row.at != at {
		*row = minute{at: at}
	}
	return row
}

func (r *minute) set(m *observe.Minute) {
	r.tokens, r.ttft, r.failed = m.Out/60, m.TTFTP95Millis, float64(m.Failed+m.Full+m.Limited)
}

func (w *watched) hour(now time.Time) Hour {
	h, last := Hour{TokensPerSecond: []float64{}, TTFTP95Millis: []float64{}, Failed: []float64{}}, now.Unix()/60
	for at := last - hourMinutes + 1; at <= last; at++ {
		row := &w.minutes[at%hourMinutes]
		if row.at != at {
			row = &minute{tokens: -1, ttft: -1, failed: -1}
		}
		h.TokensPerSecond = append(h.TokensPerSecond, round(row.tokens))
		h.TTFTP95Millis = append(h.TTFTP95Millis, round(row.ttft))
		h.Failed = append(h.Failed, row.failed)
		h.Downs += row.downs
		h.DownSeconds += row.down
	}
	return h
}
