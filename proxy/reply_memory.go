package proxy

import (
	"errors"

	"penstock/proxy/limit"
	"penstock/proxy/observe"
	"penstock/translate/apierr"
	"penstock/upstreams"
)

// What calls hold of their engines' replies is bounded, as request bodies are: 100 bytes of a
// request can have an engine, or whoever speaks in its place, answer with megabytes. A call holds
// up to freeReply without asking. Beyond it each buffer is reserved before it is made, as large as
// it is to be, and by what has come, never by what a length announces.

const (
	freeReply = 64 << 10
	// leastState is what is reserved for the state of a stream at least, once there is much of it.
	leastState = 64 << 10
)

// replyPart is what a call holds memory for.
type replyPart uint8

const (
	replyBody  replyPart = iota // the engine's whole reply, or its complaint
	replyEvent                  // the reader's buffer for the events of a stream
	replyState                  // what a stream's events are put together to
	replyOut                    // what the client is to get
	replyParts
)

// replyHold is what one call has reserved. Its zero value holds nothing; it belongs to the call's
// goroutine.
type replyHold struct {
	budget   *limit.Memory
	parts    [replyParts]int64
	held     int64 // the sum of parts
	reserved int64
}

// errNoReplyMemory ends an attempt for which there is no memory. Nobody is to blame for it.
var errNoReplyMemory = errors.New("no memory for the engine's reply")

// hold says that a part takes n bytes from now on. It fails, and changes nothing, when that is more
// than before and there is no room. What it takes less is garbage.
func (h *replyHold) hold(part replyPart, n int) error {
	held := h.held + int64(n) - h.parts[part]
	if held > freeReply || h.reserved > 0 {
		want := max(held-freeReply, 0)
		switch more := want - h.reserved; {
		case more > 0 && !h.budget.Reserve(more):
			return errNoReplyMemory
		case more < 0:
			h.budget.Discard(-more)
		}
		h.reserved = want
	}
	h.held, h.parts[part] = held, int64(n)
	return nil
}

// replace is hold for a buffer of n bytes that takes the place of the part's last one: both are
// there while one is copied into the other, and the last one is garbage then.
func (h *replyHold) replace(part replyPart, n int) error {
	old := h.parts[part]
	if err := h.hold(part, int(old)+n); err != nil {
		return err
	}
	return h.hold(part, n)
}

// give gives a part back.
func (h *replyHold) give(part replyPart) { _ = h.hold(part, 0) }

// handOver gives all parts but one up, and leaves that one's reservation to the caller, who is to
// release it.
func (h *replyHold) handOver(part replyPart) (reserved int64) {
	for p := range replyParts {
		if p != part {
			h.give(p)
		}
	}
	reserved = h.reserved
	h.parts[part], h.held, h.reserved = 0, 0, 0
	return reserved
}

// release gives everything back. Further calls do nothing.
func (h *replyHold) release() {
	for p := range replyParts {
		h.give(p)
	}
}

// Hold implements sse.Budget for the events of the attempt's reply.
func (a *attempt) Hold(n int) error { return a.call.reply.replace(replyEvent, n) }

// holdState reserves for what the stream has put together so far. It is half as much again, as
// buffers that grow are larger than what is in them, and so that a long text reserves now and then
// and not per event.
func (c *Call) holdState(n int) error {
	if n < leastState/2 || int64(n) <= c.reply.parts[replyState] {
		return nil
	}
	return c.reply.hold(replyState, max(n+n/2, leastState))
}

// growReply returns buf with room for more, but for no more than most bytes. Above freeReply it
// doubles, whatever a length announces, and the memory is reserved first.
func (c *Call) growReply(buf []byte, most int) ([]byte, error) {
	size := max(most, len(buf)+1)
	if size > freeReply {
		size = min(size, max(2*cap(buf), minReplyBuffer))
	}
	if err := c.reply.replace(replyBody, size); err != nil {
		return buf, err
	}
	return append(make([]byte, 0, size), buf...), nil
}

// minReplyBuffer is the least that a buffer of a reply grows to.
const minReplyBuffer = 4 << 10

// codeReplyMemory is the code of a refusal for want of memory for the engine's reply, which is no
// engine's doing.
const codeReplyMemory = "no_reply_memory"

// replyMemoryFull is the end of an attempt whose reply finds no memory. Another engine's reply
// would find none either.
func replyMemoryFull() *failure {
	e := apierr.New(503, codeReplyMemory, "The memory for engines' replies is exhausted. Retry shortly.")
	e.RetryAfter = jitter(retrySoon)
	return &failure{api: e, outcome: upstreams.OutcomeClientGone, result: observe.Limited}
}
