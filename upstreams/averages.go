package upstreams

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Averages contains moving averages over an upstream's calls. It is safe for concurrent use.
type Averages struct {
	ttft          movingAverage // seconds
	bytesPerToken movingAverage
}

// BytesPerToken returns the average number of bytes of prompt text per token, based on the token
// usage that responses report. It returns 0 before the first report.
func (a *Averages) BytesPerToken() float64 { return a.bytesPerToken.value() }

// initialBytesPerToken is the starting value. In most models, a token of English text has about
// four bytes.
const initialBytesPerToken = 4

// UpdateBytesPerToken updates BytesPerToken with a prompt's text size in bytes and the token count
// that the engine reported for it.
func (a *Averages) UpdateBytesPerToken(bytes, tokens int) {
	if bytes > 0 && tokens > 0 {
		a.bytesPerToken.update(min(32, max(0.25, float64(bytes)/float64(tokens))), initialBytesPerToken, 0.05)
	}
}

// TTFT returns the average time to first token, or 0 before the first measurement.
func (a *Averages) TTFT() time.Duration { return time.Duration(a.ttft.value() * float64(time.Second)) }

// movingAverage is an exponentially weighted moving average. The zero value has no measurements.
type movingAverage struct{ bits atomic.Uint64 }

func (a *movingAverage) value() float64 { return math.Float64frombits(a.bits.Load()) }

// update moves the average towards v by the given weight. Before the first update, the average is
// set to start, or to v if start is 0.
func (a *movingAverage) update(v, start, weight float64) {
	for {
		old := a.bits.Load()
		from := math.Float64frombits(old)
		if old == 0 {
			if from = start; start == 0 {
				from = v
			}
		}
		if a.bits.CompareAndSwap(old, math.Float64bits(from+(v-from)*weight)) {
			return
		}
	}
}

// Speed is the measured speed of an engine for one model. Times are in seconds.
type Speed struct {
	Start   float64 // time to first token of an empty prompt
	Prefill float64 // prefill time per prompt token, including queued prompts
	Token   float64 // time per output token while no other call is running
	Beside  float64 // additional time per output token for each concurrent call
	Answer  float64 // average time from the first token to the last
	Unread  float64 // average number of prompt tokens per call that the engine has not read yet
}

// TokenTime returns the time per output token while the given number of calls are running
// concurrently.
func (v *Speed) TokenTime(calls float64) float64 { return v.Token + v.Beside*calls }

// speedometer measures the speed of an engine for one model. Calls report their prefill and output
// times. To distinguish a slow engine from a busy one, speedometer relates each time to the
// engine's load. The prefill of a prompt starts when the prompt is sent or, if that is later, at
// the first output token of the previous prompt. The prefill ends when the first output token of
// the prompt arrives. Prefill time is fitted as a linear function of the uncached prompt tokens.
// The time per output token is fitted as a linear function of the number of concurrent calls.
type speedometer struct {
	mu sync.Mutex
	speedSamples
}

// speedSamples contains the measurements of the calls at one engine, or at all engines of a model.
type speedSamples struct {
	prefillFit  linearFitSums // x: number of uncached tokens; y: seconds; z: 1 if longer than longPromptTokens
	unreadFit   linearFitSums // x: number of calls; y: number of unread tokens
	outputFit   linearFitSums // x: number of calls; y: seconds per token; z: seconds per response
	longPrompts int           // number of sampled prompts longer than longPromptTokens
	longTotal   int64         // like longPrompts, but not set to 0 when the samples have decayed
	newestLong  Moment        // when the newest of these prompts was sampled
}

// linearFitSums contains the sums for a linear fit. The weight of a sample decays with time and with
// each newer sample.
type linearFitSums struct {
	n, x, y, xx, xy, z float64
	newestAt           Moment
}

