package chat

import (
	"bytes"

	"penstock/translate/sse"
)

// tally is what a stream has brought so far: which choices are there, which have ended, and the token counts. It is
// what Stream and Assembler have in common.
type tally struct {
	seen, finished [MaxChoices / 64]uint64
	choices        int // seen
	open           int // seen and not finished

	deltas  int // that carried something generated
	usage   Usage
	prompt  int  // tokens, by our own estimate
	settled bool // every choice has ended, and a chunk without choices told the usage: [DONE] is next
	ended   bool // [DONE] came, or what came after a whole answer is of no use
}

// whole reports whether every choice has its finish_reason. Choices are expected to be as many as were seen, and at
// least n, unless the engine has ended the stream itself: some give one choice whatever n is.
func (t *tally) whole(n int) bool {
	return t.open == 0 && t.choices > 0 && (t.ended || t.choices >= n)
}

// done reports whether nothing more is wanted from upstream.
func (t *tally) done(n int) bool {
	return t.ended || t.settled && t.whole(n)
}

// choice notes that the choice c was in a chunk and reports whether it was for the first time.
func (t *tally) choice(c *Choice) (first bool) {
	word, bit := c.Index/64, uint64(1)<<(c.Index%64)
	if first = t.seen[word]&bit == 0; first {
		t.seen[word] |= bit
		t.choices++
		t.open++
	}
	if c.Finished() && t.finished[word]&bit == 0 {
		t.finished[word] |= bit
		t.open--
	}
	return first
}

// count notes the token counts that a chunk tells, and reports whether its `usage` has any. What `usage` says is never
// overwritten by `timings`, which are of one choice.
func (t *tally) count(c *Chunk) bool {
	if u, ok := readUsage(c.usage); ok {
		t.usage = u
		t.settled = t.whole(0) && !c.choices.Index(0).Exists()
		return true
	}
	if u, ok := readTimings(c.timings); ok && (!t.usage.Known || t.usage.timed) {
		t.usage = u
	}
	return false
}

// total returns the usage so far; an estimate when the engine told none.
func (t *tally) total() Usage {
	switch u := t.usage; {
	case u.Known && u.timed && t.choices > 1: // of the last choice alone
		u.Completion = max(u.Completion, t.deltas)
		u.Total = u.Prompt + u.Completion
		return u
	case u.Known && t.open > 0 && u.Completion < t.deltas: // told at the beginning alone, and the end has not come
		u.Completion = t.deltas
		u.settle()
		return u
	case u.Known:
		return u
	}
	return estimate(t.deltas).of(t.prompt)
}

// what an event is, before it is parsed.
type eventKind uint8

const (
	eventChunk eventKind = iota
	eventNothing
	eventDone
	eventError
)

var (
	doneData  = []byte("[DONE]")
	errorName = []byte("error")
	pingName  = []byte("ping")
)

// kindOf tells the events that are no chunks apart. An event without data is not dispatched by clients either.
func kindOf(ev sse.Event) eventKind {
	if len(ev.Data) > 0 && ev.Data[0] == '{' && len(ev.Name) == 0 {
		return eventChunk
	}
	switch data := bytes.TrimSpace(ev.Data); {
	case bytes.Equal(ev.Name, errorName):
		return eventError
	case bytes.Equal(data, doneData):
		return eventDone
	case ev.Blank(), bytes.Equal(ev.Name, pingName): // gateways before engines keep connections alive so
		return eventNothing
	}
	return eventChunk
}

// begin looks at an event before anything else does. It returns true when the event is a chunk, now parsed into c. An
// answer that is whole stays whole whatever comes behind it: an error or nonsense then ends the stream, no more.
func (t *tally) begin(c *Chunk, ev sse.Event, n int) (bool, error) {
	if t.done(n) {
		return false, nil
	}
	var err error
	switch kindOf(ev) {
	case eventChunk:
		if err = c.Parse(ev.Data); err == nil {
			return true, nil
		}
	case eventNothing:
		return false, nil
	case eventDone:
		t.ended = true
		return false, nil
	case eventError:
		e := ParseEngineError(0, "", ev.Data)
		err = &e
	}
	if t.whole(n) {
		t.ended = true
		return false, nil
	}
	return false, err
}

// delta makes c a choice of a chunk, whose Body is the delta; only one that ends may lack it.
func (c *Choice) delta() error {
	c.choose(c.piece, c.message)
	if c.Body.IsObject() || c.Finished() && (c.Body.IsNull() || !c.Body.Exists()) {
		return nil
	}
	return bad(noDelta)
}
