package upstreams

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Averages holds moving averages over an upstream's calls. It is safe for concurrent use.
type Averages struct {
	ttft          average // seconds
	bytesPerToken average
}

// BytesPerToken returns the average bytes of prompt text per token, based on the token usage that
// responses report. It returns 0 before the first report.
func (a *Averages) BytesPerToken() float64 { return a.bytesPerToken.value() }

// usualBytesPerToken is the starting value. In most models, a token of English text has about four
// bytes.
const usualBytesPerToken = 4

// LearnTokens updates BytesPerToken with a prompt's text size in bytes and the token count that the
// engine reported for it.
func (a *Averages) LearnTokens(bytes, tokens int) {
	if bytes > 0 && tokens > 0 {
		a.bytesPerToken.learn(min(32, max(0.25, float64(bytes)/float64(tokens))), usualBytesPerToken, 0.05)
	}
}

// TTFT returns the average time to first token, or 0 before the first measurement.
func (a *Averages) TTFT() time.Duration { return time.Duration(a.ttft.value() * float64(time.Second)) }

// average is an exponentially weighted moving average. The zero value has no measurements.
type average struct{ bits atomic.Uint64 }

func (a *average) value() float64 { return math.Float64frombits(a.bits.Load()) }

// learn moves the average towards v by the given weight. The first call starts the average at the
// value start, or at v if start is 0.
func (a *average) learn(v, start, weight float64) {
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
	Token   float64 // time per output token while no other call runs
	Beside  float64 // additional time per output token for each concurrent call
	Answer  float64 // average time from the first token to the last
	Unread  float64 // average number of prompt tokens per call that the engine has not read yet
}

// TokenTime returns the time per output token when the given number of calls run concurrently.
func (v *Speed) TokenTime(calls float64) float64 { return v.Token + v.Beside*calls }

// speedometer measures the speed of an engine for one model. Calls report their prefill and output
// times. To tell a slow engine from a busy one, speedometer relates each time to the engine's load.
// The prefill of a prompt starts when the prompt is sent, or at the previous prompt's first token if
// that comes later. The prefill ends when the prompt's first output token arrives. Prefill time is
// fitted as a linear function of the uncached prompt tokens. The time per output token is fitted as
// a linear function of the number of concurrent calls.
type speedometer struct {
	mu sync.Mutex
	measured
}

// measured is what the calls of one engine, or of several, have shown.
type measured struct {
	prompts samples // x: number of uncached tokens; y: seconds; z: 1 if longer than speedPrompt
	ahead   samples // x: number of calls; y: number of unread tokens
	answers samples // x: number of calls; y: seconds per token; z: seconds per response
	long    int     // number of sampled prompts longer than speedPrompt
}

// samples holds the sums for a linear fit. Older samples decay.
type samples struct {
	n, x, y, xx, xy, z float64
	at                 Moment
}

const (
	// speedMemory is the number of recent samples that dominate the sums.
	speedMemory = 64
	// speedTime is the time constant of the decay by age. An idle engine may become faster, so its
	// speed is measured again once the old samples have decayed.
	speedTime = 5 * time.Minute
	// speedSamples is the minimum total weight of samples for a known speed of an engine or a fleet.
	speedSamples = 2.5
	// speedLong is the minimum number of prompts with more than speedPrompt uncached tokens, at all
	// engines of a model together, before the speed counts as known. Short prompts reveal only the
	// fixed start time. If only short prompts are measured, the tokens per second of two equal
	// engines can differ by a factor of three.
	speedLong   = 10
	speedPrompt = 500
	// speedShown is the minimum number of such prompts at an engine whose own speed is shown to the
	// operator.
	speedShown = 3
	// startDoubt is the weight, in samples, of the assumption that the start time is zero. Without
	// this assumption, prompts of equal length would not reveal a speed.
	startDoubt = 2
	// speedMost is the lower bound for the time per token, in seconds. It prevents an infinite
	// speed if the engine caches more than assumed.
	speedMost = 1e-6
	// speedAnswer is the minimum number of output tokens that a response needs to be measured.
	speedAnswer = 8
)

func (s *samples) add(x, y, z float64, at Moment) {
	keep := (1 - 1.0/speedMemory) * math.Exp(-float64(max(0, at-s.at))/float64(speedTime))
	if s.at = max(s.at, at); s.n == 0 {
		s.at, keep = at, 0
	}
	s.n, s.x, s.y = s.n*keep+1, s.x*keep+x, s.y*keep+y
	s.xx, s.xy, s.z = s.xx*keep+x*x, s.xy*keep+x*y, s.z*keep+z
}

