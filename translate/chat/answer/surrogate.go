package answer

import (
	"bytes"
	"slices"
	"strconv"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
)

// Engines cut texts into tokens, and tokens into pieces of characters. They write the remainder as
// an escape: half of a surrogate pair whose other half arrives in the next piece or never. Many
// parsers refuse such an escape, and clients that accept it cannot send it back. A first half
// therefore waits for the next piece of its text, and a lone half becomes U+FFFD. This applies to
// streams and to whole answers.

// half is the first half of a surrogate pair at the end of what has been received of a text. In
// arguments it may be only the start of the half's escape.
type half struct {
	textPlace
	escape []byte
}

// textPlace identifies a text in an answer: a member of a choice's message, or the arguments of one
// of the choice's tool calls.
type textPlace struct {
	choice   int
	member   string // empty: arguments
	toolCall int    // position of the tool call
}

// halves lists the texts in a stream that wait for a second half. The list is nearly always empty.
type halves []half

// piece returns the part of a piece of text that may be sent. It puts the waiting half before the
// contents, and replaces lone halves. Unless the piece is the last one, it holds back a half that
// now has to wait.
func (h *halves) piece(at textPlace, contents []byte, last bool) []byte {
	if len(contents) == 0 && !last {
		return contents
	}
	text := slices.Concat(h.take(at), contents)
	if !last {
		complete, _ := jsonx.CutHigh(text)
		n := len(complete)
		if at.member == "" {
			n = min(n, toolcall.MendEscapes(complete, false))
		}
		if n < len(text) {
			*h = append(*h, half{at, bytes.Clone(text[n:])})
			text = text[:n]
		}
	}
	return at.mend(text)
}

// mend replaces lone halves in the last piece of a text.
func (at textPlace) mend(text []byte) []byte {
	jsonx.MendLone(text)
	if at.member == "" {
		toolcall.MendEscapes(text, true)
	}
	return text
}

// take removes and returns the waiting half of a text, if there is one.
func (h *halves) take(at textPlace) []byte {
	for i := range *h {
		if waiting := (*h)[i]; waiting.textPlace == at {
			*h = slices.Delete(*h, i, i+1)
			return waiting.escape
		}
	}
	return nil
}

// editTexts records the changes to the texts of a delta, except arguments.
func (h *halves) editTexts(edits *jsonx.Edits, c *Choice) {
	for it := c.Body.Iter(); it.Next(); {
		name := it.Key().Name()
		if it.Value().IsString() && (isReasoning(name) || string(name) == memberContent || string(name) == memberRefusal) {
			h.edit(edits, textPlace{choice: c.Index, member: string(name)}, it.Value(), c.Finished())
		}
	}
}

// edit records the changes to a piece of a text.
func (h *halves) edit(edits *jsonx.Edits, at textPlace, v jsonx.Value, last bool) {
	old := v.Inside()
	if text := h.piece(at, old, last); !bytes.Equal(text, old) {
		edits.Set(v, appendQuoted(nil, text))
	}
}

// end ends the waiting texts of a choice, usually with a replacement character. It returns the
// members to be added to the choice's delta, including pieces of tool calls.
func (h *halves) end(edits *jsonx.Edits, c *Choice, pieces [][]byte, strip bool) []byte {
	var members [][]byte
	for i := 0; i < len(*h); {
		at := (*h)[i].textPlace
		if at.choice != c.Index {
			i++
			continue
		}
		text := appendQuoted(nil, at.mend((*h)[i].escape))
		*h = slices.Delete(*h, i, i+1)
		switch {
		case at.member == "":
			pieces = append(pieces, argumentsPiece(at.toolCall, text))
		case !strip || !isReasoning([]byte(at.member)):
			members = fillMember(edits, members, c.Body, at.member, text)
		}
	}
	if list := c.Body.Get("tool_calls"); list.IsArray() {
		for _, piece := range pieces {
			edits.Add(list, piece)
		}
	} else if len(pieces) > 0 {
		list := slices.Concat([]byte{'['}, bytes.Join(pieces, comma), []byte{']'})
		members = fillMember(edits, members, c.Body, "tool_calls", list)
	}
	return bytes.Join(members, comma)
}

// argumentsPiece returns a piece of a tool call that has only arguments. The arguments are given in
// quotes.
func argumentsPiece(position int, arguments []byte) []byte {
	piece := strconv.AppendInt([]byte(`{"index":`), int64(position), 10)
	return append(append(append(piece, `,"function":{"arguments":`...), arguments...), "}}"...)
}

var comma = []byte{','}

// fillMember records a value for an object's null member, or adds the member to members if it is
// absent.
func fillMember(edits *jsonx.Edits, members [][]byte, object jsonx.Value, name string, value []byte) [][]byte {
	if old := object.Get(name); old.Exists() {
		edits.Set(old, value)
		return members
	}
	return append(members, append([]byte(`"`+name+`":`), value...))
}
