package chat

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"penstock/translate/jsonx"
)

// Engines cut texts into tokens, tokens into pieces of characters, and write what is left as escapes: half of a surrogate pair that has
// its other half in the next piece, or none. Many parsers refuse such an escape, and clients that take it cannot send it back. So the
// first half waits for the next piece of its text, and what is alone becomes U+FFFD, in streams and in whole answers.

// isLone reports whether an error of jsonx is about half of a surrogate pair.
func isLone(err error) bool {
	var syntax *jsonx.SyntaxError
	return errors.As(err, &syntax) && syntax.Lone()
}

const replacement = `\ufffd`

// half is the first half of a surrogate pair at the end of what has come of a text.
type half struct {
	textPlace
	escape []byte
}

// textPlace says which text of an answer is meant: a member of a choice's message, or the arguments of one of its tool calls.
type textPlace struct {
	choice   int
	member   string // empty: arguments
	toolCall int    // their position
}

// halves are the texts of a stream that wait for their second half. There is hardly ever one.
type halves []half

// piece returns what may be told of a piece of a text: contents with the half that waited for it, without one that waits now unless it
// is the last piece, and with what is alone replaced.
func (h *halves) piece(at textPlace, contents []byte, last bool) []byte {
	if len(contents) == 0 && !last {
		return contents
	}
	text := slices.Concat(h.take(at), contents)
	if !last {
		var high []byte
		if text, high = jsonx.CutHigh(text); len(high) > 0 {
			*h = append(*h, half{at, high})
		}
	}
	jsonx.MendLone(text)
	return text
}

// take removes the half of a text, if there is one, and returns it.
func (h *halves) take(at textPlace) []byte {
	for i := range *h {
		if waiting := (*h)[i]; waiting.textPlace == at {
			*h = slices.Delete(*h, i, i+1)
			return waiting.escape
		}
	}
	return nil
}

// mendTexts notes the changes to the texts of a delta, but for arguments.
func (s *Stream) mendTexts(c *Choice) {
	for it := c.Body.Iter(); it.Next(); {
		name := plain(it.Key())
		if it.Value().IsString() && (isReasoning(name) || string(name) == MemberContent || string(name) == MemberRefusal) {
			s.mendText(textPlace{choice: c.Index, member: string(name)}, it.Value(), c.Finished())
		}
	}
}

// mendText notes the changes to a piece of a text.
func (s *Stream) mendText(at textPlace, v jsonx.Value, last bool) {
	old := inside(v)
	if text := s.halves.piece(at, old, last); !bytes.Equal(text, old) {
		s.edits.Set(v, appendQuoted(nil, text))
	}
}

// endTexts puts a replacement character behind the texts of a choice that still wait. It returns the members that its delta gets.
func (s *Stream) endTexts(c *Choice) []byte {
	var members, pieces [][]byte
	for i := 0; i < len(s.halves); {
		at := s.halves[i].textPlace
		if at.choice != c.Index {
			i++
			continue
		}
		s.halves = slices.Delete(s.halves, i, i+1)
		switch {
		case at.member == "":
			piece := strconv.AppendInt([]byte(`{"index":`), int64(at.toolCall), 10)
			pieces = append(pieces, append(piece, `,"function":{"arguments":"`+replacement+`"}}`...))
		case !s.answer.StripReasoning || !isReasoning([]byte(at.member)):
			members = s.member(members, c.Body, at.member, []byte(`"`+replacement+`"`))
		}
	}
	if list := c.Body.Get("tool_calls"); list.IsArray() {
		for _, piece := range pieces {
			s.edits.Add(list, piece)
		}
	} else if len(pieces) > 0 {
		members = s.member(members, c.Body, "tool_calls", slices.Concat([]byte{'['}, bytes.Join(pieces, comma), []byte{']'}))
	}
	return bytes.Join(members, comma)
}

var comma = []byte{','}

// member notes that a member of an object which is null gets a value, or else adds it to the members to be added.
func (s *Stream) member(members [][]byte, object jsonx.Value, name string, value []byte) [][]byte {
	if old := object.Get(name); old.Exists() {
		s.edits.Set(old, value)
		return members
	}
	return append(members, append([]byte(`"`+name+`":`), value...))
}
