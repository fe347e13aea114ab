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
// sibling, and the client gets the sibling's response. After siblings have accepted three such
// calls with different bodies, the engine counts as lacking the feature for one model. After half a
// minute, the edge tries the feature again. Each time the engine refuses again, the pause doubles,
// up to five minutes. A failed trial does not fail the client's call, because the edge then sends
// the call to a sibling. If the sibling also refuses, the suspicion ends.
//
//	ServedModel.LacksFeature    reports whether the engine lacks a feature
//	Lease.SetFeatures           declares the features of a call
//	Lease.RecordDisputableRefusal         records a refusal, which a sibling may have to dispute
//	Lease.SetDisputedRefusal           makes the sibling's response resolve the disputed refusal
//
// A single request body cannot make an engine count as lacking a feature, so a broken request does
// no harm. Requests of a single key can, because there may be only one key.

// Features is a set of features that a call requires from an engine.
type Features uint32

// Features that are not operations. In addition, each operation is a feature (OperationFeature).
const (
	FeatureTools      Features = 1 << iota // tools that the model may call
	FeatureForcedTool                      // a tool that the model must call
	FeatureSchema                          // a response that conforms to a schema
	FeatureImages
	FeatureEffort // a reasoning effort
	firstOperationFeature
)

// specialFeatures are the features that only some calls of an operation require.
const specialFeatures = firstOperationFeature - 1

// operationNames lists the operations in the bit order of their features.
var operationNames = []string{
	config.OpChat, engine.OpCompletions, config.OpMessages, config.OpResponses, config.OpTranscriptions,
	config.OpSpeech, config.OpEmbeddings, config.OpRerank, config.OpImages, engine.OpImageEdits,
	config.OpScore, config.OpClassify, config.OpPooling, config.OpTokenize, engine.OpDetokenize, config.OpModerations,
	config.OpRealtime,
}

// OperationFeature returns the feature of an operation such as config.OpChat, or 0.
func OperationFeature(operation string) Features {
	if i := slices.Index(operationNames, operation); i >= 0 {
		return firstOperationFeature << i
	}
	return 0
}

// KindFeature returns the feature that every call to a model of this kind requires.
func KindFeature(kind string) Features {
	return OperationFeature(map[string]string{
		config.ModelKindChat: config.OpChat, config.ModelKindTranscription: config.OpTranscriptions, config.ModelKindSpeech: config.OpSpeech,
		config.ModelKindImage: config.OpImages, config.ModelKindImageEdit: engine.OpImageEdits, config.ModelKindEmbedding: config.OpEmbeddings,
		config.ModelKindRerank: config.OpRerank,
	}[kind])
}

func (f Features) featureName() string {
	names := [...]string{"tools", "forced_tool", "json_schema", "images", "effort"}
	i := bits.TrailingZeros32(uint32(f))
	if i < len(names) {
		return names[i]
	}
	return operationNames[i-len(names)]
}

func (f Features) each(visit func(Features)) {
	for ; f != 0; f &= f - 1 {
		visit(f & -f)
	}
}

// suspectsAfterRefusal returns the features that may explain a refusal: the special features, or
// the operation if f has no special feature.
func (f Features) suspectsAfterRefusal() Features {
	if special := f & specialFeatures; special != 0 {
		return special
	}
	return f
}

const (
	trackedResponseCount = 20               // number of recent responses that count
	siblingRetryInterval = 10               // one in this many suspicious refusals is retried at a sibling
	minAcceptedBodies    = 3                // distinct request bodies that siblings must accept
	minLackPause         = 30 * time.Second // first pause before a new trial; it doubles up to maxLackPause
	maxLackPause         = 5 * time.Minute
	noRefusalTextHash    = 0 // the text hash of a response that is not a refusal
	unknownBodyHash      = 0
)

// lackSuspicion is the state of one feature that an engine may be lacking. The caller serialises
// the method calls.
type lackSuspicion struct {
	// Text hashes of the last refusals; noRefusalTextHash for other responses.
	refusalHashes  [trackedResponseCount]uint64
	n              int
	sinceSibling   int           // suspicious refusals since the last call to a sibling
	siblingAsked   bool          // a refused call was sent to a sibling
	acceptedBodies []uint64      // hashes of the request bodies that siblings accepted
	isTrial        bool          // the edge is trying the feature again after a pause
	isLacking      bool          // the engine lacks the feature until the next trial
	retryAt        Moment        // when the next trial starts
	pause          time.Duration // the current pause between trials
	status         int           // the status of the refusals
	refusalCount   int           // refusals since the suspicion began
	lastRefusal    Moment        // time of the newest refusal
}

