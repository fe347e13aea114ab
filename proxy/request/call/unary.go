package call

import (
	"errors"
	"slices"
	"time"

	"penstock/config/instant"
	"penstock/proxy/request/attempt"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/routing/turns"
	"penstock/translate"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// unary makes a whole answer from the engine's whole reply.
type unary struct {
	call  *Call
	codec endpoint.Unary // nil until the reply's head has arrived
}

// try reads the engine's whole reply and answers with it. An engine that can cancel only streams is
// asked for a stream, so its reply is assembled first. A relay sends a reply that takes longer than
// stream.whole_keepalive, and a large reply that is only passed on.
func (u *unary) try() *failure.Failure {
	c := u.call
	out, err := u.await(u.firstWhitespace())
	switch {
	case err == nil:
	case errors.Is(err, http1.ErrNotYet):
		commitWhitespace(*u)
		return nil
	case errors.Is(err, attempt.ErrLarge):
		passOn, out, err := u.beginPassOn()
		if err != nil {
			return c.attempt.FailureOf(err)
		}
		now := time.Now()
		c.record.TTFT = now.Sub(c.record.Start)
		c.noteOverhead(now)
		c.releaseRequest()
		commit(relay{call: c, form: formPassedOn, out: out, passOn: passOn}, u.codec.MediaType())
		return nil
	default:
		return c.attempt.FailureOf(err)
	}
	c.times.endAt = time.Now()
	c.record.TTFT = c.times.endAt.Sub(c.record.Start)
	c.noteOverhead(c.times.endAt)
	c.noteCounted()
	c.endAttempt(upstreams.OutcomeOK)
	if body := (*out)[chunkRoom:]; len(body) <= attempt.MaxPooled {
		answer{c}.whole(out, body, u.codec.MediaType())
	} else {
		answer{c}.deliver(out, u.codec.MediaType())
	}
	return nil
}

// firstWhitespace returns the time at which the edge first sends white space to show the client
// that a whole answer is under way. Zero means never. The time counts from the start of the call,
// because balancers count from the start, too. Audio and text have no meaningless white space, and
// HTTP/1.0 has no chunks.
func (u *unary) firstWhitespace() time.Time {
	c := u.call
	d := c.config.snapshot.Config.Stream.WholeKeepalive.D()
	if d <= 0 || !c.client.http11 || !c.request.AnswersJSON() {
		return time.Time{}
	}
	return c.record.Start.Add(d)
}

// await makes the client's answer from the engine's whole reply. It returns a buffer with chunkRoom
// bytes and then the answer. await returns http1.ErrNotYet if the time until passes first; call it
// again to continue. It returns attempt.ErrLarge for a reply that is to be passed on as it arrives.
// Any other error is for FailureOf.
func (u *unary) await(until time.Time) (*[]byte, error) {
	c := u.call
	if err := c.attempt.AwaitHead(until); err != nil {
		return nil, err
	}
	if c.attempt.Reply.IsUnread() {
		u.codec = c.request.Unary(c.answerOf())
	}
	completion, err := c.attempt.ReadWhole(until, u.codec, c.client.http11)
	if err != nil {
		return nil, err
	}
	return u.translate(completion)
}

// translate makes the client's answer from a completion. It reserves the completion's size first,
// and then corrects the reservation to the answer's size.
func (u *unary) translate(completion []byte) (*[]byte, error) {
	c := u.call
	out := attempt.NewBuffer()
	if n := chunkRoom + len(completion) + attempt.OutMore; n > max(cap(*out), attempt.MaxPooled) {
		if err := c.memory.Hold(attempt.PartOut, n); err != nil {
			attempt.Recycle(out)
			return nil, err
		}
		*out = make([]byte, 0, n)
	}
	answer, err := u.codec.Append((*out)[:chunkRoom], completion, c.attempt.Reply.Head())
	*out = answer
	c.noteUsage(u.codec.Usage(), u.codec.Markup())
	if err == nil {
		err = c.memory.HoldOut(cap(answer))
	}
	if err != nil {
		attempt.Recycle(out)
		c.memory.Free(attempt.PartOut)
		return nil, err
	}
	return out, nil
}

// beginPassOn starts a large answer with the bytes that have been read.
func (u *unary) beginPassOn() (*endpoint.PassOn, *[]byte, error) {
	a := &u.call.attempt
	passOn, out := u.codec.PassOn(a.Reply.Head()), attempt.NewBuffer()
	var err error
	if *out, err = a.Reply.BeginPassOn((*out)[:chunkRoom], passOn); err != nil {
		attempt.Recycle(out)
		return nil, nil, err
	}
	return passOn, out, nil
}

// noteUsage records the token usage that an answer has reported so far. For the metrics, it also
// records whether the engine let through markup that it should have parsed.
func (c *Call) noteUsage(u translate.Usage, m translate.Markup) {
	c.tokens.usage, c.record.Finish = u, u.Finish.String()
	if u.Known { // before the slot is freed, so that the right key gets the slot
		c.tries.turn.Book(turns.Weight(u.Prompt-u.Cached, u.Completion))
	}
	if m != 0 {
		c.record.Markup = m.String()
	}
	if u.CutToolCalls && !slices.Contains(c.record.Dropped, endpoint.DroppedToolCalls) {
		c.record.Dropped = append(c.record.Dropped, endpoint.DroppedToolCalls)
	}
}

// noteCounted reports the engine's count of the prompt to package routing.
func (c *Call) noteCounted() {
	if u := &c.tokens.usage; u.Known {
		c.attempt.Counted(u.Prompt, u.Cached)
	}
}

// noteOverhead computes the time that the edge itself took before the first byte of the answer.
// Waits for the client's body, for a slot and for engines do not count. A form has no measurable
// overhead, because it is sent to the engine while it arrives.
func (c *Call) noteOverhead(now time.Time) {
	if c.ep.Form {
		return
	}
	progress := c.attempt.Reply.Progress()
	heard := progress.ReadAt()
	if c.record.Stream && !progress.Begun {
		heard = instant.Of(now) // committed without an event
	}
	waited := c.body.Waited() + c.record.Queue + c.times.awaited + heard.Since(instant.Of(c.times.asked))
	c.record.Overhead = now.Sub(c.record.Start) - waited
}
