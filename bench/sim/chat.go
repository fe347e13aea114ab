package sim

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// chat answers POST /v1/chat/completions.
func (e *Engine) chat(x *exchange) {
	q := chatRequests.Get().(*chatRequest)
	defer chatRequests.Put(q)
	p := parsers.Get()
	v, err := parseJSON(p, x.req.body)
	if err == nil {
		err = e.decodeChat(x, v, q)
	}
	parsers.Put(p)
	x.free()
	if err != nil {
		x.fail(*err)
		return
	}
	if x.misbehave() {
		return
	}
	e.generate(x, q, shape{})
}

// answer is one request for text on its way through the engine.
type answer struct {
	e      *Engine
	x      *exchange
	q      *chatRequest
	s      shape
	stream bool

	prompt, cached int
	limit          int // most tokens a choice may have
	choices        []script
	spoken         int // tokens said by all choices so far
	thought        int

	arrived, admitted, first time.Time
	tenant                   *tenant // nil: no slot
}

// generate takes a request through the queue, the prefill and the decoding.
func (e *Engine) generate(x *exchange, q *chatRequest, s shape) {
	a := &answer{e: e, x: x, q: q, s: s, stream: q.stream, prompt: q.prompt.tokens()}
	switch x.t.flip {
	case "sse":
		a.stream = true
	case "json":
		a.stream = false
	}
	if err := a.fit(); err != nil {
		x.fail(*err)
		return
	}
	a.s.p, a.s.model, a.s.created = x.p, q.model, x.now()
	if a.s.id == "" {
		a.s.id = x.p.answerID(e.nextID())
	}
	defer a.release()
	if !a.enter() || !a.prefill() {
		return
	}
	a.choices = make([]script, q.n)
	for i := range a.choices {
		a.choices[i] = newScript(x, q, i, a.limit)
	}
	a.first = time.Now()
	e.times.ttft.observe(a.first.Sub(a.arrived))
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
	x.stubborn = e.o.CancelOnlyStreams && !a.q.stream
	t, err := e.slots.enter(x.gone(), a.prompt)
	if err != nil {
		if errors.Is(err, errGone) {
			x.lost = true
		} else {
			a.full()
		}
		return false
	}
	a.tenant, a.admitted = t, time.Now()
	e.times.queue.observe(a.admitted.Sub(a.arrived))
	if x.t.hold {
		x.hang()
		return false
	}
	return true
}

// release gives the slot back; the second call does nothing.
func (a *answer) release() {
	if a.tenant == nil {
		return
	}
	a.e.slots.leave(a.tenant)
	a.tenant = nil
	a.e.times.e2e.observe(time.Since(a.arrived))
}

// say counts tokens.
func (a *answer) say(n int) {
	a.spoken += n
	a.e.slots.grow(a.tenant, n)
	a.e.counters.generated.Add(int64(n))
}

// fit checks the request against the context and sets the limit.
func (a *answer) fit() *apiError {
	size, want := a.e.o.MaxModelLen, a.q.max
	room := size - a.prompt
	a.limit = room
	if want >= 0 {
		a.limit = want
	}
	over := room <= 0 || want > room
	if a.x.p.overrun {
		over = room <= 0
		a.limit = min(a.limit, room)
	}
	if !over {
		return nil
	}
	err := &apiError{status: 400, param: "messages"}
	switch a.x.p.name {
	case "llamacpp", "ollama":
		err.message = fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", a.prompt, size)
		err.kind = "exceed_context_size_error"
		err.extra = fmt.Sprintf(`,"n_prompt_tokens":%d,"n_ctx":%d`, a.prompt, size)
		if a.x.p.name == "ollama" { // the runner's answer, as text inside of its own
			*err = apiError{status: 400, message: string(profiles["llamacpp"].appendError(nil, *err))}
		}
	case "sglang":
		err.param = ""
		err.message = fmt.Sprintf("Requested token count exceeds the model's maximum context length of %d tokens. You requested a total of %d tokens: %d tokens from the input messages and %d tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.",
			size, a.prompt+max(want, 0), a.prompt, max(want, 0))
	case "openai":
		err.code = "context_length_exceeded"
		err.message = fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.",
			size, a.prompt)
	default:
		err.param = "input_tokens"
		if room <= 0 {
			err.message = fmt.Sprintf("This model's maximum context length is %d tokens. However, your request has %d input tokens. Please reduce the length of the input messages.",
				size, a.prompt)
		} else {
			err.param = "max_tokens"
			err.message = fmt.Sprintf("'max_tokens' or 'max_completion_tokens' is too large: %d. This model's maximum context length is %d tokens and your request has %d input tokens (%d > %d - %d).",
				want, size, a.prompt, want, size, a.prompt)
		}
	}
	return err
}

