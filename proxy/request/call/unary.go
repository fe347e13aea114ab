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

// tryWhole reads the engine's complete response and answers with it. If the engine can cancel only
// streams, the request to the engine asked for a stream, and tryWhole assembles the response from
// the stream. A relay writes the answer if it takes longer than stream.whole_keepalive, or if it is
// large and needs no translation.
func (c *Call) tryWhole() *failure.Failure {
	var codec endpoint.Unary // nil until the response headers arrive
	out, err := c.awaitWhole(c.firstWhitespace(), &codec)
	switch {
	case err == nil:
	case errors.Is(err, http1.ErrNotYet):
		commitWhitespace(c, codec)
		return nil
	case errors.Is(err, attempt.ErrLarge):
		passOn, out, err := c.beginPassOn(codec)
		if err != nil {
			return c.attempt.FailureOf(err)
		}
		now := time.Now()
		c.record.TTFT = now.Sub(c.record.Start)
		c.noteOverhead(now)
		c.releaseRequest()
		commit(relay{call: c, form: formPassedOn, out: out, passOn: passOn}, codec.MediaType())
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
		c.answerWhole(out, body, codec.MediaType())
	} else {
		c.answerLarge(out, codec.MediaType())
	}
	return nil
}

// firstWhitespace returns when the first white space is sent if the answer is not complete by then.
// The time counts from the start of the call, like the timeouts of load balancers. It is zero if no
// white space may be sent. White space would change audio and text, and HTTP/1.0 has no chunks.
func (c *Call) firstWhitespace() time.Time {
	d := c.config.snapshot.Config.Stream.WholeKeepalive.D()
	if d <= 0 || !c.client.http11 || !c.request.AnswersJSON() {
		return time.Time{}
	}
	return c.record.Start.Add(d)
}

// awaitWhole waits until the given time for the engine's complete response. It returns a buffer
// with chunkRoom bytes followed by the client's answer. When the response headers arrive, it
// creates the codec.
//
// After http1.ErrNotYet, awaitWhole may be called again. attempt.ErrLarge means that the response
// must be relayed while it arrives. FailureOf converts other errors.
func (c *Call) awaitWhole(until time.Time, codec *endpoint.Unary) (*[]byte, error) {
	if err := c.attempt.AwaitHead(until); err != nil {
		return nil, err
	}
	if c.attempt.Reply.IsUnread() {
		*codec = c.request.Unary(c.callInfo())
	}
	completion, err := c.attempt.ReadWhole(until, *codec, c.client.http11)
	if err != nil {
		return nil, err
	}
	return c.translateWhole(completion, *codec)
}

// translateWhole translates a completion into the client's answer. It first reserves as much memory
// as the completion occupies, and corrects the reservation afterwards.
func (c *Call) translateWhole(completion []byte, codec endpoint.Unary) (*[]byte, error) {
	out := attempt.NewBuffer()
	if n := chunkRoom + len(completion) + attempt.OutMore; n > max(cap(*out), attempt.MaxPooled) {
		if err := c.memory.Hold(attempt.PartOut, n); err != nil {
			attempt.Recycle(out)
			return nil, err
		}
		*out = make([]byte, 0, n)
	}
	answer, err := codec.Append((*out)[:chunkRoom], completion, c.attempt.Reply.Head())
	*out = answer
	c.noteUsage(codec.Usage(), codec.Markup())
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

func (c *Call) beginPassOn(codec endpoint.Unary) (*endpoint.PassOn, *[]byte, error) {
	a := &c.attempt
	passOn, out := codec.PassOn(a.Reply.Head()), attempt.NewBuffer()
	var err error
	if *out, err = a.Reply.BeginPassOn((*out)[:chunkRoom], passOn); err != nil {
		attempt.Recycle(out)
		return nil, nil, err
	}
	return passOn, out, nil
}

// noteUsage records the token usage of an answer. For metrics, it also records markup that the
// engine failed to parse.
func (c *Call) noteUsage(u translate.Usage, m translate.Markup) {
	c.tokens.usage, c.record.Finish = u, u.Finish.String()
	if u.Known { // must happen before the slot is released, so that the right key gets the slot
		c.tries.turn.Book(turns.Weight(u.Prompt-u.Cached, u.Completion))
	}
	if m != 0 {
		c.record.Markup = m.String()
	}
	if u.CutToolCalls && !slices.Contains(c.record.Dropped, endpoint.DroppedToolCalls) {
		c.record.Dropped = append(c.record.Dropped, endpoint.DroppedToolCalls)
	}
}

func (c *Call) noteCounted() {
	if u := &c.tokens.usage; u.Known {
		c.attempt.Counted(u.Prompt, u.Cached)
	}
}

// noteOverhead measures the time that the edge itself needs before the first byte of the answer.
// Time spent waiting for the client's body, for a slot and for engines does not count. Calls with
// forms are not measured, because a form is sent while it arrives.
func (c *Call) noteOverhead(now time.Time) {
	if c.ep.Form {
		return
	}
	progress := c.attempt.Reply.Progress()
	heard := progress.ReadAt()
	if c.record.Stream && !progress.Begun {
		heard = instant.Of(now) // the stream was committed before the first event
	}
	waited := c.body.Waited() + c.record.Queue + c.times.awaited + heard.Since(instant.Of(c.times.begun))
	c.record.Overhead = now.Sub(c.record.Start) - waited
}
