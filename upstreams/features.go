package upstreams

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/upstreams/engine"
)

// An engine may refuse calls that its siblings accept, because it was started without a flag or is
// an older version. Such an engine refuses quickly, so it looks idle, and each refusal looks like a
// client error. If the same status and text make up most of an engine's last responses for a
// feature, the edge suspects the engine. The edge then sends some of the refused calls to a
// sibling. Clients do not notice this. After siblings accept three such calls with different
// bodies, the engine loses the feature for one model. The loss lasts half a minute. The edge then
// tries the feature again. Each time the engine refuses again, the pause doubles, up to five
// minutes. A failed trial does not fail the client's call, because a sibling then gets the call. If
// the sibling also refuses, the suspicion ends.
//
//	ServedModel.Lacks    reports whether the engine lacks a feature
//	Lease.Needs          declares the features of a call
//	Lease.Refused        records a refusal, and returns a Doubt if a sibling should be asked
//	Lease.Settles        settles the Doubt with the sibling's response
//
// A single request body cannot make an engine lose a feature, so a broken request does no harm. A
// single key can, because there may be only one key.

// Features is a set of features that a call requires from an engine.
type Features uint32

// These features are not operations. In addition, each operation is a feature (FeatureOf).
const (
	FeatureTools      Features = 1 << iota // tools that the model may call
	FeatureForcedTool                      // a tool that the model must call
	FeatureSchema                          // a response that conforms to a schema
	FeatureImages
	FeatureEffort // a reasoning effort
	featureOperation
)

// specials are the features that only some calls of an operation require.
const specials = featureOperation - 1

// operations lists the operations in the bit order of their features.
var operations = []string{
	config.OpChat, engine.OpCompletions, config.OpMessages, config.OpResponses, config.OpTranscriptions,
	config.OpSpeech, config.OpEmbeddings, config.OpRerank, config.OpImages, engine.OpImageEdits,
	config.OpScore, config.OpClassify, config.OpPooling, config.OpTokenize, engine.OpDetokenize, config.OpModerations,
	config.OpRealtime,
}

// FeatureOf returns the feature of an operation such as config.OpChat, or 0.
func FeatureOf(operation string) Features {
	if i := slices.Index(operations, operation); i >= 0 {
		return featureOperation << i
	}
	return 0
}

// FeatureOfKind returns the feature that every call to a model of this kind requires.
func FeatureOfKind(kind string) Features {
	return FeatureOf(map[string]string{
		config.KindChat: config.OpChat, config.KindTranscription: config.OpTranscriptions, config.KindSpeech: config.OpSpeech,
		config.KindImage: config.OpImages, config.KindImageEdit: engine.OpImageEdits, config.KindEmbedding: config.OpEmbeddings,
		config.KindRerank: config.OpRerank,
	}[kind])
}

func (f Features) name() string {
	names := [...]string{"tools", "forced_tool", "json_schema", "images", "effort"}
	i := bits.TrailingZeros32(uint32(f))
	if i < len(names) {
		return names[i]
	}
	return operations[i-len(names)]
}

func (f Features) each(visit func(Features)) {
	for ; f != 0; f &= f - 1 {
		visit(f & -f)
	}
}

// blamed returns the features that may explain a refusal: the special features, or the operation if
// f has no special feature.
func (f Features) blamed() Features {
	if special := f & specials; special != 0 {
		return special
	}
	return f
}

const (
	answersSeen    = 20               // number of recent responses that count
	askEvery       = 10               // one in this many suspected refusals goes to a sibling
	bodiesNeeded   = 3                // distinct request bodies that siblings must accept
	lackingLeast   = 30 * time.Second // first pause before a new trial; lackingMost is the maximum
	lackingMost    = 5 * time.Minute
	refusalIsNone  = 0 // the text of a response that is not a refusal
	bodyIsNotKnown = 0
)

