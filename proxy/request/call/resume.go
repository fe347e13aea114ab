package call

import (
	"time"

	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/resume"
	"penstock/translate/chat"
	"penstock/translate/sse"
	"penstock/upstreams"
)

// resumer lets another engine continue a stream whose engine was lost after the client had received
// some of the answer. Like a move away from a vanished host, a resume is not charged to the retry
// budget, because a lost engine loses all its streams at once.
type resumer struct{ call *Call }

// keeping wraps the codec of a stream that may be resumed, so that its input is recorded. It
// returns other codecs unchanged.
func keeping(c *Call, codec endpoint.Stream) endpoint.Stream {
	if c.config.model.Config.Retry.Resume == 0 {
		return codec
	}
	if r := c.request.Chat(); r == nil || !chat.Continues(r) {
		return codec
	}
	c.tries.kept = resume.Wrap(codec, c.shared.Bodies)
	return c.tries.kept
}

// able reports whether the stream could still be resumed. As long as it could, its request is kept.
func (r resumer) able() bool {
	t := &r.call.tries
	if t.kept == nil || !t.kept.Keeps() || t.sends.Resumes >= r.call.config.model.Config.Retry.Resume {
		return false
	}
	t.kept.Yields()
	return t.kept.Keeps()
}

// forget releases the record of a stream that will not be resumed.
func (r resumer) forget() {
	if kept := r.call.tries.kept; kept != nil {
		kept.Release()
	}
}

// allows reports whether the stream may be resumed now.
func (r resumer) allows(now time.Time) bool {
	c := r.call
	total := c.config.model.Clocks.Total.D()
	return r.able() && c.tries.kept.Said() && !c.tries.kept.Finished() && !c.poison.blocked(now) &&
		(total == 0 || now.Before(c.record.Start.Add(total)))
}

// unfit appends the engines that cannot continue the recorded part of the answer.
func (r resumer) unfit(to []upstreams.ID) []upstreams.ID {
	targets := r.call.config.model.Route.Targets()
	for i := range targets {
		u := targets[i].Upstream
		if !upstreams.ContinuesAnswers(u) || r.call.tries.kept.Thought() && u.Engine().Reasoning().History == "" {
			to = append(to, u.ID())
		}
	}
	return to
}

// leaveEvery is the interval at which a stream on a drained engine looks for a slot elsewhere.
const leaveEvery = time.Second

// leaves reports whether a running stream leaves its engine because the engine's drain time is
// over. If so, leaves has already taken a slot at an engine that continues the stream.
func (r resumer) leaves() bool {
	t := &r.call.tries
	if t.kept == nil || !upstreams.HandsOver(t.upstream) {
		return false
	}
	now := time.Now()
	if now.Sub(t.lookedAt) < leaveEvery {
		return false
	}
	t.lookedAt = now
	return picker(r).Leave()
}

// fullLength is the event that ends an answer whose tokens had all arrived when its engine was
// lost.
var fullLength = sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`)}

// complete reports whether the client has received as many tokens as its limit allows. If so, the
// lost engine had only the end left to send.
func (r resumer) complete() bool {
	return r.call.request.Chat().Tokens.Left(r.call.tries.kept.Tokens()) == 0
}

// finish ends a stream whose tokens have all arrived, in place of its lost engine.
func (r resumer) finish(dst []byte) (out []byte, ok bool) {
	kept := r.call.tries.kept
	out, err := kept.Append(dst, fullLength)
	if err == nil {
		out, err = kept.Finish(out)
	}
	return out, err == nil
}
