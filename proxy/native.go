package proxy

import (
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// native is how a dialect is spoken with an engine whose operator lists it under `native`: the
// client's own request goes to the engine's own endpoint. Everything else about the call stays as
// it is. Its chat form is made all the same: the rules, the limits and the pick are those of every
// call, and a retry may meet an engine that is not let.
//
// What the engine answers is read for what it says, and written by the endpoint's own stream. To
// pass events on as they come would be less work, but no engine that was tried keeps the dialect's
// grammar: blocks overlap, numbers and members are missing, a cut answer is called complete, and
// reasoning, which a client may not see, is in the midst of it.
type native struct {
	// segments appends the pieces of the request; see chat.NativeRequest.
	segments func(segs [][]byte, body []byte, n *chat.NativeRequest) [][]byte
	reader   func() translate.NativeReader
}

// goesNative reports whether an engine of the call's model is let speak the call's dialect, so that
// the client's own bytes may be needed. It is asked while the request is decoded, before the model
// is resolved; one that does not exist is found out then.
func (c *Call) goesNative() bool {
	m, ok := c.snap.Lookup(c.chat.Model)
	if !ok || c.ep.native == nil {
		return false
	}
	targets := m.Route.Targets()
	for i := range targets {
		if targets[i].Upstream.Native(c.ep.operation) {
			return true
		}
	}
	return false
}

// nativeAt returns how the call is sent to u in its own dialect; nil: it is translated. A call that
// began before a reload let u speak the dialect has no bytes to send.
func (c *Call) nativeAt(u *upstreams.Upstream) *native {
	if c.native == nil || !u.Native(c.ep.operation) || u.Engine().Path(c.ep.operation) == "" {
		return nil
	}
	if c.saltAt(u).Wanted() {
		return nil // engines read it from chat requests; not all of them from those of other dialects
	}
	return c.ep.native
}

// openNative sends the client's own request.
func (a *attempt) openNative(n *native) error {
	c := a.call
	a.native = n.reader()
	return a.send(a.lease.Upstream().Engine().Path(c.ep.operation), n.segments(nil, *c.native, &chat.NativeRequest{
		Served: a.target.Served, Stream: a.streamed && !c.record.Stream,
		MaxTokens: c.chat.Tokens.TokenLimit(), Bound: c.chat.Tokens.Bound(), Effort: c.chat.Reasoning.Effort, Refuse: c.model.Rules.Refuse,
	}))
}
