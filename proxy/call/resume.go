package call

import (
	"time"

	"penstock/proxy/endpoint"
	"penstock/proxy/failure"
	"penstock/proxy/resume"
	"penstock/translate/chat"
	"penstock/translate/sse"
	"penstock/upstreams"
)

// resumer has another engine go on with a stream whose engine was lost after a part of the answer
// was shown. Like a call that leaves a vanished host it is apart from the budget of retries: an
// engine is lost with all of its streams at a time.
type resumer struct {
	call *Call
	kept *resume.Stream // nil: the stream is not one that can be resumed
}

// keeping returns the codec of a stream, and what is kept of it where it may be resumed.
func keeping(c *Call, codec endpoint.Stream) (endpoint.Stream, *resume.Stream) {
	if c.config.model.Config.Retry.Resume == 0 {
		return codec, nil
	}
	if r := c.request.Chat(); r == nil || !chat.Continues(r) {
		return codec, nil
	}
	kept := resume.Wrap(codec, c.shared.Bodies)
	return kept, kept
}

// able reports whether the stream could be resumed as far as it has come, so that its request is
// still needed.
func (r resumer) able() bool {
	if r.kept == nil || !r.kept.Keeps() || r.call.tries.resumes >= r.call.config.model.Config.Retry.Resume {
		return false
	}
	r.kept.Yields()
	return r.kept.Keeps()
}

// allows reports whether the stream may be resumed after a failure.
func (r resumer) allows(f *failure.Failure, now time.Time) bool {
	c := r.call
	total := c.config.model.Clocks.Total.D()
	return f.EngineLost() && r.able() && r.kept.Said() && !r.kept.Finished() && !c.poison.blocked(now) &&
		(total == 0 || now.Before(c.record.Start.Add(total)))
}

// resume asks another engine to go on. Its results are those of dispatcher.ask.
func (r resumer) resume(f *failure.Failure) (after *failure.Failure, asked bool) {
	c, d, now := r.call, dispatcher{r.call}, time.Now()
	if !r.allows(f, now) {
		return f, false
	}
	d.giveUp(f, false, now)
	c.tries.exclude(c.tries.upstream)
	targets := c.config.model.Route.Targets()
	for i := range targets {
		if !r.fits(targets[i].Upstream) {
			c.tries.exclude(targets[i].Upstream)
		}
	}
	r.kept.Begun().GoOn(c.request.Chat())
	c.times.addAwaited(now)
	if after, asked = d.ask(now); !asked {
		return f, false // that there is no room elsewhere is not news to the client
	}
	c.tries.resumes++
	r.kept.NextEngine()
	c.shared.Counters.Resumed.Inc()
	return after, true
}

// fits reports whether an engine can go on with what is kept.
func (r resumer) fits(u *upstreams.Upstream) bool {
	return upstreams.ContinuesAnswers(u) && !(r.kept.Thought() && u.Engine().Reasoning().History == "")
}

// fullLength is the end of an answer whose tokens had all come when its engine was lost.
var fullLength = sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`)}

// finish ends a stream well whose engine was lost when it had only the end left to say: as many
// tokens have come as there may be.
func (r resumer) finish(dst []byte, f *failure.Failure) (out []byte, ok bool) {
	if !r.allows(f, time.Now()) {
		return dst, false
	}
	limit := r.call.request.Chat().Tokens.Left(r.kept.Usage().Completion)
	if limit != 0 {
		return dst, false
	}
	out, err := r.kept.Append(dst, fullLength)
	if err == nil {
		out, err = r.kept.Finish(out)
	}
	return out, err == nil
}
