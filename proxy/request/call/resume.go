package call

import (
	"time"

	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/resume"
	"penstock/translate/chat"
	"penstock/translate/sse"
	"penstock/upstreams"
)

// resumer lets another engine continue a stream whose engine was lost. A resume does not use the
// retry budget, because all streams of an engine are lost at the same time.
type resumer struct{ call *Call }

// keeping wraps the codec of a stream that may be resumed, so that the stream's events are
// recorded. If the stream cannot be resumed, it returns codec unchanged.
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

// able reports whether the stream can still be resumed. If memory is short, able releases the
// record of the stream, which then cannot be resumed. As long as able returns true, the request
// must not be released.
func (r resumer) able() bool {
	t := &r.call.tries
	if t.kept == nil || !t.kept.Keeps() || t.sends.Resumes >= r.call.config.model.Config.Retry.Resume {
		return false
	}
	t.kept.Yields()
	return t.kept.Keeps()
}

func (r resumer) forget() {
	if kept := r.call.tries.kept; kept != nil {
		kept.Release()
	}
}

func (r resumer) allows(now time.Time) bool {
	c := r.call
	total := c.config.model.Clocks.Total.D()
	return r.able() && c.tries.kept.Said() && !c.tries.kept.Finished() && !c.poison.blocked(now) &&
		(total == 0 || now.Before(c.record.Start.Add(total)))
}

// unfit appends the ids of engines that cannot continue the recorded part of the answer.
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

// leaveEvery is how often a stream on a drained engine tries to acquire a slot at another engine.
const leaveEvery = time.Second

// leaves reports whether the stream leaves its engine because the engine's drain time has passed.
// It returns true only if it has acquired a slot at another engine.
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

// fullLength is the event that ends an answer whose engine was lost after the last token.
var fullLength = sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`)}

// complete reports whether the client has received as many tokens as the request allows. In that
// case, the lost engine only had to end the stream.
func (r resumer) complete() bool {
	return r.call.request.Chat().Tokens.Left(r.call.tries.kept.Tokens()) == 0
}

func (r resumer) finish(dst []byte) (out []byte, ok bool) {
	kept := r.call.tries.kept
	out, err := kept.Append(dst, fullLength)
	if err == nil {
		out, err = kept.Finish(out)
	}
	return out, err == nil
}
