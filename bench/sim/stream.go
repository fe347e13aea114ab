package sim

import (
	"time"

	"penstock/bench/sim/dialect"
	"penstock/bench/sim/generate"
	"penstock/bench/sim/profile"
)

// answerWriter tells an answer in a dialect. False: there is no stream any more.
type answerWriter interface {
	begin(i int, c *generate.Plan) bool
	piece(i int, c *generate.Plan, p profile.Piece) bool
	end(i int, c *generate.Plan) bool
	done() bool                       // what comes last
	whole(all []generate.Plan) []byte // a plain answer
	content(text string) []byte       // an event that says text
}

func newWriter(a *answer, legacy bool) answerWriter {
	if w := dialect.NewWriter(a.x.dialect, &a.told); w != nil {
		return nativeWriter{w}
	}
	return newChatWriter(a, legacy)
}

// nativeWriter is a writer of another dialect. It has one choice.
type nativeWriter struct{ w *dialect.Writer }

func (n nativeWriter) begin(int, *generate.Plan) bool { return n.w.Begin() }

func (n nativeWriter) piece(_ int, _ *generate.Plan, p profile.Piece) bool { return n.w.Piece(&p) }

func (n nativeWriter) end(_ int, c *generate.Plan) bool { return n.w.End(c.Finish, c.Stopped) }

func (n nativeWriter) done() bool { return n.w.Done() }

func (n nativeWriter) whole(all []generate.Plan) []byte {
	return n.w.Whole(all[0].Next, all[0].Finish, all[0].Stopped)
}

func (n nativeWriter) content(string) []byte { return []byte(`{"type":"ping"}`) }

// flushAt is how much a stream without a rate gathers before it writes.
const flushAt = 4096

// streamed says the choices token by token, side by side.
func (a *answer) streamed() {
	x := a.x
	if !x.out.headed {
		x.sse()
	}
	x.stream.content = a.writer.content
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
			if c.Closed {
				continue
			}
			live = true
			if !a.step(i, c) {
				return
			}
		}
		if !live || over(a.choices) {
			break
		}
	}
	if a.writer.done() && x.incidents() {
		a.release()
		x.finish()
	}
}

// over reports that every choice has said all.
func over(choices []generate.Plan) bool {
	for i := range choices {
		if !choices[i].Closed {
			return false
		}
	}
	return true
}

// step says the next token of a choice, and its end after the last one. False: the stream is over
// before its time.
func (a *answer) step(i int, c *generate.Plan) bool {
	if !a.writer.begin(i, c) {
		return false
	}
	if p, ok := c.Next(); ok {
		a.say(1)
		if p.Kind == profile.PieceThought {
			a.told.Thought++
		}
		if !a.writer.piece(i, c, p) {
			return false
		}
	}
	a.x.stream.join(false)
	if c.Left > 0 || c.Closed {
		return true
	}
	c.Closed = true
	return a.x.t.NoFinish || a.writer.end(i, c)
}

// plain says everything at once, when it is time.
func (a *answer) plain() {
	steps := 0
	for i := range a.choices {
		steps = max(steps, a.choices[i].Total)
	}
	if !a.think(steps) || a.x.client.hasLeft() {
		return
	}
	body := a.writer.whole(a.choices)
	a.release()
	a.x.json(200, body)
}
