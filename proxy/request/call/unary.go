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

// tryUnary reads the engine's complete response and answers with it. If the engine can cancel only
// streams, the request to the engine asked for a stream, and tryUnary assembles the response from
// the stream. A relay writes the answer if it takes longer than stream.whole_keepalive, or if it is
// large and needs no translation.
func (c *Call) tryUnary() *failure.Failure {
	var codec endpoint.UnaryAnswer // nil until the response headers arrive
	out, err := c.awaitUnary(c.firstWhitespaceAt(), &codec)
	switch {
	case err == nil:
	case errors.Is(err, http1.ErrNoBytesYet):
		commitWhitespace(c, codec)
		return nil
	case errors.Is(err, attempt.ErrLargeReply):
		passOn, out, err := beginPassthrough(&c.attempt.Reply, codec)
		if err != nil {
			return c.attempt.ClassifyError(err)
		}
		now := time.Now()
		c.record.TTFT = now.Sub(c.record.Start)
		c.recordOverhead(now)
		c.releaseRequest()
		commitRelay(relay{call: c, form: answerKindPassthrough, out: out, passthrough: passOn}, codec.MediaType())
		return nil
	default:
		return c.attempt.ClassifyError(err)
	}
	c.times.endAt = time.Now()
	c.record.TTFT = c.times.endAt.Sub(c.record.Start)
	c.recordOverhead(c.times.endAt)
	c.recordEnginePromptTokens()
	c.endAttempt(upstreams.OutcomeOK)
	if body := (*out)[chunkPrefixLen:]; len(body) <= attempt.MaxPooled {
		c.answerBuffered(out, body, codec.MediaType())
	} else {
		c.answerLargeBody(out, codec.MediaType())
	}
	return nil
}

// firstWhitespaceAt returns the time at which the first white space is sent if the answer is not
// complete by that time. Like the timeouts of load balancers, the interval starts with the call.
// The result is zero if no white space may be sent. White space would corrupt audio and text, and
// HTTP/1.0 has no chunks.
func (c *Call) firstWhitespaceAt() time.Time {
	d := c.config.snapshot.Config.Stream.WholeKeepalive.D()
	if d <= 0 || !c.client.isHTTP11 || !c.request.AnswersJSON() {
		return time.Time{}
	}
	return c.record.Start.Add(d)
}

// awaitUnary waits until the given time for the engine's complete response. It returns a buffer
// with chunkPrefixLen bytes followed by the client's answer. When the response headers arrive, it
// creates the codec.
//
// After http1.ErrNoBytesYet, awaitUnary may be called again. attempt.ErrLargeReply means that the
// response must be relayed while it arrives. ClassifyError classifies all other errors.
func (c *Call) awaitUnary(until time.Time, codec *endpoint.UnaryAnswer) (*[]byte, error) {
	if err := c.attempt.AwaitHead(until); err != nil {
		return nil, err
	}
	if c.attempt.Reply.IsBodyUnread() {
		*codec = c.request.NewUnaryAnswer(c.callInfo())
	}
	completion, err := c.attempt.ReadFullResponse(until, *codec, c.client.isHTTP11)
	if err != nil {
		return nil, err
	}
	return c.translateUnary(completion, *codec)
}

// translateUnary translates a completion into the client's answer. It first reserves as much memory
// as the completion occupies, and corrects the reservation after the translation.
func (c *Call) translateUnary(completion []byte, codec endpoint.UnaryAnswer) (*[]byte, error) {
	out := attempt.NewBuffer()
	if n := chunkPrefixLen + len(completion) + attempt.AnswerBufferHeadroom; n > max(cap(*out), attempt.MaxPooled) {
		if err := c.memory.SetPartSize(attempt.ClientOutputMemory, n); err != nil {
			attempt.RecycleBuffer(out)
			return nil, err
		}
		*out = make([]byte, 0, n)
	}
	answer, err := codec.AppendAnswer((*out)[:chunkPrefixLen], completion, c.attempt.Reply.Head())
	*out = answer
	c.recordUsage(codec.Usage(), codec.UnparsedMarkup())
	if err == nil {
		err = c.memory.SetOutSize(cap(answer))
	}
	if err != nil {
		attempt.RecycleBuffer(out)
		c.memory.FreePart(attempt.ClientOutputMemory)
		return nil, err
	}
	return out, nil
}

// beginPassthrough starts to relay a large response. It returns a buffer with chunkPrefixLen bytes
// followed by the first bytes for the client.
func beginPassthrough(reply *attempt.Reply, codec endpoint.UnaryAnswer) (*endpoint.ReplyPassthrough, *[]byte, error) {
	passOn, out := codec.NewPassthrough(reply.Head()), attempt.NewBuffer()
	var err error
	if *out, err = reply.BeginPassthrough((*out)[:chunkPrefixLen], passOn); err != nil {
		attempt.RecycleBuffer(out)
		return nil, nil, err
	}
	return passOn, out, nil
}

// recordUsage records the token usage of an answer. For metrics, it also records markup that the
// engine failed to parse.
func (c *Call) recordUsage(u translate.Usage, m translate.Markup) {
	c.tokens.usage, c.record.Finish = u, u.Finish.String()
	// The charge must be set before the slot is released, because it decides which key gets the
	// slot.
	if u.Known {
		c.attemptState.turn.SetCharge(turns.ServiceUnits(u.Prompt-u.Cached, u.Completion))
	}
	if m != 0 {
		c.record.Markup = m.String()
	}
	if u.CutToolCalls && !slices.Contains(c.record.Dropped, endpoint.DroppedToolCalls) {
		c.record.Dropped = append(c.record.Dropped, endpoint.DroppedToolCalls)
	}
}

func (c *Call) recordEnginePromptTokens() {
	if u := &c.tokens.usage; u.Known {
		c.attempt.RecordPromptTokens(u.Prompt, u.Cached)
	}
}

// recordOverhead measures the time that the edge itself needs before the first byte of the answer.
// Time spent waiting for the client's body, for a slot and for engines does not count. Calls with
// forms are not measured, because a form is sent while it arrives.
func (c *Call) recordOverhead(now time.Time) {
	if c.ep.Form {
		return
	}
	progress := c.currentAttemptProgress()
	heard := progress.ReadAt()
	if c.record.Stream && !progress.Begun {
		heard = instant.FromTime(now) // the stream was committed before the first event
	}
	waited := c.body.ClientWait() + c.record.Queue + c.times.earlierWait + heard.Sub(instant.FromTime(c.times.stepStart))
	c.record.Overhead = now.Sub(c.record.Start) - waited
}
