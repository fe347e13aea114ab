package sim

import (
	"time"

	"penstock/bench/sim/generate"
	"penstock/bench/sim/profile"
)

// flushThreshold is the number of bytes that are collected before they are written, if the engine
// has no token rate.
const flushThreshold = 4096

// streamChoices sends the choices in parallel, token by token.
func (a *answer) streamChoices() {
	x := a.x
	if !x.out.headWritten {
		x.beginEventStream()
	}
	x.stream.content = a.writer.contentChunkJSON
	tick := a.first
	for step := 0; ; step++ {
		gap := a.tokenGap()
		if step > 0 && gap > 0 {
			tick = tick.Add(gap)
			if d := time.Until(tick); d > 0 {
				if !x.out.flush() || !x.client.pause(d) {
					return
				}
			}
		} else if step == 1 || len(x.out.out) >= flushThreshold {
			if x.client.hasLeft() || !x.out.flush() {
				return
			}
		}
		if step > 0 && !a.waitStallOrPreemption(&tick) {
			return
		}
		live := false
		for i := range a.choices {
			c := &a.choices[i]
			if c.Closed {
				continue
			}
			live = true
			if !a.sendNextToken(i, c) {
				return
			}
		}
		if !live || allClosed(a.choices) {
			break
		}
	}
	if a.writer.endStream() && x.injectIncidents() {
		a.releaseSlot()
		x.finishBody()
	}
}

// allClosed reports whether every choice has ended.
func allClosed(choices []generate.ChoicePlan) bool {
	for i := range choices {
		if !choices[i].Closed {
			return false
		}
	}
	return true
}

// sendNextToken sends the next token of a choice. After the last token, it sends the end of the
// choice. It returns false if the stream ended early.
func (a *answer) sendNextToken(i int, c *generate.ChoicePlan) bool {
	if !a.writer.beginChoice(i, c) {
		return false
	}
	if p, ok := c.Next(); ok {
		a.addTokens(1)
		if p.Kind == profile.PieceThought {
			a.state.Thought++
		}
		if !a.writer.writePiece(i, c, p) {
			return false
		}
	}
	a.x.stream.shareChunk(false)
	if c.Left > 0 || c.Closed {
		return true
	}
	c.Closed = true
	return a.x.t.NoFinish || a.writer.endChoice(i, c)
}

// sendUnstreamed sends the whole response when it is due.
func (a *answer) sendUnstreamed() {
	steps := 0
	for i := range a.choices {
		steps = max(steps, a.choices[i].Total)
	}
	if !a.waitUnstreamed(steps) || a.x.client.hasLeft() {
		return
	}
	body := a.writer.renderUnstreamed(a.choices)
	a.releaseSlot()
	a.x.replyJSON(body)
}
