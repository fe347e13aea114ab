package call

import (
	"time"

	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/hook/copies"
)

// copied copies an admitted call for the sinks of hooks that name its key and its model. The model
// is the one that the client requested, even if a hook or a fallback chooses another one, because
// the catalog announces the copies in the entry of the requested model.
type copied struct{ call *Call }

// begin starts the copies of the call and tells the client about them in a header.
func (k copied) begin() {
	c := k.call
	if c.ep == endpoint.Realtime { // the messages are not copied, so neither is the call
		return
	}
	list := c.config.snapshot.Config.Hooks
	for i := range list {
		if list[i].After != "" && (hooks{c}).concerns(&list[i]) {
			c.copy = c.shared.Copies.Begin(&list[i], c.record.Model, c.copy)
		}
	}
	if c.copy == nil {
		return
	}
	if !c.ep.Form { // a form passes through and is not held
		c.copy.Request(c.body.Client())
	}
	c.client.ctx.Response.Header.Set(endpoint.HeaderRetained, "true")
}

// copyingWriter is a chunkWriter that also adds what a relay has written to the copies of its call.
type copyingWriter struct {
	to   chunkWriter
	copy *copies.Copy
}

func (w copyingWriter) write(out *[]byte, last bool) (int, error) {
	n, err := w.to.write(out, last)
	w.copy.Answer((*out)[chunkRoom : chunkRoom+n])
	return n, err
}

// end hands over the copies of a call that has ended.
func (k copied) end(now time.Time) {
	c := k.call
	if c.relay == nil && c.client.ctx != nil {
		c.copy.Answer(c.client.ctx.Response.Body())
	}
	f := copies.Facts{
		RequestID: string(c.client.requestID), Key: c.record.Key, Model: c.record.Model, Endpoint: c.ep.Path, Stream: c.record.Stream,
		Start: c.record.Start, Took: now.Sub(c.record.Start), TTFT: c.record.TTFT,
		Status: c.record.Status, Outcome: string(c.record.Outcome), Code: c.record.Code,
	}
	c.copy.End(&f)
	c.copy = nil
}
