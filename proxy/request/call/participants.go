package call

import (
	"sync/atomic"
	"time"

	"penstock/proxy/request/participant"
	"penstock/proxy/running/snapshot"
)

// features caches which features a configuration uses.
type features struct{ of atomic.Pointer[usedFeatures] }

type usedFeatures struct {
	snapshot *snapshot.Snapshot
	list     []participant.Feature
}

// used returns those features in all that the snapshot uses. It caches the result for one snapshot.
func (f *features) used(s *snapshot.Snapshot, all []participant.Feature) []participant.Feature {
	if u := f.of.Load(); u != nil && u.snapshot == s {
		return u.list
	}
	u := &usedFeatures{snapshot: s}
	for _, feature := range all {
		if feature.Uses(s) {
			u.list = append(u.list, feature)
		}
	}
	f.of.Store(u)
	return u.list
}

type participants []participant.Participant

// join lets each feature that the configuration uses join the call.
func (c *Call) join() {
	list := c.shared.used.used(c.config.snapshot, c.shared.Features)
	if len(list) == 0 {
		return
	}
	about := c.about(c.times.begun)
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
	about := c.about(c.times.begun)
	for _, p := range c.participants {
		p.Sent(&about)
	}
}

func (c *Call) endParticipants(now time.Time) {
	if len(c.participants) == 0 {
		return
	}
	if c.relay == nil && c.client.ctx != nil {
		c.participants.shown(c.client.ctx.Response.Body())
	}
	about := c.about(now)
	for _, p := range c.participants {
		p.End(&about, &c.record)
	}
}

// shown passes the bytes that the client has received to the participants.
func (all participants) shown(b []byte) {
	for _, p := range all {
		p.Shown(b)
	}
}

func (c *Call) about(now time.Time) participant.Call {
	a := participant.Call{
		Snapshot: c.config.snapshot, Model: c.config.model, Endpoint: c.ep, Request: c.request, Body: &c.body,
		RequestID: c.client.requestID, Key: c.rates.key, Pool: c.tries.pool, Tiers: c.tiers(),
		Tokens: c.tokens.prompt, Engines: c.tries.targets, Fallback: c.record.Asked != "", Now: now, Abort: &c.abort,
	}
	if c.client.ctx != nil && c.relay == nil {
		a.Response = &c.client.ctx.Response.Header
	}
	return a
}

// participantsWriter is a chunkWriter that also passes the bytes written by a relay to the
// participants.
type participantsWriter struct {
	to   chunkWriter
	show participants
}

func (w participantsWriter) write(out *[]byte, last bool) (int, error) {
	n, err := w.to.write(out, last)
	w.show.shown((*out)[chunkRoom : chunkRoom+n])
	return n, err
}
