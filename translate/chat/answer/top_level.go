package answer

import (
	"bytes"
	"strconv"

	"penstock/translate/jsonx"
)

var (
	nullValue       = []byte("null")
	emptyArray      = []byte("[]")
	noChoicesMember = []byte(`"choices":[]`)
	chunkObject     = []byte(`"object":"chat.completion.chunk"`)
)

// maxID is the maximum length of an engine's id that the edge stores. If an id is longer, the edge
// uses its own id.
const maxID = 256

// answerIdentity is the raw `id` and `created` of an answer. A field is empty if the engine did not
// send the member.
type answerIdentity struct{ id, created []byte }

func (i *answerIdentity) reset() { *i = answerIdentity{i.id[:0], i.created[:0]} }

func (i *answerIdentity) record(c *Chunk) {
	if c.id.HasText() {
		i.recordID(c.id.Raw())
	}
	if IsValidCreated(c.created) {
		i.recordCreated(c.created.Raw())
	}
}

func (i *answerIdentity) recordID(raw []byte) {
	if len(i.id) == 0 && len(raw) <= maxID {
		i.id = append(i.id, raw...)
		jsonx.ReplaceLoneSurrogates(i.id)
	}
}

func (i *answerIdentity) recordCreated(raw []byte) {
	if len(i.created) == 0 {
		i.created = append(i.created, raw...)
	}
}

// append appends the members id, object, created and model, which start an answer.
func (i *answerIdentity) append(dst []byte, object string, o *WriteOptions) []byte {
	dst = append(dst, `{"id":`...)
	if len(i.id) > 0 {
		dst = append(dst, i.id...)
	} else {
		dst = jsonx.AppendStringS(dst, o.ID)
	}
	dst = append(append(append(dst, `,"object":"`...), object...), `","created":`...)
	if len(i.created) > 0 {
		dst = append(dst, i.created...)
	} else {
		dst = strconv.AppendInt(dst, o.Created, 10)
	}
	return jsonx.AppendStringS(append(dst, `,"model":`...), o.Model)
}

func addObject(edits *jsonx.Edits, h *topLevelMembers, member []byte) {
	switch {
	case !h.object.Exists():
		edits.Add(h.root, member)
	case !h.object.HasText():
		edits.Set(h.object, member[len(`"object":`):])
	}
}

func addIdentity(edits *jsonx.Edits, h *topLevelMembers, o *WriteOptions) {
	switch {
	case !h.id.Exists():
		edits.Add(h.root, jsonx.AppendStringS([]byte(`"id":`), o.ID))
	case h.id.IsNull(), h.id.IsString() && !h.id.HasText():
		edits.Set(h.id, jsonx.AppendStringS(nil, o.ID))
	}
	switch {
	case !h.created.Exists():
		edits.Add(h.root, strconv.AppendInt([]byte(`"created":`), o.Created, 10))
	case !IsValidCreated(h.created):
		edits.Set(h.created, strconv.AppendInt(nil, o.Created, 10))
	}
}

// setModel replaces the model with the public id, which must be in quotes.
func setModel(edits *jsonx.Edits, h *topLevelMembers, model []byte) {
	switch {
	case !h.model.Exists():
		edits.Add(h.root, append([]byte(`"model":`), model...))
	case !bytes.Equal(h.model.Raw(), model):
		edits.Set(h.model, model)
	}
}