const (
	// effectiveSampleCount is the number of newest samples that dominate the sums.
	effectiveSampleCount = 64
	// sampleDecayTime is the time constant of the decay with time. An idle engine may become
	// faster, so its speed is measured again once the old samples have decayed.
	sampleDecayTime = 5 * time.Minute
	// minSampleWeight is the total weight of samples that is needed before a speed counts as known.
	minSampleWeight = 2.5
	// minLongPrompts is the number of prompts with more than longPromptTokens uncached tokens that
	// must be measured before the speed counts as known. All engines of a model count together.
	// Short prompts reveal only the fixed start time. If only short prompts are measured, the
	// estimated tokens per second of two equally fast engines can differ by a factor of three.
	minLongPrompts   = 10
	longPromptTokens = 500
	// minShownLongPrompts is the number of long prompts that must be measured at a single engine
	// before its speed is shown to the operator.
	minShownLongPrompts = 3
	// zeroStartPriorWeight is the weight, in samples, of the assumption that the start time is zero.
	// Without this assumption, prompts of equal length would not reveal a speed.
	zeroStartPriorWeight = 2
	// minTokenTime is the lower bound for the time per token, in seconds. It prevents an infinite
	// speed if the engine has cached more tokens than assumed.
	minTokenTime = 1e-6
	// minAnswerTokens is the minimum number of output tokens of a response that is measured.
	minAnswerTokens = 8
)

func (s *linearFitSums) addSample(x, y, z float64, at Moment) {
	keep := (1 - 1.0/effectiveSampleCount) * math.Exp(-float64(max(0, at-s.newestAt))/float64(sampleDecayTime))
	if s.newestAt = max(s.newestAt, at); s.n == 0 {
		s.newestAt, keep = at, 0
	}
	s.n, s.x, s.y = s.n*keep+1, s.x*keep+x, s.y*keep+y
	s.xx, s.xy, s.z = s.xx*keep+x*x, s.xy*keep+x*y, s.z*keep+z
}

// decayedTo returns the samples with their weights at the given time.
func (s *linearFitSums) decayedTo(now Moment) linearFitSums {
	by := math.Exp(-float64(max(0, now-s.newestAt)) / float64(sampleDecayTime))
	return linearFitSums{s.n * by, s.x * by, s.y * by, s.xx * by, s.xy * by, s.z * by, s.newestAt}
}

// fitLine fits a line to y over x. at0 is the value of the line at x = 0. If all samples have the
// same x, the line is nearly horizontal. at0 and slope are not negative.
func (s *linearFitSums) fitLine() (at0, slope float64) {
	x, y := s.x/s.n, s.y/s.n
	slope = (s.xy/s.n - x*y) / (s.xx/s.n - x*x + 1)
	slope = max(0, min(slope, y/max(1, x)))
	return y - slope*x, slope
}

// fitLineFromZero fits a line to y over x, with the prior that y = 0 at x = 0. doubt is the weight
// of this prior, in samples. at0 is the value of the line at x = 0, and is not negative.
func (s *linearFitSums) fitLineFromZero(doubt float64) (at0, slope float64) {
	at0 = max(0, (s.y*s.xx-s.x*s.xy)/((s.n+doubt)*s.xx-s.x*s.x))
	return at0, (s.xy - at0*s.x) / s.xx
}

// recordPrompt records a prompt's prefill time and uncached tokens. met is the engine's load when
// the call acquired its slot, including that call.
func (m *speedometer) recordPrompt(took time.Duration, tokens int64, met loadAtAcquire, at Moment) {
	if tokens <= 0 || took <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if aged := m.prefillFit.decayedTo(at); aged.n < minSampleWeight && m.longPrompts >= minLongPrompts {
		m.longPrompts = 0
	}
	long := 0.0
	if tokens > longPromptTokens {
		m.longPrompts, m.longTotal, m.newestLong = m.longPrompts+1, m.longTotal+1, max(m.newestLong, at)
		long = 1
	}
	m.prefillFit.addSample(float64(tokens), took.Seconds(), long, at)
	m.unreadFit.addSample(met.calls, float64(met.unread), 0, at)
}

// recordAnswer records a response: its duration from the first token to the last, its token count,
// and the average number of concurrent calls.
func (m *speedometer) recordAnswer(took time.Duration, tokens int, calls float64, at Moment) {
	if tokens < minAnswerTokens || took <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outputFit.addSample(calls, took.Seconds()/float64(tokens-1), took.Seconds(), at)
}

// decayedSamples returns the engine's samples with their weights at the given time.
func (m *speedometer) decayedSamples(now Moment) speedSamples {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.speedSamples
	e.prefillFit, e.unreadFit, e.outputFit = e.prefillFit.decayedTo(now), e.unreadFit.decayedTo(now), e.outputFit.decayedTo(now)
	return e
}

// isSufficient reports whether there are enough samples, and at least the given number of long
// prompts, to know a speed.
func (e *speedSamples) isSufficient(long int) bool {
	return e.longPrompts >= long && min(e.prefillFit.n, e.outputFit.n) >= minSampleWeight
}

