package sim

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/generate"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/scheduler"
)

var (
	parserPool  fastjson.ParserPool
	requestPool = sync.Pool{New: func() any { return new(generate.Request) }}
)

func newDecoder(x *exchange) *generate.Decoder {
	e := x.e
	return &generate.Decoder{
		Profile: x.p, Faults: &x.t, Controls: &x.knobs, Seed: e.o.Seed, StrictSystem: e.o.StrictSystem,
		AlternateRoles: e.o.AlternateRoles, Efforts: e.o.Efforts,
		Priorities: e.o.Priorities,
		Served:     e.resolveModel, NextID: e.nextID,
	}
}

func serveChat(x *exchange) { serveTextGeneration(x, "", newDecoder(x).DecodeChat) }

type decodeFunc = func(*fastjson.Value, *generate.Request) *profile.APIError

// serveTextGeneration answers a text generation request in any dialect. For a legacy completion,
// legacy is the prefix of the completion id. Otherwise, legacy is empty.
func serveTextGeneration(x *exchange, legacy string, read decodeFunc) {
	q := requestPool.Get().(*generate.Request)
	defer requestPool.Put(q)
	p := parserPool.Get()
	v, err := generate.ParseBody(p, x.req.body)
	if err == nil {
		err = read(v, q)
	}
	parserPool.Put(p)
	x.releaseBody()
	if err != nil {
		x.replyError(*err)
		return
	}
	if !x.injectResponseFault() {
		processRequest(x, q, legacy)
	}
}

// withJSONBody passes the request's JSON body to do. If the body is not JSON, it answers with an
// error.
func withJSONBody(x *exchange, do func(v *fastjson.Value)) {
	p := parserPool.Get()
	defer parserPool.Put(p)
	v, err := generate.ParseBody(p, x.req.body)
	if err != nil {
		x.replyError(*err)
		return
	}
	do(v)
}

// answer is the state of a text generation request while the engine processes it.
type answer struct {
	e      *Engine
	x      *exchange
	q      *generate.Request
	state  responseState
	writer *chatWriter

	limit   int // maximum number of tokens in a choice
	choices []generate.ChoicePlan

	arrived, admitted, first time.Time
	slotHolder               *scheduler.SlotHolder // nil while the request has no slot
	// Releases the model loaded for the request; nil if none was loaded.
	releaseModel func()
}

// processRequest processes a request, which includes queueing, prefill and decoding.
func processRequest(x *exchange, q *generate.Request, id string) {
	e := x.e
	legacy := id != ""
	a := newAnswer(x, q)
	switch x.t.Flip {
	case fault.WrongFormatStream:
		a.state.Stream = true
	case fault.WrongFormatPlain:
		a.state.Stream = false
	}
	if err := a.checkContext(); err != nil {
		a.refuseRequest(*err, x.p.LongInBand)
		return
	}
	a.state.ID = id
	if id == "" {
		a.state.ID = x.p.AnswerID.FormatID(e.nextID())
	}
	defer a.releaseSlot()
	if !a.acquireSlot() || !a.waitPrefill() {
		return
	}
	d := newDecoder(x)
	a.choices = make([]generate.ChoicePlan, q.N)
	for i := range a.choices {
		a.choices[i] = d.PlanChoice(q, i, a.limit)
	}
	a.state.Calls, a.writer = q.Calls, newChatWriter(a, legacy)
	a.first = time.Now()
	e.times.ttft.Observe(a.first.Sub(a.arrived))
	if a.state.Stream {
		a.streamChoices()
	} else {
		a.sendUnstreamed()
	}
}

// newAnswer returns the state for a request whose prompt is known.
func newAnswer(x *exchange, q *generate.Request) *answer {
	a := &answer{e: x.e, x: x, q: q, limit: 1}
	a.state = responseState{
		Faults: &x.t, Model: q.Model, Created: unixNow(), Now: unixNow, Stream: q.Stream,
		Prompt: q.Prompt.Tokens(), Timings: a.timingsJSON, Event: x.sendEvent,
	}
	return a
}

// acquireSlot waits for a slot. If there is no slot for the request, it answers the client and
// returns false.
func (a *answer) acquireSlot() bool {
	x, e := a.x, a.e
	a.arrived = time.Now()
	x.client.stubborn = e.o.CancelOnlyStreams && !a.q.Stream
	var shared []uint64
	if e.o.CacheTokens > 0 {
		shared = a.q.Prompt.Blocks
	}
	t, err := e.slots.Acquire(x.client.stopSignal(), a.state.Prompt, shared, a.q.Prompt.Priority)
	if err != nil {
		if errors.Is(err, scheduler.ErrClientLeft) {
			x.client.lost = true
		} else {
			a.refuseRequest(x.p.QueueFullError(), x.p.FullInBand)
		}
		return false
	}
	a.slotHolder, a.admitted = t, time.Now()
	if x.p.Loads {
		cold := e.loaded.Load(a.q.Model)
		a.releaseModel = e.loaded.RegisterRequest(a.q.Model, x.c.reset)
		if cold && !x.client.pause(modelLoadTime) {
			return false
		}
	} else if slices.Contains(*e.adapters.Load(), a.q.Model) {
		a.releaseModel = e.loaded.RegisterRequest(a.q.Model, func() {})
	}
	e.times.queue.Observe(a.admitted.Sub(a.arrived))
	if x.t.Hold {
		x.client.waitUntilLeft()
		return false
	}
	return true
}

