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

// An engine that refuses calls that its siblings answer was started without a flag, or is an older
// version. It refuses quickly, so it looks idle, and each of its refusals reads like the client's
// fault. A refusal is therefore suspected if the same status and text make up most of an engine's
// last answers for a feature. For some of these calls the edge then asks a sibling, unseen by their
// clients. If siblings answer three such calls with different bodies, the engine loses the feature,
// for one model and for half a minute. Then the feature is tried again, and each further refusal
// doubles the time, up to five minutes. A trial costs no client its answer: if the engine refuses,
// a sibling is asked. If the sibling refuses, too, the engine is cleared.
//
//	ServedModel.Lacks    the state that a pick reads
//	Lease.Needs          the features that a call needs
//	Lease.Refused        records a refusal, and returns a Doubt if a sibling should be asked
//	Lease.Settles        the sibling's answer settles the Doubt
//
// One body alone never takes a feature away, so a single broken request does no harm. One key is
// enough, because it may be the only one.

// Features is the set of features that a call needs from an engine.
type Features uint32

// The features other than those of operations. Each operation has one feature (FeatureOf).
const (
	FeatureTools      Features = 1 << iota // tools that the model may call
	FeatureForcedTool                      // a tool that the model must call
	FeatureSchema                          // an answer that follows a schema
	FeatureImages
	FeatureEffort // a reasoning effort
	featureOperation
)

// specials are the features that only some calls of an operation need.
const specials = featureOperation - 1

// operations are the operations that have a feature, in the order of their bits.
var operations = []string{
	config.OpChat, engine.OpCompletions, config.OpMessages, config.OpResponses, config.OpTranscriptions,
	config.OpSpeech, config.OpEmbeddings, config.OpRerank, config.OpImages, engine.OpImageEdits,
	config.OpScore, config.OpClassify, config.OpPooling, config.OpTokenize, engine.OpDetokenize, config.OpModerations,
	config.OpRealtime,
}

// FeatureOf returns the feature of an engine's operation (config.OpChat and the like), or 0.
func FeatureOf(operation string) Features {
	if i := slices.Index(operations, operation); i >= 0 {
		return featureOperation << i
	}
	return 0
}

// FeatureOfKind returns the feature that every call of a model of this kind needs.
func FeatureOfKind(kind string) Features {
	return FeatureOf(map[string]string{
		config.KindChat: config.OpChat, config.KindTranscription: config.OpTranscriptions, config.KindSpeech: config.OpSpeech,
		config.KindImage: config.OpImages, config.KindImageEdit: engine.OpImageEdits, config.KindEmbedding: config.OpEmbeddings,
		config.KindRerank: config.OpRerank,
	}[kind])
}

// name returns the name of one feature.
func (f Features) name() string {
	names := [...]string{"tools", "forced_tool", "json_schema", "images", "effort"}
	i := bits.TrailingZeros32(uint32(f))
	if i < len(names) {
		return names[i]
	}
	return operations[i-len(names)]
}

// each visits the features of the set.
func (f Features) each(visit func(Features)) {
	for ; f != 0; f &= f - 1 {
		visit(f & -f)
	}
}

// blamed returns the features that may have caused the refusal of a call with these needs: the
// special features, or the operation if there are none.
func (f Features) blamed() Features {
	if special := f & specials; special != 0 {
		return special
	}
	return f
}

const (
	answersSeen    = 20               // number of last answers that are considered
	askEvery       = 10               // one in this many suspected refusals goes to a sibling
	bodiesNeeded   = 3                // number of different bodies that siblings must answer
	lackingLeast   = 30 * time.Second // first pause before a new trial, and the maximum
	lackingMost    = 5 * time.Minute
	refusalIsNone  = 0 // the text of an answer that is not a refusal
	bodyIsNotKnown = 0
)

// suspicion is the state of a feature that an engine may lack. It is pure: the caller serialises
// the calls.
type suspicion struct {
	answers [answersSeen]uint64 // texts of the last refusals; refusalIsNone for other answers
	n       int
	unasked int           // suspected refusals since a sibling was last asked
	asked   bool          // a sibling was asked
	bodies  []uint64      // bodies that siblings have answered
	trial   bool          // the feature was taken away and is being tried again
	out     bool          // the feature is taken away
	until   Moment        // when it is tried again
	pause   time.Duration // the current pause
	status  int           // the status of the refusals
	total   int           // refusals since the suspicion started
	last    Moment        // the newest refusal
}

func (s *suspicion) add(text uint64) {
	s.answers[s.n%answersSeen] = text
	s.n++
}

// answered records an answer. It reports whether the answer ends the suspicion.
func (s *suspicion) answered() (clear bool) {
	s.add(refusalIsNone)
	return s.trial || s.answers == [answersSeen]uint64{}
}

