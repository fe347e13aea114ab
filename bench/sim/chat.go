package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/scheduler"
	"penstock/bench/sim/textgen"
)

// chat answers POST /v1/chat/completions.
func (e *Engine) chat(x *exchange) {
	e.text(x, profile.ChunkWriter{}, func(v *fastjson.Value, q *chatRequest) *profile.APIError { return e.decodeChat(x, v, q) })
}

// decoder makes a chat request of a body.
type decoder = func(v *fastjson.Value, q *chatRequest) *profile.APIError

// text answers a request for text, whatever it looks like: decode makes a chat request of it.
func (e *Engine) text(x *exchange, s profile.ChunkWriter, decode decoder) {
	q := chatRequests.Get().(*chatRequest)
	defer chatRequests.Put(q)
	p := parsers.Get()
	v, err := parseJSON(p, x.req.body)
	if err == nil {
		err = decode(v, q)
	}
	parsers.Put(p)
	x.free()
	if err != nil {
		x.fail(*err)
		return
	}
	if !x.misbehave() {
		e.generate(x, q, s)
	}
}

// withJSON gives the request's body to do, or answers that it is none.
func withJSON(x *exchange, do func(v *fastjson.Value)) {
	p := parsers.Get()
	defer parsers.Put(p)
	v, err := parseJSON(p, x.req.body)
	if err != nil {
		x.fail(*err)
		return
	}
	do(v)
}

// answer is one request for text on its way through the engine.
type answer struct {
	e      *Engine
	x      *exchange
	q      *chatRequest
	s      profile.ChunkWriter
	voice  *dialectWriter // in the place of s, in another dialect; nil: chat
	stream bool

	prompt, cached int
	limit          int // most tokens a choice may have
	choices        []generationPlan
	spoken         int // tokens said by all choices so far
	thought        int

	arrived, admitted, first time.Time
	tenant                   *scheduler.SlotHolder // nil: no slot
}

// generate takes a request through the queue, the prefill and the decoding.
func (e *Engine) generate(x *exchange, q *chatRequest, s profile.ChunkWriter) {
	a := &answer{e: e, x: x, q: q, s: s, stream: q.stream, prompt: q.prompt.Tokens()}
	switch x.t.Flip {
	case fault.FlipStream:
		a.stream = true
	case fault.FlipPlain:
		a.stream = false
	}
	if err := a.fit(); err != nil {
		a.refuse(*err, x.p.LongInBand)
		return
	}
	a.s.Profile, a.s.Model, a.s.Created = x.p, q.model, now()
	if a.s.ID == "" {
		a.s.ID = x.p.AnswerID(e.nextID())
	}
	a.voice = newVoice(a)
	defer a.release()
	if !a.enter() || !a.prefill() {
		return
	}
	a.choices = make([]generationPlan, q.n)
	for i := range a.choices {
		a.choices[i] = newScript(x, q, i, a.limit)
	}
	a.first = time.Now()
	e.times.ttft.Observe(a.first.Sub(a.arrived))
	if a.stream {
		a.streamed()
	} else {
		a.plain()
	}
}

// enter waits for a slot. False: there is none, and what had to be said is said.
func (a *answer) enter() bool {
	x, e := a.x, a.e
	a.arrived = time.Now()
	x.client.stubborn = e.o.CancelOnlyStreams && !a.q.stream
	t, err := e.slots.Enter(x.client.gone(), a.prompt)
	if err != nil {
		if errors.Is(err, scheduler.ErrGone) {
			x.client.lost = true
		} else {
			a.refuse(x.p.Full(), x.p.FullInBand)
		}
		return false
	}
	a.tenant, a.admitted = t, time.Now()
	if x.p.Loads && e.loaded.Add(a.q.model) && !x.client.pause(loadTime) {
		return false
	}
	e.times.queue.Observe(a.admitted.Sub(a.arrived))
	if x.t.Hold {
		x.client.hang()
		return false
	}
	return true
}

// release gives the slot back; the second call does nothing.
func (a *answer) release() {
	if a.tenant == nil {
		return
	}
	a.e.slots.Leave(a.tenant)
	a.tenant = nil
	a.e.times.e2e.Observe(time.Since(a.arrived))
}

