package upstreams

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Averages are measurements from an upstream's calls. Any goroutine may update and read them.
type Averages struct {
	ttft          average // seconds
	bytesPerToken average
}

// BytesPerToken returns the number of bytes of prompt text per token, learned from the usage that
// the engine reports. It returns 0 before the first report.
func (a *Averages) BytesPerToken() float64 { return a.bytesPerToken.value() }

// usualBytesPerToken is the starting value: a token of English text has about four bytes in most
// models.
const usualBytesPerToken = 4

// LearnTokens updates BytesPerToken with one call's prompt: its bytes of text, and the tokens that
// the engine counted.
func (a *Averages) LearnTokens(bytes, tokens int) {
	if bytes > 0 && tokens > 0 {
		a.bytesPerToken.learn(min(32, max(0.25, float64(bytes)/float64(tokens))), usualBytesPerToken, 0.05)
	}
}

// TTFT returns the moving average of times to first token; 0 before the first measurement.
func (a *Averages) TTFT() time.Duration { return time.Duration(a.ttft.value() * float64(time.Second)) }

// average is an exponentially weighted moving average. The zero value has no measurement yet.
type average struct{ bits atomic.Uint64 }

// value returns 0 before the first measurement.
func (a *average) value() float64 { return math.Float64frombits(a.bits.Load()) }

// learn moves the average toward v by the given weight. The first measurement moves the average
// from start, or sets it to v if start is 0.
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

// Speed is the measured speed of an engine with a model. Times are in seconds.
type Speed struct {
	Start   float64 // time to first token if the prompt is empty
	Prefill float64 // time per token to read, including the prompts ahead
	Token   float64 // time per answer token when the call runs alone
	Beside  float64 // additional time per answer token and call at the engine
	Answer  float64 // time from an answer's first token to its last
	Unread  float64 // unread prompt tokens per call at the engine
}

// TokenTime returns the time per answer token while the given number of calls run.
func (v *Speed) TokenTime(calls float64) float64 { return v.Token + v.Beside*calls }

// speedometer learns how fast an engine is with a model. Calls report when their prompts are read
// and when their answers end; a pick reads atomics. To tell a slow engine from a busy one,
// speedometer relates each time to the engine's work. The reading time of a prompt starts at the
// previous prompt's first token, or when the prompt was sent, and ends at the prompt's own first
// token. Reading times are fitted as a line over the prompts' uncached tokens. Times per answer
// token are fitted as a line over the number of concurrent calls.
type speedometer struct {
	mu      sync.Mutex
	prompts samples // x is the tokens read, y the seconds that this took
	ahead   samples // x is calls, y unread tokens
	answers samples // x is calls, y the seconds per token, z the seconds of the answer
	long    int     // number of sampled prompts longer than speedPrompt

	start, prefill, token, beside, answer, unread atomic.Uint64
	until                                         atomic.Int64 // when the samples become worthless; 0: there are too few
}

// samples holds sums in which older samples decay.
type samples struct {
	n, x, y, xx, xy, z float64
	at                 Moment
}