// full answers a request that found no place in the queue.
func (a *answer) full() {
	err := apiError{status: 503}
	switch a.x.p.name {
	case "sglang":
		err.message = "The request queue is full."
		if a.stream {
			a.x.sse()
			a.x.streamError(err, true)
			return
		}
	case "llamacpp":
		err.message = "no slot available"
	case "ollama":
		err.message = "server busy, please try again.  maximum pending requests exceeded"
	case "openai":
		err.message = "The engine is currently overloaded, please try again later"
	default:
		err.message = "The server is overloaded: the maximum number of queued requests is reached. Please try again later."
	}
	a.x.fail(err)
}

// prefill spends the time until the first token. False: the client left.
func (a *answer) prefill() bool {
	x, e := a.x, a.e
	a.cached = e.cache.cached(a.q.prompt.blocks, a.prompt)
	due, read := a.readyAt(a.prompt - a.cached)
	if a.stream && x.p.headFirst && (time.Until(due) > 0 || x.t.dripHead > 0) {
		x.sse()
		if !x.flush() {
			return false
		}
	}
	for ping := x.p.ping; ping > 0 && x.headed && time.Until(due) > ping; {
		if !x.pause(ping) {
			e.reader.forgo(read, due)
			return false
		}
		x.comment()
		if !x.flush() {
			return false
		}
	}
	if !x.pauseUntil(due) || !e.strain.stand(x) {
		e.reader.forgo(read, due)
		return false
	}
	e.cache.insert(a.q.prompt.blocks)
	e.counters.prompted.Add(int64(a.prompt))
	e.counters.cached.Add(int64(a.cached))
	return true
}

func (a *answer) usage() []byte {
	thought := 0
	for i := range a.choices {
		thought += a.choices[i].thought
	}
	return a.x.p.appendUsage(nil, a.prompt, a.spoken, a.cached, min(thought, a.spoken))
}

func (a *answer) timings() []byte {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	read, wrote := ms(a.first.Sub(a.admitted)), ms(time.Since(a.first))
	n, m := max(1, a.prompt-a.cached), max(1, a.spoken)
	b := fmt.Appendf(nil, `{"cache_n":%d,"prompt_n":%d,"prompt_ms":%.3f,"prompt_per_token_ms":%.4f`, a.cached, a.prompt-a.cached, read, read/float64(n))
	b = fmt.Appendf(b, `,"prompt_per_second":%.3f,"predicted_n":%d,"predicted_ms":%.3f`, 1000*float64(n)/max(read, 0.001), a.spoken, wrote)
	return fmt.Appendf(b, `,"predicted_per_token_ms":%.4f,"predicted_per_second":%.3f}`, wrote/float64(m), 1000*float64(m)/max(wrote, 0.001))
}

// flushAt is how much a stream without a rate gathers before it writes.
const flushAt = 4096

// streamed says the choices token by token, side by side.
func (a *answer) streamed() {
	x := a.x
	if !x.headed {
		x.sse()
	}
	if x.t.usage == usageNever {
		a.q.usage, a.q.usageEach = false, false
	}
	if x.t.usage == usageEvery {
		a.q.usageEach = true
	}
	a.s.nullUsage = x.p.name == "sglang" || x.p.name == "openai" && a.q.usage
	x.content = func(text string) []byte {
		p := piece{kind: pieceText, word: newWord(text)}
		return a.s.append(nil, &chunk{delta: a.s.appendPiece(nil, &p, nil, false)})
	}
	tick := a.first
	for step := 0; ; step++ {
		gap := a.gap()
		if step > 0 && gap > 0 {
			tick = tick.Add(gap)
			if d := time.Until(tick); d > 0 {
				if !x.flush() || !x.pause(d) {
					return
				}
			}
		} else if step == 1 || len(x.out) >= flushAt {
			if x.hasLeft() || !x.flush() {
				return
			}
		}
		if step > 0 && !a.keep(&tick) {
			return
		}
		live := false
		for i := range a.choices {
			c := &a.choices[i]
			if c.closed {
				continue
			}
			live = true
			if !a.step(i, c) {
				return
			}
		}
		if !live || a.over() {
			break
		}
	}
	a.conclude()
}

// over reports that every choice has said all.
func (a *answer) over() bool {
	for i := range a.choices {
		if !a.choices[i].closed {
			return false
		}
	}
	return true
}