// say counts tokens.
func (a *answer) say(n int) {
	a.spoken += n
	a.e.slots.Grow(a.tenant, n)
	a.e.counters.generated.Add(int64(n))
	a.e.counters.steps.Add(1)
}

// fit checks the request against the context and sets the limit.
func (a *answer) fit() *profile.APIError {
	size, want := a.e.o.MaxModelLen, a.q.max
	room := size - a.prompt
	a.limit = room
	if want >= 0 {
		a.limit = want
	}
	over := room <= 0 || want > room
	if a.x.p.Overrun {
		over = room <= 0
		a.limit = min(a.limit, room)
	}
	if !over {
		return nil
	}
	err := a.x.p.TooLong(a.prompt, want, size)
	return &err
}

// refuse answers a request that is too long or found no place in the queue: a stream in 200, where
// the engine opens it before it knows.
func (a *answer) refuse(err profile.APIError, inBand bool) {
	if !inBand || !a.stream {
		a.x.fail(err)
		return
	}
	a.x.sse()
	a.x.streamError(err, a.x.p.ErrorDone)
}

// prefill spends the time until the first token. False: the client left.
func (a *answer) prefill() bool {
	x, e := a.x, a.e
	x.forget = a.release
	a.cached = e.cache.Lookup(a.q.prompt.Blocks, a.prompt)
	due, read := a.readyAt(a.prompt - a.cached)
	if x.t.Prefill > 0 {
		due, read = time.Now().Add(x.t.Prefill), 0
	}
	if a.stream && x.p.HeadFirst && (time.Until(due) > 0 || x.t.DripHead > 0) {
		x.sse()
		if !x.out.flush() {
			return false
		}
	}
	for ping := x.p.Ping; ping > 0 && x.out.headed && time.Until(due) > ping; {
		if !x.client.pause(ping) {
			e.reader.Forgo(read, due)
			return false
		}
		x.stream.comment()
		if !x.out.flush() {
			return false
		}
	}
	if !readChunks(a, due) || !x.client.pauseUntil(due) || !e.strain.stand(&x.out) {
		e.reader.Forgo(read, due)
		return false
	}
	e.counters.steps.Add(1)
	e.cache.Insert(a.q.prompt.Blocks)
	e.counters.prompted.Add(int64(a.prompt))
	e.counters.cached.Add(int64(a.cached))
	return true
}

// readChunks reads a's prompt, which is due at a time, in all chunks but the last one. False: the
// client left.
func readChunks(a *answer, due time.Time) bool {
	gap := time.Until(due) / time.Duration(max(1, a.x.t.Chunks))
	for i := a.x.t.Chunks - 1; i > 0; i-- {
		if !a.x.client.pauseUntil(due.Add(-time.Duration(i)*gap)) || !a.e.strain.stand(&a.x.out) {
			return false
		}
		a.e.counters.steps.Add(1)
	}
	return true
}

func (a *answer) usage() []byte {
	thought := 0
	for i := range a.choices {
		thought += a.choices[i].thought
	}
	return a.x.p.AppendUsage(nil, a.prompt, a.spoken, a.cached, min(thought, a.spoken))
}

func (a *answer) timings() []byte {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	read, wrote := ms(a.first.Sub(a.admitted)), ms(time.Since(a.first))
	n, m := max(1, a.prompt-a.cached), max(1, a.spoken)
	b := fmt.Appendf(nil, `{"cache_n":%d,"prompt_n":%d,"prompt_ms":%.3f,"prompt_per_token_ms":%.4f`, a.cached,
		a.prompt-a.cached, read, read/float64(n))
	b = fmt.Appendf(b, `,"prompt_per_second":%.3f,"predicted_n":%d,"predicted_ms":%.3f`, 1000*float64(n)/max(read, 0.001),
		a.spoken, wrote)
	return fmt.Appendf(b, `,"predicted_per_token_ms":%.4f,"predicted_per_second":%.3f}`, wrote/float64(m),
		1000*float64(m)/max(wrote, 0.001))
}

// said is a choice's whole message.
type said struct {
	text, thought []byte // as the insides of JSON strings
	calls         []byte // elements of tool_calls
	tokens        []textgen.Word
	finish        string
	stopped       string
}

// loadTime is how long an engine that loads on demand takes for a model that was not asked for
// before. The recorded router took as long for a tiny one.
const loadTime = 50 * time.Millisecond