// computeSpeed computes a speed from the samples. Fields for which there are no samples stay 0.
func (e *speedSamples) computeSpeed() (v Speed) {
	if e.prefillFit.n > 0 {
		v.Start, v.Prefill = e.prefillFit.fitLineFromZero(zeroStartPriorWeight)
		v.Prefill = max(minTokenTime, v.Prefill)
		v.Unread = e.unreadFit.y / e.unreadFit.x
	}
	if e.outputFit.n > 0 {
		v.Token, v.Beside = e.outputFit.fitLine()
		v.Answer = e.outputFit.z / e.outputFit.n
	}
	return v
}

// moveTowards moves v towards o: the fields measured with prompts by the fraction prompts, and the
// fields measured with responses by the fraction answers.
func (v *Speed) moveTowards(o *Speed, prompts, answers float64) {
	v.Start += (o.Start - v.Start) * prompts
	v.Prefill += (o.Prefill - v.Prefill) * prompts
	v.Unread += (o.Unread - v.Unread) * prompts
	v.Token += (o.Token - v.Token) * answers
	v.Beside += (o.Beside - v.Beside) * answers
	v.Answer += (o.Answer - v.Answer) * answers
}

// SiblingSpeeds estimates the speeds of a model's engines. An engine with few samples is assumed to
// be as fast as the others, because the average of all engines counts as one additional sample. The
// first long prompt at an engine therefore determines half of the engine's estimate. The samples of
// an engine that gets no long prompts lose weight, so that it is tried again (promptTrust).
// SiblingSpeeds is safe for concurrent use.
type SiblingSpeeds struct {
	models    []*ServedModel
	speeds    []atomicSpeed
	updatedAt atomic.Int64 // time of the last estimate (Moment); 0 before the first estimate
	isKnown   atomic.Bool

	mu        sync.Mutex
	ownSpeeds []weightedSpeed // speeds measured at each engine alone; used only by recompute
	longTotal int64           // number of long prompts at all engines
}

type atomicSpeed struct{ start, prefill, token, beside, answer, unread atomic.Uint64 }

// weightedSpeed is a speed with the total weights of the prompts and responses from which it was
// computed, in samples.
type weightedSpeed struct {
	Speed
	promptWeight, answerWeight float64
	newestLong                 Moment // when the engine's newest long prompt was sampled
	longTotal                  int64  // SiblingSpeeds.longTotal at that time
}

const (
	// allEnginesWeight is the weight, in samples, of the average of all engines in the estimate for
	// each engine.
	allEnginesWeight = 1
	// shortPromptWeight is the weight of a prompt of at most longPromptTokens tokens. Such a prompt
	// reveals little about the prefill speed.
	shortPromptWeight = 0.01
	// speedTrustTime and speedTrustPrompts determine how long an engine without new long prompts is still
	// assumed to be as slow or fast as before.
	speedTrustTime    = time.Minute
	speedTrustPrompts = 16
	// speedRefreshInterval is how long the estimates are used before they are recomputed.
	// Recomputing them takes a few microseconds.
	speedRefreshInterval = 100 * time.Millisecond
)

// NewSiblingSpeeds returns the speed estimates for one model at different upstreams.
func NewSiblingSpeeds(models []*ServedModel) *SiblingSpeeds {
	n := len(models)
	s := &SiblingSpeeds{models: models, speeds: make([]atomicSpeed, n), ownSpeeds: make([]weightedSpeed, n)}
	for _, m := range models { // only prompts after the reload count as read elsewhere
		s.longTotal += m.speed.decayedSamples(0).longTotal
	}
	return s
}

// Refresh recomputes the estimates if they are too old, and reports whether the speeds are known.
// They are known once all engines together have enough samples.
func (s *SiblingSpeeds) Refresh(now Moment) bool {
	if old := s.updatedAt.Load(); (old == 0 || int64(now)-old >= int64(speedRefreshInterval)) && s.mu.TryLock() {
		s.updatedAt.Store(int64(now))
		s.estimateEachEngine(now)
		s.mu.Unlock()
	}
	return s.isKnown.Load()
}

