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

// serve sends the call to engines until there are bytes for the client. It returns nil once it has
// passed the answer to fasthttp, either complete or as a relay.
func (c *Call) serve() *failure.Failure {
	if c.poison.blocked(c.record.Start) {
		return failure.Poisoned()
	}
	result, f := c.firstAttempt(c.times.begun)
	for result == sent {
		if f = c.handOver(); f == nil {
			c.clearPoison()
			return nil
		}
		result, f = c.nextAttempt(f)
	}
	if result == waiting {
		c.commitWaiting()
	}
	return f
}

// handOver waits for an answer and passes it to fasthttp. If the attempt fails, handOver returns
// the failure.
func (c *Call) handOver() *failure.Failure {
	if c.record.Stream {
		return c.tryStream()
	}
	return c.tryWhole()
}

func (c *Call) callInfo() endpoint.CallInfo {
	return endpoint.CallInfo{
		Model: c.config.model.Config, RequestID: c.client.requestID, Created: c.record.Start,
		PromptTokens: c.tokens.prompt, Streamed: c.attempt.RequestedStream(),
	}
}

// tryStream commits the stream when the first event has arrived or stream.commit_after has passed.
func (c *Call) tryStream() *failure.Failure {
	a := &c.attempt
	stream := c.recorded(c.request.Stream(c.callInfo()))
	var commit instant.Time
	if after := c.config.snapshot.Config.Stream.CommitAfter.D(); after > 0 && stream.InBand() {
		commit = a.Reply.Progress().SentAt().After(after)
	}
	if err := a.AwaitHead(commit.Std()); err == nil {
		if a.Reply.Rests() {
			a.Reply.Rest(commit, nil)
		}
	} else if !errors.Is(err, http1.ErrNotYet) {
		return a.FailureOf(err)
	}
	out := attempt.NewBuffer()
	first, done, err := a.Pull((*out)[:chunkRoom], commit, stream)
	*out = first
	switch {
	case err == nil:
	case errors.Is(err, http1.ErrNotYet):
		c.keepalive(stream, out)
	default:
		attempt.Recycle(out)
		c.memory.Free(attempt.PartOut)
		c.tries.recording.Release()
		return a.FailureOf(err)
	}
	commitStream(c, stream, out, done)
	return nil
}

// commitWaiting commits a stream before the call reaches an engine. The relay continues the wait
// for a slot.
func (c *Call) commitWaiting() {
	c.times.begun = time.Now()
	stream := c.recorded(c.tries.wait.stream)
	out := newOut()
	c.keepalive(stream, out)
	commitStream(c, stream, out, false)
}
