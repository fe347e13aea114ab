package sim

import (
	"time"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/textgen"
	"penstock/bench/sim/wire"
)

// flushAt is how much a stream without a rate gathers before it writes.
const flushAt = 4096

// streamed says the choices token by token, side by side.
func (a *answer) streamed() {
	x := a.x
	if !x.out.headed {
		x.sse()
	}
	if x.t.Usage == fault.UsageNever {
		a.q.usage, a.q.usageEach = false, false
	}
	if x.t.Usage == fault.UsageEvery {
		a.q.usageEach = true
	}
	a.s.NullUsage = x.p.Is("sglang tgi") || x.p.Family == "openai" && a.q.usage
	x.stream.content = func(text string) []byte {
		if a.voice != nil {
			return []byte(`{"type":"ping"}`)
		}
		p := profile.Piece{Kind: profile.PieceText, Word: textgen.NewWord(text)}
		return a.s.Append(nil, &profile.Chunk{Delta: a.s.AppendPiece(nil, &p, nil, false)})
	}
	tick := a.first
	for step := 0; ; step++ {
		gap := a.gap()
		if step > 0 && gap > 0 {
			tick = tick.Add(gap)
			if d := time.Until(tick); d > 0 {
				if !x.out.flush() || !x.client.pause(d) {
					return
				}
			}
		} else if step == 1 || len(x.out.out) >= flushAt {
			if x.client.hasLeft() || !x.out.flush() {
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
	x.stream.join(x.p.Joins)
	if x.p.Family == "sglang" {
		a.s.Created = now()
	}
	if first && !a.s.Legacy && x.p.Roles == profile.RoleAlone {
		c.opened = true
		x.stream.delta = a.s.AppendRole(x.stream.delta[:0])
		if !a.send(&profile.Chunk{Index: i, Delta: x.stream.delta}) {
			return false
		}
	}
	if p, ok := c.next(); ok {
		a.say(1)
		if p.Kind == profile.PieceThought {
			a.thought++
		}
		if p.Kind != profile.PieceThought || !a.q.hush {
			var of *profile.ToolCall
			if p.Kind >= profile.PieceCall {
				of = &a.q.calls[p.Call]
			}
			x.stream.delta = a.s.AppendPiece(x.stream.delta[:0], &p, of, !c.opened && !a.s.Legacy)
			c.opened = true
			one := profile.Chunk{Index: i, Delta: x.stream.delta}
			if a.q.logprobs && p.Kind == profile.PieceText {
				one.Logprobs = a.logprobs([]textgen.Word{p.Word})
			}
			// no end of text, so no chunk of its own
			if x.p.Family == "tgi" && c.left == 0 && c.finish == "length" && !x.t.NoFinish {
				c.closed, one.Finish = true, c.finish
				return a.send(&one)
			}
			if !a.send(&one) {
				return false
			}
		}
	}
	x.stream.join(false)
	if c.left > 0 {
		return true
	}
	c.closed = true
	if x.t.NoFinish {
		return true
	}
	x.stream.join(x.p.Joins) // with the usage chunk, if this choice is the last
	x.stream.delta = a.s.AppendEnd(x.stream.delta[:0])
	end := profile.Chunk{Index: i, Delta: x.stream.delta, Finish: c.finish, Stopped: c.stopped}
	if x.p.Family == "llamacpp" && a.over() {
		if a.s.Legacy && a.q.usage { // there it has no chunk of its own
			end.Usage = a.usage()
		}
		if a.s.Legacy || !a.usageChunk() {
			end.Timings = a.timings()
		}
	}
	if x.t.Usage == fault.UsageOnFinish && a.over() {
		end.Usage = a.usage()
	}
	ok := a.send(&end)
	if !a.over() {
		x.stream.join(false)
	}
	return ok
}

// usageChunk reports whether a chunk with usage and no choices comes last. llama.cpp has none for
// completions.
func (a *answer) usageChunk() bool {
	t := &a.x.t
	return t.Usage == fault.UsageUnasked || a.q.usage && t.Usage != fault.UsageOnFinish && !(a.s.Legacy && a.x.p.Family == "llamacpp")
}

func (a *answer) send(c *profile.Chunk) bool {
	if a.q.usageEach && len(c.Usage) == 0 {
		c.Usage = a.usage()
	}
	a.x.stream.chunk = a.s.Append(a.x.stream.chunk[:0], c)
	return a.x.event("", a.x.stream.chunk)
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
	if x.t.Ghost {
		was := a.s.Model
		a.s.Model = ""
		if !a.send(&profile.Chunk{Delta: []byte(`{"content":""}`)}) {
			return
		}
		a.s.Model = was
	}
	if a.usageChunk() && !x.t.NoFinish {
		var timings []byte
		if x.p.Family == "llamacpp" {
			timings = a.timings()
		}
		if !x.event("", a.s.AppendUsageChunk(nil, a.usage(), timings)) {
			return
		}
	}
	if x.p.Family == "llamacpp" { // [DONE] has a chunk of its own there
		x.stream.join(false)
	}
	if !x.t.NoDone && !x.event("", wire.Done) {
		return
	}
	x.stream.join(false)
	if !x.incidents() {
		return
	}
	a.release()
	x.finish()
}

func (a *answer) logprobs(ws []textgen.Word) []byte {
	if a.s.Legacy {
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
	return profile.AppendLogprobs(nil, ws, a.q.tops)
}