// promptTrust returns a factor of at most 1 by which the weight of an engine's prompt samples is
// multiplied, in addition to their decay. silence is the time since the engine's newest long
// prompt. elsewhere is the number of long prompts that all engines have read since then.
//
// A slow engine gets few prompts, but only a new prompt shows whether it has become faster. As
// its samples lose weight, its estimate approaches the average of all engines, so it is tried
// again. Both silence and elsewhere must be large for this. Because of silence, many prompts do
// not mean many tries. Because of elsewhere, an engine that stays slow does not get a large share
// of few prompts.
func promptTrust(silence time.Duration, elsewhere int64) float64 {
	return math.Exp(-min(float64(silence)/float64(speedTrustTime), float64(elsewhere)/speedTrustPrompts))
}

func (s *SiblingSpeeds) estimateEachEngine(now Moment) {
	var all speedSamples
	var average weightedSpeed
	for i, m := range s.models {
		e := m.speed.decayedSamples(now)
		all.longPrompts += e.longPrompts
		all.longTotal += e.longTotal
		all.prefillFit.n += e.prefillFit.n
		all.outputFit.n += e.outputFit.n
		o := &s.ownSpeeds[i]
		o.Speed, o.promptWeight, o.answerWeight = e.computeSpeed(), e.prefillFit.z+shortPromptWeight*(e.prefillFit.n-e.prefillFit.z), e.outputFit.n
		if o.newestLong != e.newestLong {
			o.newestLong, o.longTotal = e.newestLong, s.longTotal
		}
		o.promptWeight *= promptTrust(time.Duration(max(0, now-o.newestLong)), s.longTotal-o.longTotal)
		average.promptWeight, average.answerWeight = average.promptWeight+o.promptWeight, average.answerWeight+o.answerWeight
		average.moveTowards(&o.Speed, fraction(o.promptWeight, average.promptWeight), fraction(o.answerWeight, average.answerWeight))
	}
	for i := range s.ownSpeeds {
		o := &s.ownSpeeds[i]
		o.moveTowards(&average.Speed, allEnginesWeight/(allEnginesWeight+o.promptWeight), allEnginesWeight/(allEnginesWeight+o.answerWeight))
		s.speeds[i].store(&o.Speed)
	}
	s.longTotal = all.longTotal
	s.isKnown.Store(all.isSufficient(minLongPrompts))
}

// fraction returns part/whole, or 0 if whole is 0.
func fraction(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}

// ReadSpeed stores the estimate for the i-th model in v. Call it only if Refresh has returned true.
func (s *SiblingSpeeds) ReadSpeed(i int, v *Speed) { s.speeds[i].load(v) }

func (s *atomicSpeed) store(v *Speed) {
	storeFloat(&s.start, v.Start)
	storeFloat(&s.prefill, v.Prefill)
	storeFloat(&s.unread, v.Unread)
	storeFloat(&s.token, v.Token)
	storeFloat(&s.beside, v.Beside)
	storeFloat(&s.answer, v.Answer)
}

func (s *atomicSpeed) load(v *Speed) {
	v.Start, v.Prefill, v.Unread = loadFloat(&s.start), loadFloat(&s.prefill), loadFloat(&s.unread)
	v.Token, v.Beside, v.Answer = loadFloat(&s.token), loadFloat(&s.beside), loadFloat(&s.answer)
}

// ModelSpeed is an engine's speed for a model, in tokens per second, as shown to the operator.
type ModelSpeed struct {
	Served  string  `json:"served"`
	Prompt  float64 `json:"prompt_tokens_per_second"`
	Answer  float64 `json:"answer_tokens_per_second"` // while no other call is running
	samples float64
}

// modelSpeeds returns the known speeds of an engine's models. The model with the most recent
// samples is first.
func modelSpeeds(s *ServedModels, now Moment) (all []ModelSpeed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for served, m := range s.entries {
		e := m.speed.decayedSamples(now)
		if !e.isSufficient(minShownLongPrompts) {
			continue
		}
		v := e.computeSpeed()
		all = append(all, ModelSpeed{served, 1 / v.Prefill, 1 / v.TokenTime(1), e.outputFit.n})
	}
	slices.SortFunc(all, func(a, b ModelSpeed) int {
		return cmp.Or(cmp.Compare(b.samples, a.samples), cmp.Compare(a.Served, b.Served))
	})
	return all
}

func storeFloat(at *atomic.Uint64, v float64) { at.Store(math.Float64bits(v)) }

func loadFloat(at *atomic.Uint64) float64 { return math.Float64frombits(at.Load()) }