func (s *lackSuspicion) addResponse(text uint64) {
	s.refusalHashes[s.n%trackedResponseCount] = text
	s.n++
}

// recordAccepted records a response that is not a refusal. It reports whether the suspicion ends.
func (s *lackSuspicion) recordAccepted() (clear bool) {
	s.addResponse(noRefusalTextHash)
	return s.isTrial || s.refusalHashes == [trackedResponseCount]uint64{}
}

// matchingRefusals returns how many of the recent responses are refusals with this text.
func (s *lackSuspicion) matchingRefusals(text uint64) (n int) {
	for _, t := range s.refusalHashes {
		if t == text {
			n++
		}
	}
	return n
}

// recordRefusal records a refusal and reports whether to send the call to a sibling. plain is true
// if the cause is certain. After a sibling has accepted one refused call, every later refused call
// is sent to a sibling, because the cause is most likely the same.
func (s *lackSuspicion) recordRefusal(text uint64, plain bool) (ask bool) {
	s.addResponse(text)
	s.refusalCount++
	same := s.matchingRefusals(text)
	switch {
	case s.isLacking:
		return false // the call was already sent, or no other engine can accept it
	case plain, s.isTrial:
		return true
	case same <= trackedResponseCount/2:
		return false
	}
	if s.sinceSibling++; s.siblingAsked && s.sinceSibling < siblingRetryInterval && len(s.acceptedBodies) == 0 {
		return false
	}
	s.siblingAsked, s.sinceSibling = true, 0
	return true
}

// recordSiblingAccept records that a sibling accepted a call with this body. It reports whether the
// engine now counts as lacking the feature.
func (s *lackSuspicion) recordSiblingAccept(body uint64, now Moment) (takes bool) {
	if s.isLacking || body == unknownBodyHash {
		return false
	}
	if !slices.Contains(s.acceptedBodies, body) {
		s.acceptedBodies = append(s.acceptedBodies, body)
	}
	if !s.isTrial && len(s.acceptedBodies) < minAcceptedBodies {
		return false
	}
	s.pause = min(max(2*s.pause, minLackPause), maxLackPause)
	s.isLacking, s.isTrial, s.retryAt = true, false, now+Moment(s.pause)
	return true
}

// isKnownLacking reports whether the engine is known to lack the feature.
func (s *lackSuspicion) isKnownLacking() bool { return s.isLacking || s.isTrial }

// startTrial starts a new trial of the feature.
func (s *lackSuspicion) startTrial() {
	*s = lackSuspicion{isTrial: true, status: s.status, acceptedBodies: s.acceptedBodies, pause: s.pause, refusalCount: s.refusalCount, lastRefusal: s.lastRefusal}
}

// lackTracker tracks the features that an engine lacks for one model.
type lackTracker struct {
	suspectedFeatures atomic.Uint32
	lackingFeatures   atomic.Uint32 // features that the engine is known to lack
	nextRetry         atomic.Int64  // time of the earliest retry (Moment)

	mu          sync.Mutex
	suspicions  map[Features]*lackSuspicion
	metricNames map[Features]string // metric series of the lacked features
}

// LacksFeature reports whether the engine is known to lack any of the features.
func (m *ServedModel) LacksFeature(f Features, now Moment) bool {
	l := &m.lacking
	if l.lackingFeatures.Load()&uint32(f) == 0 {
		return false
	}
	if now >= Moment(l.nextRetry.Load()) {
		l.startTrials(m, now)
	}
	return l.lackingFeatures.Load()&uint32(f) != 0
}

// startTrials starts a trial of each feature whose pause is over.
func (l *lackTracker) startTrials(m *ServedModel, now Moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f, s := range l.suspicions {
		if s.isLacking && now >= s.retryAt {
			s.startTrial()
			m.models.hooks.log.Info("upstream is tried again with a feature that it lacked",
				zap.String("served", m.served), zap.String("feature", f.featureName()))
		}
	}
	l.publishState(m)
}