// suspicion is the state of one feature that an engine may lack. The caller serialises the method
// calls.
type suspicion struct {
	answers [answersSeen]uint64 // text hashes of the last refusals; refusalIsNone for other responses
	n       int
	unasked int           // suspected refusals since the last call to a sibling
	asked   bool          // a sibling got a refused call
	bodies  []uint64      // hashes of the request bodies that siblings accepted
	trial   bool          // the edge is trying the feature again after a pause
	out     bool          // the engine lacks the feature until the next trial
	until   Moment        // when the next trial starts
	pause   time.Duration // the current pause between trials
	status  int           // the status of the refusals
	total   int           // refusals since the suspicion began
	last    Moment        // time of the newest refusal
}

func (s *suspicion) add(text uint64) {
	s.answers[s.n%answersSeen] = text
	s.n++
}

// answered records a response that is not a refusal. It reports whether the suspicion ends.
func (s *suspicion) answered() (clear bool) {
	s.add(refusalIsNone)
	return s.trial || s.answers == [answersSeen]uint64{}
}

// same returns how many of the recent responses are refusals with this text.
func (s *suspicion) same(text uint64) (n int) {
	for _, t := range s.answers {
		if t == text {
			n++
		}
	}
	return n
}

// refused records a refusal and reports whether to send the call to a sibling. plain is true if the
// cause is certain. After a sibling has accepted one refused call, every later refused call goes to
// a sibling, because the cause is most likely the same.
func (s *suspicion) refused(text uint64, plain bool) (ask bool) {
	s.add(text)
	s.total++
	same := s.same(text)
	switch {
	case s.out:
		return false // the call was sent before the loss, or no other engine can take it
	case plain, s.trial:
		return true
	case same <= answersSeen/2:
		return false
	}
	if s.unasked++; s.asked && s.unasked < askEvery && len(s.bodies) == 0 {
		return false
	}
	s.asked, s.unasked = true, 0
	return true
}

// confirmed records that a sibling accepted a call with this body. It reports whether the engine
// now lacks the feature.
func (s *suspicion) confirmed(body uint64, now Moment) (takes bool) {
	if s.out || body == bodyIsNotKnown {
		return false
	}
	if !slices.Contains(s.bodies, body) {
		s.bodies = append(s.bodies, body)
	}
	if !s.trial && len(s.bodies) < bodiesNeeded {
		return false
	}
	s.pause = min(max(2*s.pause, lackingLeast), lackingMost)
	s.out, s.trial, s.until = true, false, now+Moment(s.pause)
	return true
}

// lacks reports whether the engine is known to lack the feature.
func (s *suspicion) lacks() bool { return s.out || s.trial }

// retry starts a new trial of the feature.
func (s *suspicion) retry() {
	*s = suspicion{trial: true, status: s.status, bodies: s.bodies, pause: s.pause, total: s.total, last: s.last}
}

// lacking tracks the features that an engine lacks for one model.
type lacking struct {
	watched atomic.Uint32 // suspected features
	out     atomic.Uint32 // features that the engine is known to lack
	next    atomic.Int64  // time of the earliest retry (Moment)

	mu    sync.Mutex
	of    map[Features]*suspicion
	shown map[Features]string // metric series of the lacked features
}

// Lacks reports whether the engine lacks any of the features.
func (m *ServedModel) Lacks(f Features, now Moment) bool {
	l := &m.lacking
	if l.out.Load()&uint32(f) == 0 {
		return false
	}
	if now >= Moment(l.next.Load()) {
		l.retry(m, now)
	}
	return l.out.Load()&uint32(f) != 0
}

// retry starts a trial of each feature whose pause is over.
func (l *lacking) retry(m *ServedModel, now Moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f, s := range l.of {
		if s.out && now >= s.until {
			s.retry()
			m.all.hooks.log.Info("upstream is tried again with a feature that it lacked",
				zap.String("served", m.served), zap.String("feature", f.name()))
		}
	}
	l.publish(m)
}

