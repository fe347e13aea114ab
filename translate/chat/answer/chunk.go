package answer

import (
	"sync"

	"penstock/translate"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
)

// topLevel is the top level that a chunk and a completion have in common.
type topLevel struct {
	doc jsonx.Doc
	src []byte

	root, id, object, created, model, choices, usage, timings, errv jsonx.Value

	progress    bool // llama.cpp's prompt_progress is there
	fingerprint bool // system_fingerprint is there
	lone        bool // a string holds half of a surrogate pair
	private     bool // a member is there that is no client's to see, see isPrivate
}

// parse validates data and finds its members. data is borrowed until the next parse or reset.
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
		// Two readers could take a different one each: refused, rather than to bill one and to show
		// the other.
		if at.Exists() {
			return badAnswer(translate.DuplicateMember)
		}
		*at = it.Value()
	}
	return nil
}

// member returns where the value of the member is kept, nil if it is none that we read.
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
// engines: it holds addresses of engines and handles of their memory (vLLM, TensorRT-LLM). Null
// holds none.
func isPrivate(name []byte) bool {
	return string(name) == "kv_transfer_params" || string(name) == "disaggregated_params"
}

// IsPrivate reports whether a member of that name, unless it is null, is removed by HidePrivate.
func IsPrivate(name []byte) bool { return isPrivate(name) }

// HidePrivate notes the removal of the members of an answer, or of a choice, by which engines speak
// to each other.
func HidePrivate(edits *jsonx.Edits, v jsonx.Value) {
	for it := v.Iter(); it.Next(); {
		if isPrivate(it.Key().Name()) && !it.Value().IsNull() {
			edits.Delete(it.Value())
		}
	}
}

// reset lets go of the source, for a pool.
func (h *topLevel) reset() {
	*h = topLevel{doc: h.doc}
	h.doc.Reset()
}

// failure returns the engine's error that stands in the place of an answer, nil when there is none:
// a truthy member `error` (the openai SDK throws on any), or the flat shape of SGLang and of older
// vLLM.
func (h *topLevel) failure() *engineerror.Error {
	if !engineerror.Truthy(h.errv) && (h.choices.Exists() || !h.object.EqualText("error")) {
		return nil
	}
	e := engineerror.ReadObject(h.root)
	return &e
}

// Chunk is a view of one chunk of a chat stream. The zero value is ready; it is meant to be reused.
//
// What is read of it borrows from the event's data and is valid until the next Parse.
type Chunk struct{ topLevel }

// chunkPool lends the chunk that an event is read into: a stream needs one only while it reads, and
// most events are read without one (see template), so a stream that waits holds none.
var chunkPool = sync.Pool{New: func() any { return new(Chunk) }}

// giveBack returns c, of which nothing is needed any more, to the pool.
func (c *Chunk) giveBack() {
	c.reset()
	chunkPool.Put(c)
}

// Parse reads the data of one event. The error is a *translate.BadAnswer when it is no chunk, an
// *engineerror.Error when the engine reports a failure in place of one. A chunk without choices is
// one if it has usage or prompt_progress. One whose choices are null, or that is a ping, is one that
// says nothing.
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

// saysMore reports whether the chunk has something beside choices.
func (c *Chunk) saysMore() bool { return c.usage.IsObject() || c.timings.IsObject() || c.progress }

// isPing reports whether the event only keeps the connection alive.
func (c *Chunk) isPing() bool { return c.root.Get("type").EqualText("ping") }

// saysNothing reports whether the chunk has neither choices nor anything else: hosts and gateways
// before engines begin a stream with such a frame, or keep it alive by some.
func (c *Chunk) saysNothing() bool { return !c.choices.IsArray() && !c.saysMore() }
