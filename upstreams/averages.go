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
// times, and routing reads only atomics. To tell a slow engine from a busy one, speedometer relates
// each time to the engine's load. The prefill of a prompt starts when the prompt is sent, or at the
// previous prompt's first token if that comes later. The prefill ends when the prompt's first
// output token arrives. Prefill time is fitted as a linear function of the uncached prompt tokens.
// The time per output token is fitted as a linear function of the number of concurrent calls.
type speedometer struct {
	mu      sync.Mutex
	prompts samples // x: number of uncached tokens; y: seconds
	ahead   samples // x: number of calls; y: number of unread tokens
	answers samples // x: number of calls; y: seconds per token; z: seconds per response
	long    int     // number of sampled prompts longer than speedPrompt

	start, prefill, token, beside, answer, unread atomic.Uint64
	until                                         atomic.Int64 // when the samples expire; 0 if there are too few
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
	// speedSamples is the minimum total weight of samples for a known speed.
	speedSamples = 2.5
	// speedLong is the minimum number of prompts with more than speedPrompt uncached tokens before
	// the speed counts as known. Short prompts reveal only the fixed start time. If only short
	// prompts are measured, the tokens per second of two equal engines can differ by a factor of
	// three.
	speedLong   = 10
	speedPrompt = 500
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

// until returns the time at which the weight of the samples will have decayed to speedSamples.
func (s *samples) until() Moment {
	return s.at + Moment(math.Log(s.n/speedSamples)*float64(speedTime))
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

// knows extends the validity of the measured speed if there are enough samples.
func (m *speedometer) knows() {
	if m.long >= speedLong && min(m.prompts.n, m.answers.n) >= speedSamples {
		m.until.Store(int64(min(m.prompts.until(), m.answers.until())))
	}
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
	token, beside := m.answers.line()
	store(&m.token, token)
	store(&m.beside, beside)
	store(&m.answer, m.answers.z/m.answers.n)
	m.knows()
}

// read stores the speed in v, and returns false if the speed is unknown.
func (m *speedometer) read(v *Speed, now Moment) bool {
	if until := Moment(m.until.Load()); until == 0 || now > until {
		return false
	}
	v.Start, v.Prefill, v.Unread = load(&m.start), load(&m.prefill), load(&m.unread)
	v.Token, v.Beside, v.Answer = load(&m.token), load(&m.beside), load(&m.answer)
	return true
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