// publish updates the atomics and the metric series. The caller holds mu.
func (l *lacking) publish(m *ServedModel) {
	var watched, out Features
	next := Moment(1<<63 - 1)
	for f, s := range l.of {
		watched |= f
		if s.out {
			out |= f
			next = min(next, s.until)
		}
	}
	l.next.Store(int64(next))
	l.watched.Store(uint32(watched))
	l.out.Store(uint32(out))
	series := m.all.up.series.shown.Load()
	if series == nil {
		return
	}
	for f, name := range l.shown {
		if out&f == 0 {
			series.UnregisterMetric(name)
			delete(l.shown, f)
		}
	}
	out.each(func(f Features) {
		if l.shown[f] != "" {
			return
		}
		if l.shown == nil {
			l.shown = map[Features]string{}
		}
		u := m.all.up
		l.shown[f] = fmt.Sprintf("penstock_upstream_lacks{upstream=%q,served=%q,feature=%q,flag=%q}",
			u.identity.label, m.served, f.name(), engine.FlagFor(u.engine.Load(), f.name()))
		series.GetOrCreateGauge(l.shown[f], nil).Set(1)
	})
}

// answered records a successful response to a call with these needs. If no feature is suspected, it
// only reads an atomic.
func (l *lacking) answered(m *ServedModel, needs Features) {
	if l.watched.Load()&uint32(needs) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	needs.each(func(f Features) {
		if s := l.of[f]; s != nil && !s.out && s.answered() {
			delete(l.of, f)
		}
	})
	l.publish(m)
}

func (l *lacking) clear(m *ServedModel) {
	if l.watched.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.of)
	l.publish(m)
}

// Refusal describes an engine's refusal of a request.
type Refusal struct {
	Status int
	Text   uint64 // hash of the response text without its variable parts; never 0
	Body   uint64 // hash of the request body, or 0 if unknown
	Path   bool   // the engine does not serve the path, so the cause is certain
}

// Doubt is a refusal that may be the engine's fault. A sibling's response settles it.
type Doubt struct {
	model  *ServedModel
	blamed Features
	body   uint64
}

// ofItsOwn marks bodies without a comparable hash, such as forms. Each of these bodies counts as
// distinct.
const ofItsOwn = 1 << 63

// Needs declares the features that the call requires.
func (l *Lease) Needs(f Features) { l.needs = f }

// Refused records a refusal that may be the engine's fault. It returns a Doubt if the caller should
// send the call to a sibling, and nil otherwise.
func (l *Lease) Refused(r Refusal) *Doubt {
	if l.model == nil {
		return nil
	}
	blamed := l.needs.blamed()
	if r.Path {
		blamed = l.needs &^ specials
	}
	k, asks, now := &l.model.lacking, false, At(time.Now())
	k.mu.Lock()
	defer k.mu.Unlock()
	blamed.each(func(f Features) {
		s := k.of[f]
		if s == nil {
			if k.of == nil {
				k.of = map[Features]*suspicion{}
			}
			s = &suspicion{}
			k.of[f] = s
		}
		s.status, s.last = r.Status, now
		asks = s.refused(r.Text, r.Path) || asks
		if r.Path && r.Body == bodyIsNotKnown {
			r.Body = ofItsOwn | uint64(s.n)
		}
	})
	k.publish(l.model)
	if !asks {
		return nil
	}
	return &Doubt{l.model, blamed, r.Body}
}

// Settles makes the outcome of this call settle a doubt about another engine.
func (l *Lease) Settles(d *Doubt) { l.doubt = d }

func (d *Doubt) resolve(o Outcome, now Moment) {
	k := &d.model.lacking
	k.mu.Lock()
	defer k.mu.Unlock()
	d.blamed.each(func(f Features) {
		s := k.of[f]
		switch {
		case s == nil:
		case o == OutcomeRejected && !s.out:
			delete(k.of, f)
		case o == OutcomeOK && s.confirmed(d.body, now):
			m := d.model
			remedy := remedyFor(engine.FlagFor(m.all.up.engine.Load(), f.name()))
			m.all.hooks.log.Warn("upstream lacks a feature that others of its model have", zap.String("event", "upstream_lacks"),
				zap.String("served", m.served), zap.String("feature", f.name()), zap.Int("status", s.status),
				zap.Int("refused", s.total), zap.Duration("retry", s.pause), zap.String("remedy", remedy))
		}
	})
	k.publish(d.model)
}

