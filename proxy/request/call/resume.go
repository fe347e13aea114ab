package call

import (
	"time"

	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/request/resume"
	"penstock/proxy/request/retry"
	"penstock/translate/chat"
	"penstock/translate/sse"
	"penstock/upstreams"
)

// resumer has another engine go on with a stream whose engine was lost after a part of the answer
// was shown. Like a call that leaves a vanished host it is apart from the budget of retries: an
// engine is lost with all of its streams at a time.
type resumer struct{ call *Call }

// keeping returns the codec of a stream. Where the stream may be resumed it keeps what it is given.
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

// able reports whether the stream could be resumed as far as it has come, so that its request is
// still needed.
func (r resumer) able() bool {
	t := &r.call.tries
	if t.kept == nil || !t.kept.Keeps() || t.sends.Resumes >= r.call.config.model.Config.Retry.Resume {
		return false
	}
	t.kept.Yields()
	return t.kept.Keeps()
}

// forget lets go of what is kept of the stream, which is resumed no more.
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

// resume asks another engine to go on with a stream that allows it. Its results are those of
// dispatcher.ask.
func (r resumer) resume(f *failure.Failure) (after *failure.Failure, asked bool) {
	c, d, now := r.call, dispatcher(r), time.Now()
	d.giveUp(f, false, now)
	c.tries.exclude(c.tries.upstream)
	c.tries.excluded = r.unfit(c.tries.excluded)
	c.tries.kept.Begun().GoOn(c.request.Chat())
	c.times.addAwaited(now)
	if after, asked = d.ask(now); !asked {
		return f, false // that there is no room elsewhere is not news to the client
	}
	c.tries.sends.Note(retry.Resume)
	c.tries.kept.NextEngine()
	c.shared.Counters.Resumed.Inc()
	return after, true
}

// unfit appends the engines that cannot go on with what is kept.
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

// leaveEvery is how often a stream looks for a slot beside a drained engine.
const leaveEvery = time.Second

// leaves reports whether a stream that goes on leaves its engine, whose drain time is over, for one
// that goes on with it and for which a slot has been taken.
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

// fullLength is the end of an answer whose tokens had all come when its engine was lost.
var fullLength = sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`)}

// finish ends a stream well whose engine was lost when it had only the end left to say: as many
// tokens have come as there may be.
func (r resumer) finish(dst []byte, f *failure.Failure) (out []byte, ok bool) {
	kept := r.call.tries.kept
	if !f.EngineLost() || !r.allows(time.Now()) {
		return dst, false
	}
	limit := r.call.request.Chat().Tokens.Left(kept.Tokens())
	if limit != 0 {
		return dst, false
	}
	out, err := kept.Append(dst, fullLength)
	if err == nil {
		out, err = kept.Finish(out)
	}
	return out, err == nil
}
