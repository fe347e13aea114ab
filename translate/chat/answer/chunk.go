package answer

import (
	"sync"

	"penstock/translate"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
)

type topLevelMembers struct {
	doc jsonx.Doc
	src []byte

	root, id, object, created, model, choices, usage, timings, errv jsonx.Value

	hasProgress      bool
	fingerprint      bool
	hasLoneSurrogate bool // a string contains half of a surrogate pair
	hasPrivate       bool // the answer has a member for which isPrivate returns true
}

// parse validates data and finds its members. The caller must not modify data until the next parse
// or reset.
func (h *topLevelMembers) parse(data []byte) error {
	h.root, h.id, h.object, h.created, h.model = jsonx.Value{}, jsonx.Value{}, jsonx.Value{}, jsonx.Value{}, jsonx.Value{}
	h.choices, h.usage, h.timings, h.errv = jsonx.Value{}, jsonx.Value{}, jsonx.Value{}, jsonx.Value{}
	h.hasProgress, h.hasPrivate, h.fingerprint, h.hasLoneSurrogate, h.src = false, false, false, false, data
	if len(data) > translate.MaxAnswerBytes {
		return newBadAnswer(translate.ReasonTooLarge)
	}
	err := h.doc.Parse(data, jsonx.Options{Record: indexedDepth, Paired: true})
	if err != nil && jsonx.IsLoneSurrogateError(err) {
		h.hasLoneSurrogate = true
		err = h.doc.Parse(data, jsonx.Options{Record: indexedDepth})
	}
	if err != nil {
		return newBadSyntaxError(err)
	}
	h.root = h.doc.Root()
	if !h.root.IsObject() {
		return newBadAnswer(translate.ReasonNotObject)
	}
	for it := h.root.Iter(); it.Next(); {
		name := it.Key().Name()
		at := h.memberField(name)
		if at == nil {
			h.hasPrivate = h.hasPrivate || isPrivate(name) && !it.Value().IsNull()
			continue
		}
		// If a member occurs twice, the edge and the client could read different values. The edge
		// could then bill one answer while the client sees another.
		if at.Exists() {
			return newBadAnswer(translate.ReasonDuplicateMember)
		}
		*at = it.Value()
	}
	return nil
}

// memberField returns the field for the named member, or nil if the edge does not read the member.
func (h *topLevelMembers) memberField(name []byte) *jsonx.Value {
	switch string(name) {
	case "id":
		return &h.id
	case "object":
		return &h.object
	case "created":
		return &h.created
	case "model":
		return &h.model
	case "choices":
		return &h.choices
	case "usage":
		return &h.usage
	case "timings":
		return &h.timings
	case "error":
		return &h.errv
	case "prompt_progress":
		h.hasProgress = true
	case "system_fingerprint":
		h.fingerprint = true
	}
	return nil
}

// isPrivate reports whether a member is meant only for a router between engines. Such members
// contain engine addresses and memory handles (vLLM, TensorRT-LLM).
func isPrivate(name []byte) bool {
	return string(name) == "kv_transfer_params" || string(name) == "disaggregated_params"
}

// IsPrivate reports whether RemovePrivateMembers removes members with the given name.
func IsPrivate(name []byte) bool { return isPrivate(name) }

// RemovePrivateMembers removes the members of an answer, or of a choice, that are meant for routers
// between engines.
func RemovePrivateMembers(edits *jsonx.Edits, v jsonx.Value) {
	for it := v.Iter(); it.Next(); {
		if isPrivate(it.Key().Name()) && !it.Value().IsNull() {
			edits.Delete(it.Value())
		}
	}
}

func (h *topLevelMembers) reset() {
	*h = topLevelMembers{doc: h.doc}
	h.doc.Reset()
}

// engineError returns the error that the engine sent instead of an answer, or nil. It recognizes a
// truthy `error` member, and the flat format used by SGLang and older vLLM.
func (h *topLevelMembers) engineError() *engineerror.Error {
	if !engineerror.IsTruthy(h.errv) && (h.choices.Exists() || !h.object.EqualText("error")) {
		return nil
	}
	e := engineerror.ReadObject(h.root)
	return &e
}

// Chunk is a view of one chunk of a chat stream. The zero value is ready for use. The values in a
// Chunk refer to the event's data and are valid until the next Parse.
type Chunk struct{ topLevelMembers }

// chunkPool saves memory in waiting streams. A stream needs a Chunk only while it parses an event,
// and most events are not parsed (see template).
var chunkPool = sync.Pool{New: func() any { return new(Chunk) }}

// recycle returns c to the pool. c and its values must not be used afterwards.
func (c *Chunk) recycle() {
	c.reset()
	chunkPool.Put(c)
}

// Parse reads the data of one event. If the event is not a chunk, the error is a
// *translate.BadAnswerError. If the engine reports a failure, it is an *engineerror.Error. A chunk
// without choices is valid if it contains usage or prompt_progress. A ping, or a chunk with null
// choices, is valid but empty.
func (c *Chunk) Parse(data []byte) error {
	if err := c.parse(data); err != nil {
		return err
	}
	if e := c.engineError(); e != nil {
		return e
	}
	if !c.choices.IsArray() && !c.choices.IsNull() && (c.choices.Exists() || !c.hasUsageOrProgress() && !c.isPing()) {
		return newBadAnswer(reasonNoChoices)
	}
	return nil
}

// hasUsageOrProgress reports whether the chunk contains usage, timings or progress.
func (c *Chunk) hasUsageOrProgress() bool {
	return c.usage.IsObject() || c.timings.IsObject() || c.hasProgress
}

// isPing reports whether the event only keeps the connection alive.
func (c *Chunk) isPing() bool { return c.root.Get("type").EqualText("ping") }

// isEmpty reports whether a chunk is empty. Hosts and gateways send such chunks at the start of a
// stream, or to keep connections alive.
func (c *Chunk) isEmpty() bool { return !c.choices.IsArray() && !c.hasUsageOrProgress() }