// Lack is a feature that an upstream lacks for one of its models, as shown to the operator.
type Lack struct {
	Served  string  `json:"served"`
	Feature string  `json:"feature"`
	Status  int     `json:"status"`         // the status of the refusals
	Flag    string  `json:"flag,omitempty"` // flag that enables the feature
	Retry   float64 `json:"retry_seconds"`  // seconds until the next trial; 0 during a trial
	Refused int     `json:"refused"`        // calls refused since the feature was first suspected
}

// Remedy returns advice for the operator.
func (l *Lack) Remedy() string { return remedyFor(l.Flag) }

func remedyFor(flag string) string {
	if flag != "" {
		return "start it with " + flag
	}
	return "compare how it was started with the others of the model"
}

// Refusing is a feature for which an upstream refuses most calls. Either the clients or the engine
// may be at fault.
type Refusing struct {
	Served  string  `json:"served"`
	Feature string  `json:"feature"`
	Status  int     `json:"status"`
	Flag    string  `json:"flag,omitempty"` // the flag that enables the feature
	Refused int     `json:"refused"`        // refusals with the same text among the recent responses
	Answers int     `json:"answers"`        // recent responses, at most 20
	Age     float64 `json:"age_seconds"`    // seconds since the newest refusal
}

// Remedy returns advice for the operator, in case the engine is at fault.
func (r *Refusing) Remedy() string { return remedyFor(r.Flag) }

// A refused feature is shown from refusal number refusingLeast on. It disappears refusingFor after
// the newest refusal.
const (
	refusingLeast = 3
	refusingFor   = 5 * time.Minute
)

// RefusingNow returns the features for which the upstream refuses most calls, by served name and
// feature. It omits features that count as lacking or are being tried again.
func RefusingNow(u *Upstream, now time.Time) (all []Refusing) {
	u.Models.suspected(func(l *lacking) bool { return l.watched.Load() != l.out.Load() }, func(m *ServedModel, f Features, s *suspicion) {
		most := 0
		for _, text := range s.answers {
			if text != refusalIsNone {
				most = max(most, s.same(text))
			}
		}
		answers, old := min(s.n, answersSeen), time.Duration(At(now)-s.last)
		if !s.lacks() && most >= refusingLeast && 2*most > answers && old < refusingFor {
			flag := engine.FlagFor(u.engine.Load(), f.name())
			all = append(all, Refusing{m.served, f.name(), s.status, flag, most, answers, max(0, old.Seconds())})
		}
	})
	slices.SortFunc(all, func(a, b Refusing) int {
		return cmp.Or(cmp.Compare(a.Served, b.Served), cmp.Compare(a.Feature, b.Feature))
	})
	return all
}

// suspected calls visit for each suspected feature of the models for which fits returns true.
func (s *ServedModels) suspected(fits func(*lacking) bool, visit func(*ServedModel, Features, *suspicion)) {
	s.mu.Lock()
	entries := make([]*ServedModel, 0, len(s.entries))
	for _, m := range s.entries {
		if fits(&m.lacking) {
			entries = append(entries, m)
		}
	}
	s.mu.Unlock()
	for _, m := range entries {
		m.lacking.mu.Lock()
		for f, suspicion := range m.lacking.of {
			visit(m, f, suspicion)
		}
		m.lacking.mu.Unlock()
	}
}

// Lacking returns the features that the upstream lacks, by served name and feature. While a feature
// is being tried again, it still counts as lacking.
func Lacking(u *Upstream, now time.Time) (all []Lack) {
	u.Models.suspected(func(l *lacking) bool { return l.watched.Load() != 0 }, func(m *ServedModel, f Features, s *suspicion) {
		if s.lacks() {
			all = append(all, Lack{
				m.served, f.name(), s.status, engine.FlagFor(u.engine.Load(), f.name()),
				max(0, time.Duration(s.until-At(now)).Seconds()), s.total,
			})
		}
	})
	slices.SortFunc(all, func(a, b Lack) int { return cmp.Or(cmp.Compare(a.Served, b.Served), cmp.Compare(a.Feature, b.Feature)) })
	return all
}
