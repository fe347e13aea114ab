package call

import (
	"time"

	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/resume"
	"penstock/routing"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// Another engine can continue a stream whose engine was lost. A resume does not use the retry
// budget, because all streams of an engine are lost at the same time.

// recorded wraps the codec of a stream that may be resumed, so that the stream's events are
// recorded. If the stream cannot be resumed, it returns codec unchanged.
func (c *Call) recorded(codec endpoint.Stream) endpoint.Stream {
	if c.config.model.Config.Retry.Resume == 0 {
		return codec
	}
	if r := c.request.Chat(); r == nil || !chat.Continues(r) {
		return codec
	}
	c.tries.recording = resume.Record(codec, c.shared.Bodies)
	return c.tries.recording
}

// resumable reports whether the stream can still be resumed. If memory is short, it releases the
// recording, so that the stream cannot be resumed (resume.Recording.Usable). As long as it returns
// true, the request must not be released.
func (c *Call) resumable() bool {
	return c.tries.sends.Resumes < c.config.model.Config.Retry.Resume && c.tries.recording.Usable()
}

// mayResume reports whether another engine may continue the stream now. Like resumable, it may
// release the recording.
func (c *Call) mayResume(now time.Time) bool {
	total := c.config.model.Clocks.Total.D()
	return c.resumable() && c.tries.recording.HasNewText() && !c.tries.recording.Finished() && !c.poison.blocked(now) &&
		(total == 0 || now.Before(c.record.Start.Add(total)))
}

// appendCannotContinue appends the ids of the targets that cannot continue an answer. reasoned is
// true if the answer contains reasoning.
func appendCannotContinue(ids []upstreams.ID, targets []routing.Target, reasoned bool) []upstreams.ID {
	for i := range targets {
		u := targets[i].Upstream
		if !upstreams.ContinuesAnswers(u) || reasoned && u.Engine().Reasoning().History == "" {
			ids = append(ids, u.ID())
		}
	}
	return ids
}

// leaveEvery is how often a stream on a drained engine tries to acquire a slot at another engine.
const leaveEvery = time.Second

// leavesDrained reports whether the stream leaves its engine because the engine's drain time has
// passed. It returns true only if it has acquired a slot at another engine.
func (c *Call) leavesDrained() bool {
	t := &c.tries
	if t.recording == nil || !upstreams.HandsOver(t.upstream) {
		return false
	}
	now := time.Now()
	if now.Sub(t.lookedAt) < leaveEvery {
		return false
	}
	t.lookedAt = now
	return c.Leave()
}