// same returns the number of last answers that were refusals with this text.
func (s *suspicion) same(text uint64) (n int) {
	for _, t := range s.answers {
		if t == text {
			n++
		}
	}
	return n
}

// refused records a refusal and reports whether to ask a sibling. plain is true if the cause of the
// refusal is certain. Once a sibling has answered, each further refusal most likely has the same
// cause, so a sibling is asked every time.
func (s *suspicion) refused(text uint64, plain bool) (ask bool) {
	s.add(text)
	s.total++
	same := s.same(text)
	switch {
	case s.out:
		return false // from a call sent earlier, or a call that has no other engine
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

// confirmed records the body of a call that a sibling has answered, and reports whether the
// engine now loses the feature.
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

// lacks reports whether the engine lacks the feature, as far as is known.
func (s *suspicion) lacks() bool { return s.out || s.trial }

// retry starts a new trial of the feature.
func (s *suspicion) retry() {
	*s = suspicion{trial: true, status: s.status, bodies: s.bodies, pause: s.pause, total: s.total, last: s.last}
}

// lacking holds the features that an engine lacks for one of its models. The zero value lacks
// nothing.
type lacking struct {
	watched atomic.Uint32 // features with a suspicion
	out     atomic.Uint32 // features that are taken away
	next    atomic.Int64  // when the first of these is retried (Moment)

	mu    sync.Mutex
	of    map[Features]*suspicion
	shown map[Features]string // series of the taken features
}

// Lacks reports whether the engine lacks one of the features.
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

// retry starts a new trial of each feature whose pause is over.
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

// publish updates the atomics and the series. The caller holds mu.
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

// answered records an answer to a call with the given needs. If no feature is suspected, that costs
// one atomic load.
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

// clear forgets all suspicions.
func (l *lacking) clear(m *ServedModel) {
	if l.watched.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.of)
	l.publish(m)
}

// Refusal is an engine's refusal of a request.
type Refusal struct {
	Status int
	Text   uint64 // hash of its text, without text that varies by request; never 0
	Body   uint64 // hash of the request's body; 0: unknown
	Path   bool   // the engine lacks the path, so the cause is certain
}

// Doubt is a refusal that may be the engine's fault. Another engine's answer settles it.
type Doubt struct {
	model  *ServedModel
	blamed Features
	body   uint64
}

// ofItsOwn marks bodies that have no comparable hash (forms): each counts as unique.
const ofItsOwn = 1 << 63

// Needs records the features that the call needs from the engine.
func (l *Lease) Needs(f Features) { l.needs = f }

// Refused books a refusal that may not be the client's fault. It returns a Doubt if another engine
// should be asked, and nil otherwise.
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

// Settles makes this call's outcome settle a doubt about another engine.
func (l *Lease) Settles(d *Doubt) { l.doubt = d }

// resolve settles the doubt by the outcome of the call here.
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

// Lack is a feature that an upstream lacks for one of its models.
type Lack struct {
	Served  string  `json:"served"`
	Feature string  `json:"feature"`
	Status  int     `json:"status"`         // the status of the refusals
	Flag    string  `json:"flag,omitempty"` // flag that the engine must be started with
	Retry   float64 `json:"retry_seconds"`  // seconds until the feature is tried again; 0: it is being tried
	Refused int     `json:"refused"`        // calls that it refused, since it was first suspected
}

// Remedy returns advice about the lack.
func (l *Lack) Remedy() string { return remedyFor(l.Flag) }

func remedyFor(flag string) string {
	if flag != "" {
		return "start it with " + flag
	}
	return "compare how it was started with the others of the model"
}

// Refusing is a feature for which an upstream refuses most calls. It is not known yet whether the
// calls or the engine are at fault.
type Refusing struct {
	Served  string  `json:"served"`
	Feature string  `json:"feature"`
	Status  int     `json:"status"`
	Flag    string  `json:"flag,omitempty"` // flag without which the engine refuses such calls
	Refused int     `json:"refused"`        // refusals with the same text among the last answers
	Answers int     `json:"answers"`        // the last answers, at most 20
	Age     float64 `json:"age_seconds"`    // seconds since the newest refusal
}

// Remedy returns advice in case the engine is at fault.
func (r *Refusing) Remedy() string { return remedyFor(r.Flag) }

// The minimum number of refusals for a refused feature to be shown, and how long it is shown after
// the newest refusal.
const (
	refusingLeast = 3
	refusingFor   = 5 * time.Minute
)

// RefusingNow returns the features for which the upstream refuses most calls, by served name and
// feature. It omits features that count as lacking, or whose trial has no answer yet.
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

// suspected visits the suspicions of the models that fit.
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

// Lacking returns the features that the upstream lacks, by served name and feature. Until the trial
// of a feature has an answer, the last known answer counts.
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
