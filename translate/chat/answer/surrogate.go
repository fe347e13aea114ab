package answer

import (
	"bytes"
	"slices"
	"strconv"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
)

// Engines split texts into tokens, and a token may end in the middle of a character. Engines write
// each fragment of the character as an escape for half of a surrogate pair. Many parsers reject
// these escapes, and clients that accept them cannot send them back. The edge therefore holds back
// a first half until the next piece of the text arrives, and replaces a lone half with U+FFFD.

// heldSurrogate is the first half of a surrogate pair at the end of a text, or the start of its
// escape.
type heldSurrogate struct {
	textLocation
	escape []byte
}

// textLocation identifies a text: a member of a choice's message, or the arguments of a tool call.
type textLocation struct {
	choice   int
	member   string // empty for arguments
	toolCall int
}

// heldSurrogates lists the first halves in a stream whose second halves have not arrived. The list
// is nearly always empty.
type heldSurrogates []heldSurrogate

// nextPiece returns the next piece of a text. It prepends the half that was held back, and replaces
// lone halves. If the piece ends with a first half and is not the last piece, this half is held
// back.
func (h *heldSurrogates) nextPiece(at textLocation, contents []byte, last bool) []byte {
	if len(contents) == 0 && !last {
		return contents
	}
	text := slices.Concat(h.takeHeld(at), contents)
	if !last {
		complete, _ := jsonx.SplitHighSurrogate(text)
		n := len(complete)
		if at.member == "" {
			n = min(n, toolcall.ReplaceLoneEscapes(complete, false))
		}
		if n < len(text) {
			*h = append(*h, heldSurrogate{at, bytes.Clone(text[n:])})
			text = text[:n]
		}
	}
	return at.replaceLone(text)
}

// replaceLone replaces lone halves in the last piece of a text.
func (at textLocation) replaceLone(text []byte) []byte {
	jsonx.ReplaceLoneSurrogates(text)
	if at.member == "" {
		toolcall.ReplaceLoneEscapes(text, true)
	}
	return text
}

func (h *heldSurrogates) takeHeld(at textLocation) []byte {
	for i := range *h {
		if waiting := (*h)[i]; waiting.textLocation == at {
			*h = slices.Delete(*h, i, i+1)
			return waiting.escape
		}
	}
	return nil
}

// editTexts records the changes to the texts of a delta, except arguments.
func (h *heldSurrogates) editTexts(edits *jsonx.Edits, c *Choice) {
	for it := c.Body.Iter(); it.Next(); {
		name := it.Key().Name()
		if it.Value().IsString() && (isReasoning(name) || string(name) == memberContent || string(name) == memberRefusal) {
			h.editText(edits, textLocation{choice: c.Index, member: string(name)}, it.Value(), c.HasFinished())
		}
	}
}

func (h *heldSurrogates) editText(edits *jsonx.Edits, at textLocation, v jsonx.Value, last bool) {
	old := v.RawContents()
	if text := h.nextPiece(at, old, last); !bytes.Equal(text, old) {
		edits.Set(v, appendQuoted(nil, text))
	}
}

// completeSurrogatePairs completes a choice's texts that lack a second half. It returns the members
// to add to the choice's delta, including pieces of tool calls.
func (h *heldSurrogates) completeSurrogatePairs(edits *jsonx.Edits, c *Choice, pieces [][]byte, strip bool) []byte {
	var members [][]byte
	for i := 0; i < len(*h); {
		at := (*h)[i].textLocation
		if at.choice != c.Index {
			i++
			continue
		}
		text := appendQuoted(nil, at.replaceLone((*h)[i].escape))
		*h = slices.Delete(*h, i, i+1)
		switch {
		case at.member == "":
			pieces = append(pieces, argumentsPiece(at.toolCall, text))
		case !strip || !isReasoning([]byte(at.member)):
			members = setOrAppendMember(edits, members, c.Body, at.member, text)
		}
	}
	if list := c.Body.Get("tool_calls"); list.IsArray() {
		for _, piece := range pieces {
			edits.Add(list, piece)
		}
	} else if len(pieces) > 0 {
		list := slices.Concat([]byte{'['}, bytes.Join(pieces, comma), []byte{']'})
		members = setOrAppendMember(edits, members, c.Body, "tool_calls", list)
	}
	return bytes.Join(members, comma)
}

// argumentsPiece returns a piece of a tool call. arguments includes the quotes.
func argumentsPiece(position int, arguments []byte) []byte {
	piece := strconv.AppendInt([]byte(`{"index":`), int64(position), 10)
	return append(append(append(piece, `,"function":{"arguments":`...), arguments...), "}}"...)
}

var comma = []byte{','}

// setOrAppendMember sets a member of object. If the member is absent, setOrAppendMember appends it
// to members instead.
func setOrAppendMember(edits *jsonx.Edits, members [][]byte, object jsonx.Value, name string, value []byte) [][]byte {
	if old := object.Get(name); old.Exists() {
		edits.Set(old, value)
		return members
	}
	return append(members, append([]byte(`"`+name+`":`), value...))
}
