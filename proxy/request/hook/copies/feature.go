package copies

import (
	"slices"

	"penstock/config"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/participant"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/observe"
)

// IsEnabled implements participant.Feature.
func (c *CopySinks) IsEnabled(s *snapshot.Snapshot) bool {
	return slices.ContainsFunc(s.Config.Hooks, func(h config.Hook) bool { return h.After != "" })
}

// Join implements participant.Feature. It starts the copies for hooks that match the call's key and
// model, and announces the copies to the client in a header. The model is the one that the client
// requested, even if a hook or a fallback chooses another model. The catalog announces the copies
// in the entry for the requested model.
func (c *CopySinks) Join(call *participant.Call) participant.Participant {
	// The messages of a realtime session are not copied, so the call is not copied either.
	if call.Endpoint == endpoint.RealtimeEndpoint {
		return nil
	}
	key, template := "", ""
	if call.Key != nil {
		key = call.Key.ID
		if call.Key.Template != nil {
			template = call.Key.Template.ID
		}
	}
	model, list := call.Model.Config.ID, call.Snapshot.Config.Hooks
	var all *Copy
	for i := range list {
		if list[i].After != "" && list[i].AppliesTo(model, key, template) {
			all = c.BeginCopy(&list[i], model, all)
		}
	}
	if all == nil {
		return nil
	}
	if !call.Endpoint.Form { // a form is sent to the engine while it arrives and is not stored
		all.AddRequest(call.Body.ClientBytes())
	}
	call.Response.Set(endpoint.HeaderCallRetained, "true")
	return callCopy{first: all}
}

type callCopy struct {
	participant.NoopParticipant
	first *Copy
}

// OnAnswerWritten implements participant.Participant.
func (k callCopy) OnAnswerWritten(b []byte) { k.first.AddAnswer(b) }

// OnEnd implements participant.Participant.
func (k callCopy) OnEnd(c *participant.Call, r *observe.Record) {
	k.first.End(&CallInfo{
		RequestID: string(c.RequestID), Key: r.Key, Model: r.Model, Endpoint: c.Endpoint.Path, Stream: r.Stream,
		Start: r.Start, Took: c.Now.Sub(r.Start), TTFT: r.TTFT,
		Status: r.Status, Outcome: string(r.Outcome), Code: r.Code,
	})
}
