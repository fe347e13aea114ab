package call

import (
	"sync/atomic"
	"time"

	"penstock/proxy/request/participant"
	"penstock/proxy/running/snapshot"
)

// configFeatureCache caches which features the current snapshot uses.
type configFeatureCache struct {
	cached atomic.Pointer[configFeatures]
}

type configFeatures struct {
	snapshot *snapshot.Snapshot
	list     []participant.Feature
}

// configFeatures returns the features in all that the snapshot uses. It caches the result for one
// snapshot.
func (f *configFeatureCache) configFeatures(s *snapshot.Snapshot, all []participant.Feature) []participant.Feature {
	if u := f.cached.Load(); u != nil && u.snapshot == s {
		return u.list
	}
	u := &configFeatures{snapshot: s}
	for _, feature := range all {
		if feature.IsEnabled(s) {
			u.list = append(u.list, feature)
		}
	}
	f.cached.Store(u)
	return u.list
}

type participants []participant.Participant

// joinParticipants lets each feature that the configuration uses join the call.
func (c *Call) joinParticipants() {
	list := c.services.featureCache.configFeatures(c.config.snapshot, c.services.Features)
	if len(list) == 0 {
		return
	}
	about := c.participantCall(c.times.stepStart)
	for _, feature := range list {
		if p := feature.Join(&about); p != nil {
			c.participants = append(c.participants, p)
		}
	}
}

// notifySent notifies the participants that the call was sent to another engine.
func (c *Call) notifySent() {
	if len(c.participants) == 0 {
		return
	}
	about := c.participantCall(c.times.stepStart)
	for _, p := range c.participants {
		p.OnSent(&about)
	}
}

func (c *Call) endParticipants(now time.Time) {
	if len(c.participants) == 0 {
		return
	}
	if c.relay == nil && c.client.ctx != nil {
		c.participants.notifyAnswerWritten(c.client.ctx.Response.Body())
	}
	about := c.participantCall(now)
	for _, p := range c.participants {
		p.OnEnd(&about, &c.record)
	}
}

// notifyAnswerWritten passes the bytes that the client has received to the participants.
func (all participants) notifyAnswerWritten(b []byte) {
	for _, p := range all {
		p.OnAnswerWritten(b)
	}
}

func (c *Call) participantCall(now time.Time) participant.Call {
	a := participant.Call{
		Snapshot: c.config.snapshot, Model: c.config.model, Endpoint: c.ep, Request: c.request, Body: &c.body,
		RequestID: c.requestID(), Key: c.limits.key, Pool: c.search.pool, Tiers: c.keyTiers(),
		Tokens: c.tokens.estimatedPrompt, Engines: c.attemptState.targetCount, Fallback: c.record.Asked != "", Now: now, Abort: &c.abort,
	}
	if c.client.ctx != nil && c.relay == nil {
		a.Response = &c.client.ctx.Response.Header
	}
	return a
}

// participantsWriter is a chunkWriter that also passes the bytes written by a relay to the
// participants.
type participantsWriter struct {
	next         chunkWriter
	participants participants
}

func (w participantsWriter) writeChunk(out *[]byte, last bool) (int, error) {
	n, err := w.next.writeChunk(out, last)
	if n > 0 {
		w.participants.notifyAnswerWritten((*out)[chunkPrefixLen : chunkPrefixLen+n])
	}
	return n, err
}