// publishAndLogState updates the atomic fields and the metric series. The caller must hold mu.
func (l *lackTracker) publishState(m *ServedModel) {
	var watched, out Features
	next := Moment(1<<63 - 1)
	for f, s := range l.suspicions {
		watched |= f
		if s.isLacking {
			out |= f
			next = min(next, s.retryAt)
		}
	}
	l.nextRetry.Store(int64(next))
	l.suspectedFeatures.Store(uint32(watched))
	l.lackingFeatures.Store(uint32(out))
	series := m.models.up.series.currentSet.Load()
	if series == nil {
		return
	}
	for f, name := range l.metricNames {
		if out&f == 0 {
			series.UnregisterMetric(name)
			delete(l.metricNames, f)
		}
	}
	out.each(func(f Features) {
		if l.metricNames[f] != "" {
			return
		}
		if l.metricNames == nil {
			l.metricNames = map[Features]string{}
		}
		u := m.models.up
		l.metricNames[f] = fmt.Sprintf("penstock_upstream_lacks{upstream=%q,served=%q,feature=%q,flag=%q}",
			u.identity.label, m.served, f.featureName(), engine.FeatureFlag(u.engine.Load(), f.featureName()))
		series.GetOrCreateGauge(l.metricNames[f], nil).Set(1)
	})
}

// recordAccepted records a successful response to a call that required these features. If none of
// them is suspected, it only reads an atomic field.
func (l *lackTracker) recordSuccess(m *ServedModel, needs Features) {
	if l.suspectedFeatures.Load()&uint32(needs) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	needs.each(func(f Features) {
		if s := l.suspicions[f]; s != nil && !s.isLacking && s.recordAccepted() {
			delete(l.suspicions, f)
		}
	})
	l.publishState(m)
}

func (l *lackTracker) clear(m *ServedModel) {
	if l.suspectedFeatures.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.suspicions)
	l.publishState(m)
}

// Refusal describes an engine's refusal of a request.
type Refusal struct {
	Status int
	Text   uint64 // hash of the response text without its variable parts; never 0
	Body   uint64 // hash of the request body, or 0 if unknown
	Path   bool   // the engine does not serve the path, so the cause is certain
}

// DisputedRefusal is a refusal that may be the engine's fault. The response of a sibling resolves
// the dispute.
type DisputedRefusal struct {
	model    *ServedModel
	suspects Features
	body     uint64
}

// incomparableBodyHash is the hash of bodies that cannot be compared, such as forms. Each of these
// bodies counts as distinct.
const incomparableBodyHash = 1 << 63

// SetFeatures declares the features that the call requires.
func (l *Lease) SetFeatures(f Features) { l.features = f }

// RecordDisputableRefusal records a refusal that may be the engine's fault. If the caller should
// send the call to a sibling, it returns a DisputedRefusal to pass to the sibling's lease.
// Otherwise, it returns nil.
func (l *Lease) RecordDisputableRefusal(r Refusal) *DisputedRefusal {
	if l.model == nil {
		return nil
	}
	blamed := l.features.suspectsAfterRefusal()
	if r.Path {
		blamed = l.features &^ specialFeatures
	}
	k, asks, now := &l.model.lacking, false, MomentOf(time.Now())
	k.mu.Lock()
	defer k.mu.Unlock()
	blamed.each(func(f Features) {
		s := k.suspicions[f]
		if s == nil {
			if k.suspicions == nil {
				k.suspicions = map[Features]*lackSuspicion{}
			}
			s = &lackSuspicion{}
			k.suspicions[f] = s
		}
		s.status, s.lastRefusal = r.Status, now
		asks = s.recordRefusal(r.Text, r.Path) || asks
		if r.Path && r.Body == unknownBodyHash {
			r.Body = incomparableBodyHash | uint64(s.n)
		}
	})
	k.publishState(l.model)
	if !asks {
		return nil
	}
	return &DisputedRefusal{l.model, blamed, r.Body}
}

// SetDisputedRefusal makes the outcome of this call resolve a disputed refusal by another engine.
func (l *Lease) SetDisputedRefusal(d *DisputedRefusal) { l.disputed = d }

func (d *DisputedRefusal) resolve(o Outcome, now Moment) {
	k := &d.model.lacking
	k.mu.Lock()
	defer k.mu.Unlock()
	d.suspects.each(func(f Features) {
		s := k.suspicions[f]
		switch {
		case s == nil:
		case o == OutcomeRejected && !s.isLacking:
			delete(k.suspicions, f)
		case o == OutcomeOK && s.recordSiblingAccept(d.body, now):
			m := d.model
			remedy := remedyFor(engine.FeatureFlag(m.models.up.engine.Load(), f.featureName()))
			m.models.hooks.log.Warn("upstream lacks a feature that others of its model have", zap.String("event", "upstream_lacks"),
				zap.String("served", m.served), zap.String("feature", f.featureName()), zap.Int("status", s.status),
				zap.Int("refused", s.refusalCount), zap.Duration("retry", s.pause), zap.String("remedy", remedy))
		}
	})
	k.publishState(d.model)
}

