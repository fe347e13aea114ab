package answer

import (
	"sync"

	"penstock/translate"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
)

// topLevel is the top level of a chunk or a completion.
type topLevel struct {
	doc jsonx.Doc
	src []byte

	root, id, object, created, model, choices, usage, timings, errv jsonx.Value

	progress    bool // the answer has llama.cpp's prompt_progress
	fingerprint bool // the answer has system_fingerprint
	lone        bool // a string holds half of a surrogate pair
	private     bool // the answer has a member that clients must not see, see isPrivate
}

// parse validates data and finds its members. data must not change until the next parse or reset.
func (h *topLevel) parse(data []byte) error {
	h.root, h.id, h.object, h.created, h.model = jsonx.Value{}, jsonx.Value{}, jsonx.Value{}, jsonx.Value{}, jsonx.Value{}
	h.choices, h.usage, h.timings, h.errv = jsonx.Value{}, jsonx.Value{}, jsonx.Value{}, jsonx.Value{}
	h.progress, h.private, h.fingerprint, h.lone, h.src = false, false, false, false, data
	if len(data) > translate.MaxAnswer {
		return badAnswer(translate.TooLarge)
	}
	err := h.doc.Parse(data, jsonx.Options{Record: recordDepth, Paired: true})
	if err != nil && jsonx.IsLone(err) {
		h.lone = true
		err = h.doc.Parse(data, jsonx.Options{Record: recordDepth})
	}
	if err != nil {
		return badSyntax(err)
	}
	h.root = h.doc.Root()
	if !h.root.IsObject() {
		return badAnswer(translate.NotObject)
	}
	for it := h.root.Iter(); it.Next(); {
		name := it.Key().Name()
		at := h.member(name)
		if at == nil {
			h.private = h.private || isPrivate(name) && !it.Value().IsNull()
			continue
		}
		// Two readers could choose different members, so the edge could bill one answer and show
		// the other.
		if at.Exists() {
			return badAnswer(translate.DuplicateMember)
		}
		*at = it.Value()
	}
	return nil
}

// member returns the field for the value of the named member, or nil if that member is not read.
func (h *topLevel) member(name []byte) *jsonx.Value {
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
		h.progress = true
	case "system_fingerprint":
		h.fingerprint = true
	}
	return nil
}

// isPrivate reports whether a member of an answer, or of a choice, is meant for a router between
// engines: the addresses of engines and handles to their memory (vLLM, TensorRT-LLM). A null member
// is harmless.
func isPrivate(name []byte) bool {
	return string(name) == "kv_transfer_params" || string(name) == "disaggregated_params"
}

// IsPrivate reports whether HidePrivate removes a member with that name, unless the member is null.
func IsPrivate(name []byte) bool { return isPrivate(name) }

// HidePrivate records the removal of those members of an answer, or of a choice, that are meant for
// routers between engines.
func HidePrivate(edits *jsonx.Edits, v jsonx.Value) {
	for it := v.Iter(); it.Next(); {
		if isPrivate(it.Key().Name()) && !it.Value().IsNull() {
			edits.Delete(it.Value())
		}
	}
}

// reset releases the source, so that h can go into a pool.
func (h *topLevel) reset() {
	*h = topLevel{doc: h.doc}
	h.doc.Reset()
}

// failure returns the error that the engine sent instead of an answer, or nil if there is none.
// Such an error is a truthy member `error` (on which the openai SDK throws), or the flat format of
// SGLang and of older vLLM.
func (h *topLevel) failure() *engineerror.Error {
	if !engineerror.Truthy(h.errv) && (h.choices.Exists() || !h.object.EqualText("error")) {
		return nil
	}
	e := engineerror.ReadObject(h.root)
	return &e
}

// Chunk is a view of one chunk of a chat stream. The zero value is ready. A Chunk is meant to be
// reused.
//
// Values in a Chunk refer to the event's data and are valid until the next Parse.
type Chunk struct{ topLevel }

// chunkPool holds chunks to read events into. A stream needs a chunk only while it reads, and reads
// most events without one (see template), so a waiting stream holds no chunk.
var chunkPool = sync.Pool{New: func() any { return new(Chunk) }}

// giveBack returns c to the pool. Nothing in c may be used afterwards.
func (c *Chunk) giveBack() {
	c.reset()
	chunkPool.Put(c)
}

// Parse reads the data of one event. The error is a *translate.BadAnswer if the event is not a
// chunk, or an *engineerror.Error if the engine reports a failure instead. A chunk without choices
// is valid if it has usage or prompt_progress. A chunk with null choices, or a ping, is valid but
// empty.
func (c *Chunk) Parse(data []byte) error {
	if err := c.parse(data); err != nil {
		return err
	}
	if e := c.failure(); e != nil {
		return e
	}
	if !c.choices.IsArray() && !c.choices.IsNull() && (c.choices.Exists() || !c.saysMore() && !c.isPing()) {
		return badAnswer(noChoices)
	}
	return nil
}

// saysMore reports whether the chunk has content other than choices.
func (c *Chunk) saysMore() bool { return c.usage.IsObject() || c.timings.IsObject() || c.progress }

// isPing reports whether the event only keeps the connection alive.
func (c *Chunk) isPing() bool { return c.root.Get("type").EqualText("ping") }

// saysNothing reports whether the chunk is empty. Hosts and gateways in front of engines start a
// stream with such a chunk, or keep the connection alive with several of them.
func (c *Chunk) saysNothing() bool { return !c.choices.IsArray() && !c.saysMore() }