// step says the next token of a choice, and its end after the last one. False: the stream is over before its time.
func (a *answer) step(i int, c *script) bool {
	x := a.x
	first := !c.opened
	x.join(x.p.joins)
	if x.p.name == "sglang" {
		a.s.created = x.now()
	}
	if first && !a.s.legacy && x.p.name != "ollama" {
		c.opened = true
		x.delta = a.s.appendRole(x.delta[:0])
		if !a.send(&chunk{index: i, delta: x.delta}) {
			return false
		}
	}
	if p, ok := c.next(); ok {
		a.say(1)
		if p.kind == pieceThought {
			a.thought++
		}
		if p.kind != pieceThought || !a.q.hush {
			var of *call
			if p.kind >= pieceCall {
				of = &a.q.calls[p.call]
			}
			x.delta = a.s.appendPiece(x.delta[:0], &p, of, !c.opened && !a.s.legacy)
			c.opened = true
			one := chunk{index: i, delta: x.delta}
			if a.q.logprobs && p.kind == pieceText {
				one.logprobs = a.logprobs([]word{p.word})
			}
			if !a.send(&one) {
				return false
			}
		}
	}
	x.join(false)
	if c.left > 0 {
		return true
	}
	c.closed = true
	if x.t.noFinish {
		return true
	}
	x.join(x.p.joins) // with the usage chunk, if this choice is the last
	x.delta = append(x.delta[:0], "{}"...)
	switch {
	case a.s.legacy:
		x.delta = append(x.delta[:0], `""`...)
	case x.p.name == "vllm":
		x.delta = append(x.delta[:0], `{"content":""}`...)
	case x.p.name == "sglang":
		x.delta = append(x.delta[:0], `{"role":null,"content":null,"reasoning_content":null,"tool_calls":null}`...)
	}
	end := chunk{index: i, delta: x.delta, finish: c.finish, stopped: c.stopped}
	if x.p.name == "llamacpp" {
		end.timings = a.timings()
	}
	if x.t.usage == usageOnFinish && a.over() {
		end.usage = a.usage()
	}
	ok := a.send(&end)
	if !a.over() {
		x.join(false)
	}
	return ok
}

func (a *answer) send(c *chunk) bool {
	if a.q.usageEach && len(c.usage) == 0 {
		c.usage = a.usage()
	}
	a.x.chunk = a.s.append(a.x.chunk[:0], c)
	return a.x.event(a.x.chunk)
}

// conclude ends a stream.
func (a *answer) conclude() {
	x := a.x
	if x.t.ghost {
		was := a.s.model
		a.s.model = ""
		if !a.send(&chunk{delta: []byte(`{"content":""}`)}) {
			return
		}
		a.s.model = was
	}
	usage := a.q.usage && x.t.usage != usageOnFinish || x.t.usage == usageUnasked
	if usage && !x.t.noFinish && !x.event(a.s.appendUsageChunk(nil, a.usage())) {
		return
	}
	if x.p.name == "llamacpp" { // [DONE] has a chunk of its own there
		x.join(false)
	}
	if !x.t.noDone && !x.event(doneMark) {
		return
	}
	x.join(false)
	if !x.incidents() {
		return
	}
	a.release()
	x.finish()
}

func (a *answer) logprobs(ws []word) []byte {
	if a.s.legacy {
		b := []byte(`{"text_offset":[],"tokens":[`)
		for i, w := range ws {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, '"')
			b = append(b, w.esc...)
			b = append(b, '"')
		}
		b = append(b, `],"token_logprobs":[`...)
		for i := range ws {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, "-0.25"...)
		}
		return append(b, `],"top_logprobs":null}`...)
	}
	return appendLogprobs(nil, ws, a.q.tops)
}

// said is a choice's whole message.
type said struct {
	text, thought []byte // as the insides of JSON strings
	calls         []byte // elements of tool_calls
	tokens        []word
	finish        string
	stopped       string
}

// plain says everything at once, when it is time.
func (a *answer) plain() {
	x := a.x
	steps := 0
	for i := range a.choices {
		steps = max(steps, a.choices[i].total)
	}
	if !a.think(steps) || x.hasLeft() {
		return
	}
	all := make([]said, len(a.choices))
	for i := range a.choices {
		all[i] = a.collect(&a.choices[i])
	}
	usage := a.usage()
	if x.t.usage == usageNever {
		usage = nil
	}
	body := a.body(all, usage)
	a.release()
	x.json(200, body)
}

