package answer

import (
	"bytes"

	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

type chunkRewriter struct {
	edits jsonx.Edits
	model []byte
}

func (w *chunkRewriter) reset() {
	w.edits.Reset()
	w.model = w.model[:0]
}

// completeTopLevelMembers adds missing top-level members. If pinned is true, id and created are already
// set.
func (w *chunkRewriter) completeTopLevelMembers(c *Chunk, o *WriteOptions, pinned bool) {
	if !c.choices.Exists() {
		w.edits.Add(c.root, noChoicesMember)
	} else if c.choices.IsNull() {
		w.edits.Set(c.choices, emptyArray)
	}
	addObject(&w.edits, &c.topLevelMembers, chunkObject)
	if c.hasPrivate {
		RemovePrivateMembers(&w.edits, c.root)
	}
	if !pinned {
		addIdentity(&w.edits, &c.topLevelMembers, o)
	}
	if w.edits.Len() > 0 || !c.model.Exists() {
		setModel(&w.edits, &c.topLevelMembers, w.model)
	} // append replaces an existing model
}

func (w *chunkRewriter) append(dst []byte, c *Chunk, data []byte) []byte {
	dst = append(dst, "data: "...)
	start := len(dst)
	switch {
	case w.edits.Len() > 0:
		dst = w.edits.Append(dst, data)
	case bytes.Equal(c.model.Raw(), w.model):
		dst = append(dst, data...)
	default: // a fast path for nearly every chunk
		dst = append(dst, data[:c.model.Start()]...)
		dst = append(dst, w.model...)
		dst = append(dst, data[c.model.End():]...)
	}
	sse.ReplaceLineEnds(dst[start:])
	if c.hasLoneSurrogate {
		jsonx.ReplaceLoneSurrogates(dst[start:])
	}
	return append(dst, "\n\n"...)
}

// toEventOffset converts an offset in the chunk to an offset in the written event.
func (w *chunkRewriter) toEventOffset(c *Chunk, at int) int {
	moved := len("data: ") + at
	switch {
	case w.edits.Len() > 0:
		moved += w.edits.Shift(at)
	case c.model.End() <= at:
		moved += len(w.model) - (c.model.End() - c.model.Start())
	}
	return moved
}
