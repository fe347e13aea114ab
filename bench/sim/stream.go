package sim

import (
	"time"

	"penstock/bench/sim/textgen"
	"penstock/bench/sim/wire"
)

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
	a.s.nullUsage = x.p.is("sglang tgi") || x.p.family == "openai" && a.q.usage
	x.content = func(text string) []byte {
		if a.voice != nil {
			return []byte(`{"type":"ping"}`)
		}
		p := piece{kind: pieceText, Word: textgen.NewWord(text)}
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

// step says the next token of a choice, and its end after the last one. False: the stream is over
// before its time.
func (a *answer) step(i int, c *generationPlan) bool {
	x := a.x
	if a.voice != nil {
		return a.voice.step(c)
	}
	first := !c.opened
	x.join(x.p.joins)
	if x.p.family == "sglang" {
		a.s.created = x.now()
	}
	if first && !a.s.legacy && x.p.roles == roleAlone {
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
				one.logprobs = a.logprobs([]textgen.Word{p.Word})
			}
			// no end of text, so no chunk of its own
			if x.p.family == "tgi" && c.left == 0 && c.finish == "length" && !x.t.noFinish {
				c.closed, one.finish = true, c.finish
				return a.send(&one)
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
	x.delta = a.s.appendEnd(x.delta[:0])
	end := chunk{index: i, delta: x.delta, finish: c.finish, stopped: c.stopped}
	if x.p.family == "llamacpp" && a.over() {
		if a.s.legacy && a.q.usage { // there it has no chunk of its own
			end.usage = a.usage()
		}
		if a.s.legacy || !a.usageChunk() {
			end.timings = a.timings()
		}
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

// usageChunk reports whether a chunk with usage and no choices comes last. llama.cpp has none for
// completions.
func (a *answer) usageChunk() bool {
	t := &a.x.t
	return t.usage == usageUnasked || a.q.usage && t.usage != usageOnFinish && !(a.s.legacy && a.x.p.family == "llamacpp")
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
	if a.voice != nil {
		if a.voice.done() && x.incidents() {
			a.release()
			x.finish()
		}
		return
	}
	if x.t.ghost {
		was := a.s.model
		a.s.model = ""
		if !a.send(&chunk{delta: []byte(`{"content":""}`)}) {
			return
		}
		a.s.model = was
	}
	if a.usageChunk() && !x.t.noFinish {
		var timings []byte
		if x.p.family == "llamacpp" {
			timings = a.timings()
		}
		if !x.event(a.s.appendUsageChunk(nil, a.usage(), timings)) {
			return
		}
	}
	if x.p.family == "llamacpp" { // [DONE] has a chunk of its own there
		x.join(false)
	}
	if !x.t.noDone && !x.event(wire.Done) {
		return
	}
	x.join(false)
	if !x.incidents() {
		return
	}
	a.release()
	x.finish()
}

func (a *answer) logprobs(ws []textgen.Word) []byte {
	if a.s.legacy {
		b := []byte(`{"text_offset":[],"tokens":[`)
		for i, w := range ws {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, '"')
			b = append(b, w.Escaped...)
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
