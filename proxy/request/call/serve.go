package call

import (
	"errors"
	"time"

	"penstock/config/instant"
	"penstock/proxy/request/attempt"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/upstreams/http1"
)

// obtainAnswer sends the call to engines until there are bytes for the client. It returns nil once
// it has passed the complete answer or a relay to fasthttp.
func (c *Call) obtainAnswer() *failure.Failure {
	if c.fingerprint.isBlocked(c.record.Start) {
		return failure.Poisoned()
	}
	result, f := c.sendFirstAttempt(c.times.stepStart)
	for result == sendResultSent {
		if f = c.awaitAnswer(); f == nil {
			c.clearPoison()
			return nil
		}
		result, f = c.retryAfterFailure(f)
	}
	if result == sendResultQueued {
		c.commitBeforeSend()
	}
	return f
}

// awaitAnswer waits for an answer and passes it to fasthttp. If the attempt fails, awaitAnswer
// returns the failure.
func (c *Call) awaitAnswer() *failure.Failure {
	if c.record.Stream {
		return c.tryStream()
	}
	return c.tryUnary()
}

func (c *Call) callInfo() endpoint.CallInfo {
	return endpoint.CallInfo{
		Model: c.config.model.Config, RequestID: c.requestID(), Created: c.record.Start,
		PromptTokens: c.tokens.estimatedPrompt, Streamed: c.attempt.RequestedStream(),
	}
}

// tryStream commits the stream when the first event has arrived or stream.commit_after has passed.
func (c *Call) tryStream() *failure.Failure {
	a := &c.attempt
	stream := c.wrapRecording(c.request.NewStream(c.callInfo()))
	var commit instant.Time
	if after := c.config.snapshot.Config.Stream.CommitAfter.D(); after > 0 && stream.HasInBandErrors() {
		commit = a.Reply.Progress().SentAt().Add(after)
	}
	if err := a.AwaitHead(commit.StdTime()); err == nil {
		if a.Reply.WouldBlock() {
			a.Reply.WaitForBytes(commit, nil)
		}
	} else if !errors.Is(err, http1.ErrNoBytesYet) {
		return a.ClassifyError(err)
	}
	out := attempt.NewBuffer()
	first, done, err := a.PullStream((*out)[:chunkPrefixLen], commit, stream)
	*out = first
	switch {
	case err == nil:
	case errors.Is(err, http1.ErrNoBytesYet):
		appendKeepalive(stream, out, &c.memory)
	default:
		attempt.RecycleBuffer(out)
		c.memory.FreePart(attempt.ClientOutputMemory)
		c.attemptState.recording.Release()
		return a.ClassifyError(err)
	}
	commitStream(c, stream, out, done)
	return nil
}

// commitBeforeSend commits a stream before the call is sent to an engine. The relay then continues
// to wait for a slot.
func (c *Call) commitBeforeSend() {
	c.times.stepStart = time.Now()
	stream := c.wrapRecording(c.slots.slotWait.keepaliveStream)
	out := newOutBuffer()
	appendKeepalive(stream, out, &c.memory)
	commitStream(c, stream, out, false)
}