// agedTo returns the samples with the weights that they have at the given time.
func (s *samples) agedTo(now Moment) samples {
	by := math.Exp(-float64(max(0, now-s.at)) / float64(speedTime))
	return samples{s.n * by, s.x * by, s.y * by, s.xx * by, s.xy * by, s.z * by, s.at}
}

// line fits y over x. If all samples have the same x, the line is nearly horizontal. at0 and slope
// are not negative.
func (s *samples) line() (at0, slope float64) {
	x, y := s.x/s.n, s.y/s.n
	slope = (s.xy/s.n - x*y) / (s.xx/s.n - x*x + 1)
	slope = max(0, min(slope, y/max(1, x)))
	return y - slope*x, slope
}

// lineFromZero fits y over x, with the prior that y = 0 at x = 0. doubt is the weight of that
// prior, in samples. at0 is not negative.
func (s *samples) lineFromZero(doubt float64) (at0, slope float64) {
	at0 = max(0, (s.y*s.xx-s.x*s.xy)/((s.n+doubt)*s.xx-s.x*s.x))
	return at0, (s.xy - at0*s.x) / s.xx
}

// readPrompt records a prompt's prefill time and uncached tokens. met is the engine's load when the
// call acquired its slot; it includes the call.
func (m *speedometer) readPrompt(took time.Duration, tokens int64, met met, at Moment) {
	if tokens <= 0 || took <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if aged := m.prompts.agedTo(at); aged.n < speedSamples && m.long >= speedLong {
		m.long = 0
	}
	long := 0.0
	if tokens > speedPrompt {
		m.long++
		long = 1
	}
	m.prompts.add(float64(tokens), took.Seconds(), long, at)
	m.ahead.add(met.calls, float64(met.unread), 0, at)
}

// wroteAnswer records a response: its token count, the time from the first token to the last, and
// the average number of concurrent calls.
func (m *speedometer) wroteAnswer(took time.Duration, tokens int, calls float64, at Moment) {
	if tokens < speedAnswer || took <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers.add(calls, took.Seconds()/float64(tokens-1), took.Seconds(), at)
}

// shown returns what the engine has shown, with the weights of the given time.
func (m *speedometer) shown(now Moment) measured {
	m.mu.Lock()
	defer m.mu.Unlock()
	return measured{m.prompts.agedTo(now), m.ahead.agedTo(now), m.answers.agedTo(now), m.long}
}

// suffices reports whether the samples, with at least the given number of long prompts, show a speed.
func (e *measured) suffices(long int) bool {
	return e.long >= long && min(e.prompts.n, e.answers.n) >= speedSamples
}

// speed computes the speed that the samples show. A part of it without samples stays 0.
func (e *measured) speed() (v Speed) {
	if e.prompts.n > 0 {
		v.Start, v.Prefill = e.prompts.lineFromZero(startDoubt)
		v.Prefill = max(speedMost, v.Prefill)
		v.Unread = e.ahead.y / e.ahead.x
	}
	if e.answers.n > 0 {
		v.Token, v.Beside = e.answers.line()
		v.Answer = e.answers.z / e.answers.n
	}
	return v
}

// approach moves v towards o, by one share for what prompts have shown and one for what answers have
// shown.
func (v *Speed) approach(o *Speed, prompts, answers float64) {
	v.Start += (o.Start - v.Start) * prompts
	v.Prefill += (o.Prefill - v.Prefill) * prompts
	v.Unread += (o.Unread - v.Unread) * prompts
	v.Token += (o.Token - v.Token) * answers
	v.Beside += (o.Beside - v.Beside) * answers
	v.Answer += (o.Answer - v.Answer) * answers
}

// Siblings estimates the speeds of the engines of a model. An engine that has shown little is
// assumed to be as fast as the others: their average weighs as much as one sample of its own. So the
// first long prompt of an engine decides half of its estimate, and an engine that gets no calls is
// tried again when its samples have decayed. Siblings is safe for concurrent use.
type Siblings struct {
	models  []*ServedModel
	speeds  []sharedSpeed
	renewed atomic.Int64 // time of the last estimate (Moment); 0 before the first
	known   atomic.Bool

	mu  sync.Mutex
	own []ownSpeed // speeds that the engines have shown themselves; used only during a renewal
}