// LackedFeature is a feature that an upstream lacks for one of its models, as shown to the
// operator.
type LackedFeature struct {
	Served  string  `json:"served"`
	Feature string  `json:"feature"`
	Status  int     `json:"status"`         // the status of the refusals
	Flag    string  `json:"flag,omitempty"` // flag that enables the feature
	Retry   float64 `json:"retry_seconds"`  // seconds until the next trial; 0 during a trial
	Refused int     `json:"refused"`        // number of refused calls since the feature was first suspected
}

// Remedy returns advice for the operator.
func (l *LackedFeature) Remedy() string { return remedyFor(l.Flag) }

func remedyFor(flag string) string {
	if flag != "" {
		return "start it with " + flag
	}
	return "compare how it was started with the others of the model"
}

// RefusedFeature is a feature for which an upstream refuses most calls. Either the clients or the
// engine may be at fault.
type RefusedFeature struct {
	Served  string  `json:"served"`
	Feature string  `json:"feature"`
	Status  int     `json:"status"`
	Flag    string  `json:"flag,omitempty"` // the flag that enables the feature
	Refused int     `json:"refused"`        // number of refusals with the same text among the recent responses
	Answers int     `json:"answers"`        // number of recent responses, at most 20
	Age     float64 `json:"age_seconds"`    // seconds since the newest refusal
}

// Remedy returns advice for the operator, in case the engine is at fault.
func (r *RefusedFeature) Remedy() string { return remedyFor(r.Flag) }

// A refused feature is shown after minRefusals refusals, and until shownRefusalTime after the
// newest refusal.
const (
	minRefusals      = 3
	shownRefusalTime = 5 * time.Minute
)

// ListRefusedFeatures returns the features for which the upstream refuses most calls, by served
// name and feature. It omits features that count as lacking or are being tried again.
func ListRefusedFeatures(u *Upstream, now time.Time) (all []RefusedFeature) {
	u.Models.eachSuspected(func(l *lackTracker) bool { return l.suspectedFeatures.Load() != l.lackingFeatures.Load() }, func(m *ServedModel, f Features, s *lackSuspicion) {
		most := 0
		for _, text := range s.refusalHashes {
			if text != noRefusalTextHash {
				most = max(most, s.matchingRefusals(text))
			}
		}
		answers, old := min(s.n, trackedResponseCount), time.Duration(MomentOf(now)-s.lastRefusal)
		if !s.isKnownLacking() && most >= minRefusals && 2*most > answers && old < shownRefusalTime {
			flag := engine.FeatureFlag(u.engine.Load(), f.featureName())
			all = append(all, RefusedFeature{m.served, f.featureName(), s.status, flag, most, answers, max(0, old.Seconds())})
		}
	})
	slices.SortFunc(all, func(a, b RefusedFeature) int {
		return cmp.Or(cmp.Compare(a.Served, b.Served), cmp.Compare(a.Feature, b.Feature))
	})
	return all
}

// eachSuspected calls visit for each suspected feature. It skips a model if fits returns false for
// the model's lackTracker.
func (s *ServedModels) eachSuspected(fits func(*lackTracker) bool, visit func(*ServedModel, Features, *lackSuspicion)) {
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
		for f, suspicion := range m.lacking.suspicions {
			visit(m, f, suspicion)
		}
		m.lacking.mu.Unlock()
	}
}

// ListLackedFeatures returns the features that the upstream lacks, by served name and feature.
// While a feature is being tried again, it still counts as lacking.
func ListLackedFeatures(u *Upstream, now time.Time) (all []LackedFeature) {
	u.Models.eachSuspected(func(l *lackTracker) bool { return l.suspectedFeatures.Load() != 0 }, func(m *ServedModel, f Features, s *lackSuspicion) {
		if s.isKnownLacking() {
			all = append(all, LackedFeature{
				m.served, f.featureName(), s.status, engine.FeatureFlag(u.engine.Load(), f.featureName()),
				max(0, time.Duration(s.retryAt-MomentOf(now)).Seconds()), s.refusalCount,
			})
		}
	})
	slices.SortFunc(all, func(a, b LackedFeature) int {
		return cmp.Or(cmp.Compare(a.Served, b.Served), cmp.Compare(a.Feature, b.Feature))
	})
	return all
}