const (
	// speedMemory is the number of newest samples that make up most of the sums.
	speedMemory = 64
	// speedTime is the time in which samples decay by a factor of e. An engine that gets no calls
	// may have become faster, so it is measured anew once its samples have too little weight.
	speedTime = 5 * time.Minute
	// speedSamples is the weight of samples that a pick needs.
	speedSamples = 2.5
	// speedLong is the number of prompts with more than speedPrompt unread tokens that are needed
	// before the speed counts as known. Short prompts show only the fixed start time: measured with
	// short prompts, the tokens per second of two equal engines can differ by a factor of three.
	speedLong   = 10
	speedPrompt = 500
	// startDoubt is the weight, in samples, of the assumption that the start takes no time. Without
	// this assumption, prompts of equal length would show no speed.
	startDoubt = 2
	// speedMost is the highest speed that is learned, in seconds per token. An engine that caches
	// more than assumed must not look infinitely fast.
	speedMost = 1e-6
	// speedAnswer is the minimum number of tokens in an answer for a measurement of the time per
	// token.
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

// until() returns the moment from which the samples have too little weight.
func (s *samples) until() Moment {
	return s.at + Moment(math.Log(s.n/speedSamples)*float64(speedTime))
}

// line fits y over x. If all samples have the same x, the line is horizontal. Neither its slope nor
// at0 is negative.
func (s *samples) line() (at0, slope float64) {
	x, y := s.x/s.n, s.y/s.n
	slope = (s.xy/s.n - x*y) / (s.xx/s.n - x*x + 1)
	slope = max(0, min(slope, y/max(1, x)))
	return y - slope*x, slope
}

// lineFromZero fits y over x. The line passes through zero, unless the samples outweigh an assumed
// y = 0 at x = 0. doubt is the weight of that assumption, in samples. The returned at0 is not
// negative.
func (s *samples) lineFromZero(doubt float64) (at0, slope float64) {
	at0 = max(0, (s.y*s.xx-s.x*s.xy)/((s.n+doubt)*s.xx-s.x*s.x))
	return at0, (s.xy - at0*s.x) / s.xx
}

// readPrompt records the reading time of a prompt, its uncached tokens, and the work at the engine
// when the call got its slot, including the call itself.
func (m *speedometer) readPrompt(took time.Duration, tokens int64, met met, at Moment) {
	if tokens <= 0 || took <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until.Load() != 0 && at > m.prompts.until() {
		m.long = 0
	}
	if tokens > speedPrompt {
		m.long++
	}
	m.prompts.add(float64(tokens), took.Seconds(), 0, at)
	m.ahead.add(met.calls, float64(met.unread), 0, at)
	start, prefill := m.prompts.lineFromZero(startDoubt)
	store(&m.start, start)
	store(&m.prefill, max(speedMost, prefill))
	store(&m.unread, m.ahead.y/m.ahead.x)
	m.knows()
}

// knows updates the time until which the speed counts as known.
func (m *speedometer) knows() {
	if m.long >= speedLong && min(m.prompts.n, m.answers.n) >= speedSamples {
		m.until.Store(int64(min(m.prompts.until(), m.answers.until())))
	}
}

// wroteAnswer records the number of tokens of an answer, the time from its first token to its last,
// and the average number of calls that ran meanwhile.
func (m *speedometer) wroteAnswer(took time.Duration, tokens int, calls float64, at Moment) {
	if tokens < speedAnswer || took <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers.add(calls, took.Seconds()/float64(tokens-1), took.Seconds(), at)
	token, beside := m.answers.line()
	store(&m.token, token)
	store(&m.beside, beside)
	store(&m.answer, m.answers.z/m.answers.n)
	m.knows()
}

// read sets v to the speed, if enough is known.
func (m *speedometer) read(v *Speed, now Moment) bool {
	if until := Moment(m.until.Load()); until == 0 || now > until {
		return false
	}
	v.Start, v.Prefill, v.Unread = load(&m.start), load(&m.prefill), load(&m.unread)
	v.Token, v.Beside, v.Answer = load(&m.token), load(&m.beside), load(&m.answer)
	return true
}

// ModelSpeed is an engine's speed with a model, in tokens per second, for the operator.
type ModelSpeed struct {
	Served  string  `json:"served"`
	Prompt  float64 `json:"prompt_tokens_per_second"`
	Answer  float64 `json:"answer_tokens_per_second"` // for a call that runs alone
	samples float64
}

// speedsOf returns the known speeds of an engine with its models. The model with the most recent
// calls comes first.
func speedsOf(s *ServedModels, now Moment) (all []ModelSpeed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for served, m := range s.entries {
		var v Speed
		if !m.Speed(&v, now) {
			continue
		}
		m.speed.mu.Lock()
		all = append(all, ModelSpeed{served, 1 / v.Prefill, 1 / v.TokenTime(1), m.speed.answers.n})
		m.speed.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b ModelSpeed) int {
		return cmp.Or(cmp.Compare(b.samples, a.samples), cmp.Compare(a.Served, b.Served))
	})
	return all
}

func store(at *atomic.Uint64, v float64) { at.Store(math.Float64bits(v)) }

func load(at *atomic.Uint64) float64 { return math.Float64frombits(at.Load()) }