type sharedSpeed struct{ start, prefill, token, beside, answer, unread atomic.Uint64 }

// ownSpeed is a speed with the weights of the prompts and answers that have shown it, in samples.
type ownSpeed struct {
	Speed
	prompts, answers float64
}

const (
	// siblingSamples is the weight, in samples, of the engines' average in the estimate of each.
	siblingSamples = 1
	// speedShort is the weight of a prompt of at most speedPrompt tokens. It hardly shows a speed.
	speedShort = 0.01
	// speedRenewal is how long the estimates are used. Making them takes a few microseconds.
	speedRenewal = 100 * time.Millisecond
)

// NewSiblings returns the estimates for these models, which are one model at different upstreams.
func NewSiblings(models []*ServedModel) *Siblings {
	n := len(models)
	return &Siblings{models: models, speeds: make([]sharedSpeed, n), own: make([]ownSpeed, n)}
}

// Known renews the estimates if they are old, and reports whether there are any. There are none
// before all engines together have shown a speed.
func (s *Siblings) Known(now Moment) bool {
	if old := s.renewed.Load(); (old == 0 || int64(now)-old >= int64(speedRenewal)) && s.mu.TryLock() {
		s.renewed.Store(int64(now))
		s.renew(now)
		s.mu.Unlock()
	}
	return s.known.Load()
}

func (s *Siblings) renew(now Moment) {
	var all measured
	var average ownSpeed
	for i, m := range s.models {
		e := m.speed.shown(now)
		all.long += e.long
		all.prompts.n += e.prompts.n
		all.answers.n += e.answers.n
		o := &s.own[i]
		o.Speed, o.prompts, o.answers = e.speed(), e.prompts.z+speedShort*(e.prompts.n-e.prompts.z), e.answers.n
		average.prompts, average.answers = average.prompts+o.prompts, average.answers+o.answers
		average.approach(&o.Speed, o.prompts/max(average.prompts, 1e-9), o.answers/max(average.answers, 1e-9))
	}
	for i := range s.own {
		o := &s.own[i]
		o.approach(&average.Speed, siblingSamples/(siblingSamples+o.prompts), siblingSamples/(siblingSamples+o.answers))
		s.speeds[i].write(&o.Speed)
	}
	s.known.Store(all.suffices(speedLong))
}

// Speed stores the estimate for the i-th model in v. There is one if Known has returned true.
func (s *Siblings) Speed(i int, v *Speed) { s.speeds[i].read(v) }

func (s *sharedSpeed) write(v *Speed) {
	store(&s.start, v.Start)
	store(&s.prefill, v.Prefill)
	store(&s.unread, v.Unread)
	store(&s.token, v.Token)
	store(&s.beside, v.Beside)
	store(&s.answer, v.Answer)
}

func (s *sharedSpeed) read(v *Speed) {
	v.Start, v.Prefill, v.Unread = load(&s.start), load(&s.prefill), load(&s.unread)
	v.Token, v.Beside, v.Answer = load(&s.token), load(&s.beside), load(&s.answer)
}

// ModelSpeed is an engine's speed for a model, in tokens per second, as shown to the operator.
type ModelSpeed struct {
	Served  string  `json:"served"`
	Prompt  float64 `json:"prompt_tokens_per_second"`
	Answer  float64 `json:"answer_tokens_per_second"` // while no other call runs
	samples float64
}

// speedsOf returns the known speeds of an engine's models. The model with the most recent samples
// is first.
func speedsOf(s *ServedModels, now Moment) (all []ModelSpeed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for served, m := range s.entries {
		e := m.speed.shown(now)
		if !e.suffices(speedShown) {
			continue
		}
		v := e.speed()
		all = append(all, ModelSpeed{served, 1 / v.Prefill, 1 / v.TokenTime(1), e.answers.n})
	}
	slices.SortFunc(all, func(a, b ModelSpeed) int {
		return cmp.Or(cmp.Compare(b.samples, a.samples), cmp.Compare(a.Served, b.Served))
	})
	return all
}

func store(at *atomic.Uint64, v float64) { at.Store(math.Float64bits(v)) }

func load(at *atomic.Uint64) float64 { return math.Float64frombits(at.Load()) }