// releaseSlot frees the slot. Further calls have no effect.
func (a *answer) releaseSlot() {
	if a.slotHolder == nil {
		return
	}
	if a.releaseModel != nil {
		a.releaseModel()
	}
	a.e.slots.Release(a.slotHolder)
	a.slotHolder = nil
	a.e.times.e2e.Observe(time.Since(a.arrived))
}

// addTokens counts n generated tokens.
func (a *answer) addTokens(n int) {
	a.state.Spoken += n
	a.e.slots.AddTokens(a.slotHolder, n)
	a.e.counters.generated.Add(int64(n))
	a.e.counters.steps.Add(1)
}

// checkContext checks the request against the context length and sets the token limit.
func (a *answer) checkContext() *profile.APIError {
	size, want := a.e.o.MaxModelLen, a.q.Max
	room := size - a.state.Prompt
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
	err := a.e.pages.TooLongError(a.state.Prompt, want, size)
	return &err
}

// refuseRequest answers a request that is too long, or that arrived while the queue was full. If
// inBand is true and the client requested a stream, the error is sent in the stream, after status
// 200.
func (a *answer) refuseRequest(err profile.APIError, inBand bool) {
	if !inBand || !a.state.Stream {
		a.x.replyError(err)
		return
	}
	a.x.beginEventStream()
	a.x.sendStreamError(err, a.x.p.ErrorDone)
}

// waitPrefill waits until the first token is due. It returns false if the client left.
func (a *answer) waitPrefill() bool {
	x, e := a.x, a.e
	x.freeSlot = a.releaseSlot
	a.state.Cached = e.cache.Lookup(a.q.Prompt.Blocks, a.state.Prompt)
	if e.o.SharedPrefill {
		// Prompts are read in order, so later prompts will find the blocks of this prompt in the
		// cache.
		e.cache.Insert(a.q.Prompt.Blocks)
	}
	due, read := a.prefillEnd(a.state.Prompt - a.state.Cached)
	if x.t.Prefill > 0 {
		due, read = time.Now().Add(x.t.Prefill), 0
	}
	if a.state.Stream && x.p.HeadFirst && (time.Until(due) > 0 || x.t.DripHead > 0) {
		x.beginEventStream()
		if !x.out.flush() {
			return false
		}
	}
	for ping := x.p.Ping; ping > 0 && x.out.headWritten && time.Until(due) > ping; {
		if !x.client.pause(ping) {
			e.prefillLine.ReturnUnusedTime(read, due)
			return false
		}
		x.stream.appendComment()
		if !x.out.flush() {
			return false
		}
	}
	if !prefillChunks(a, due) || !x.client.pauseUntil(due) || !e.slowdown.waitStall(&x.out) {
		e.prefillLine.ReturnUnusedTime(read, due)
		return false
	}
	e.counters.steps.Add(1)
	e.cache.Insert(a.q.Prompt.Blocks)
	e.counters.prompted.Add(int64(a.state.Prompt))
	e.counters.cached.Add(int64(a.state.Cached))
	return true
}

// prefillChunks reads every chunk of the prompt except the last one. due is the time at which the
// whole prompt will have been read. It returns false if the client left.
func prefillChunks(a *answer, due time.Time) bool {
	gap := time.Until(due) / time.Duration(max(1, a.x.t.Chunks))
	for i := a.x.t.Chunks - 1; i > 0; i-- {
		if !a.x.client.pauseUntil(due.Add(-time.Duration(i)*gap)) || !a.e.slowdown.waitStall(&a.x.out) {
			return false
		}
		a.e.counters.steps.Add(1)
	}
	return true
}

func (a *answer) timingsJSON() []byte {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	read, wrote := ms(a.first.Sub(a.admitted)), ms(time.Since(a.first))
	n, m := max(1, a.state.Prompt-a.state.Cached), max(1, a.state.Spoken)
	b := fmt.Appendf(nil, `{"cache_n":%d,"prompt_n":%d,"prompt_ms":%.3f,"prompt_per_token_ms":%.4f`, a.state.Cached,
		a.state.Prompt-a.state.Cached, read, read/float64(n))
	b = fmt.Appendf(b, `,"prompt_per_second":%.3f,"predicted_n":%d,"predicted_ms":%.3f`, 1000*float64(n)/max(read, 0.001),
		a.state.Spoken, wrote)
	return fmt.Appendf(b, `,"predicted_per_token_ms":%.4f,"predicted_per_second":%.3f}`, wrote/float64(m),
		1000*float64(m)/max(wrote, 0.001))
}

// modelLoadTime is how long an on-demand engine takes to load a model. The recorded router took
// this long for a tiny model.
const modelLoadTime = 50 * time.Millisecond