// collect runs a script to its end.
func (a *answer) collect(c *script) said {
	m := said{finish: c.finish, stopped: c.stopped}
	args := make([][]byte, len(a.q.calls))
	begun := make([]bool, len(a.q.calls))
	for p, ok := c.next(); ok; p, ok = c.next() {
		switch p.kind {
		case pieceText:
			m.text = append(m.text, p.esc...)
			if a.q.logprobs {
				m.tokens = append(m.tokens, p.word)
			}
		case pieceThought:
			if !a.q.hush {
				m.thought = append(m.thought, p.esc...)
			}
		case pieceWhole:
			begun[p.call] = true
			args[p.call] = appendEscaped(nil, a.q.calls[p.call].args)
		default:
			begun[p.call] = true
			args[p.call] = append(args[p.call], p.esc...)
		}
	}
	for i, is := range begun {
		if !is {
			continue
		}
		if len(m.calls) > 0 {
			m.calls = append(m.calls, ',')
		}
		m.calls = a.appendCall(m.calls, i, args[i])
	}
	return m
}

func (a *answer) appendCall(dst []byte, i int, args []byte) []byte {
	c := &a.q.calls[i]
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, c.id)
	if a.x.p.name == "ollama" || a.x.p.name == "sglang" {
		dst = append(dst, `,"index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
	}
	dst = append(dst, `,"type":"function","function":{"name":`...)
	dst = appendString(dst, c.name)
	dst = append(dst, `,"arguments":"`...)
	dst = append(dst, args...)
	return append(dst, `"}}`...)
}

// body writes a plain answer.
func (a *answer) body(all []said, usage []byte) []byte {
	object := "chat.completion"
	if a.s.legacy {
		object = "text_completion"
	}
	dst := []byte{'{'}
	if a.x.p.name != "llamacpp" {
		dst = a.s.appendHead(dst, object)
		dst = append(dst, ',')
	}
	dst = append(dst, `"choices":[`...)
	for i := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = a.appendChoice(dst, i, &all[i])
	}
	dst = append(dst, ']')
	if a.x.p.name == "llamacpp" {
		dst = append(dst, ',')
		dst = a.s.appendTail(dst, object)
	}
	if usage != nil {
		dst = append(dst, `,"usage":`...)
		dst = append(dst, usage...)
	}
	switch a.x.p.name {
	case "vllm":
		dst = append(dst, `,"prompt_logprobs":null,"kv_transfer_params":null`...)
	case "llamacpp":
		dst = append(dst, `,"timings":`...)
		dst = append(dst, a.timings()...)
	}
	return append(dst, '}')
}

func (a *answer) appendChoice(dst []byte, i int, m *said) []byte {
	p := a.x.p
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(i), 10)
	if a.s.legacy {
		dst = append(dst, `,"text":"`...)
		dst = append(dst, m.text...)
		dst = append(dst, '"')
	} else {
		dst = append(dst, `,"message":{"role":"assistant","content":`...)
		if len(m.calls) > 0 && len(m.text) == 0 && p.name != "llamacpp" && p.name != "ollama" {
			dst = append(dst, "null"...)
		} else {
			dst = append(dst, '"')
			dst = append(dst, m.text...)
			dst = append(dst, '"')
		}
		if p.name == "openai" || p.name == "vllm" {
			dst = append(dst, `,"refusal":null`...)
		}
		if p.name == "vllm" {
			dst = append(dst, `,"annotations":null,"audio":null,"function_call":null`...)
		}
		if len(m.calls) > 0 || p.name == "vllm" {
			dst = append(dst, `,"tool_calls":[`...)
			dst = append(dst, m.calls...)
			dst = append(dst, ']')
		}
		if len(m.thought) > 0 {
			dst = append(dst, `,"`...)
			dst = append(dst, p.reasoning...)
			dst = append(dst, `":"`...)
			dst = append(dst, m.thought...)
			dst = append(dst, '"')
		} else if p.name == "vllm" {
			dst = append(dst, `,"`...)
			dst = append(dst, p.reasoning...)
			dst = append(dst, `":null`...)
		}
		dst = append(dst, '}')
	}
	var logprobs []byte
	if a.q.logprobs && len(m.calls) == 0 {
		logprobs = a.logprobs(m.tokens)
	}
	if len(logprobs) > 0 || p.name != "ollama" && p.name != "llamacpp" || a.s.legacy {
		dst = append(dst, `,"logprobs":`...)
		dst = appendOrNull(dst, logprobs)
	}
	dst = append(dst, `,"finish_reason":`...)
	dst = appendFinish(dst, m.finish)
	switch p.name {
	case "vllm":
		dst = append(dst, `,"stop_reason":`...)
		dst = appendFinish(dst, m.stopped)
	case "sglang":
		dst = append(dst, `,"matched_stop":`...)
		dst = appendFinish(dst, m.stopped)
	}
	return append(dst, '}')
}
