package chat

import (
	"bytes"
	"strconv"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
)

// Clients join the pieces of a tool call by its index, answer it by its id, read its arguments out of a string, and some SDKs
// demand its type. What an engine leaves out of these is added here, in streams and in whole answers.

// toolCalls notes the changes to the pieces of tool calls in a delta of a choice. news says that a chunk which looks the same may
// need others.
func (s *Stream) toolCalls(choice int, v jsonx.Value) (news bool, err error) {
	s.repeat.forget() // what it remembers may be of another tool call
	var p toolcall.Piece
	for it := v.Iter(); it.Next(); {
		if !p.Read(it.Value()) {
			return false, bad(badToolCall)
		}
		part, ok := s.tools.Piece(choice, &p)
		if !ok {
			return false, bad(tooManyToolCalls)
		}
		if index, given := p.Index.Int(); !given || index != int64(part.Position) {
			give(&s.edits, p.Object, p.Index, "index", strconv.AppendInt(nil, int64(part.Position), 10))
		}
		if HasText(p.ID) && !part.TakeID && !part.MakeID { // clients would join it to the first
			s.edits.Delete(p.ID)
		}
		if p.Named() && !part.TakeName {
			s.edits.Delete(p.Name)
		}
		if p.Args.IsString() && (s.chunk.lone || len(s.halves) > 0 || hasEscapes(inside(p.Args))) {
			s.mendText(textPlace{choice: choice, toolCall: part.Position}, p.Args, false)
			news = true
		}
		introduce(&s.edits, &p, &part, s.answer.ID, choice)
		news = news || part.News()
	}
	return news, nil
}

// introduce notes what a tool call gets where it is named. answer is our id of the answer.
func introduce(edits *jsonx.Edits, p *toolcall.Piece, part *toolcall.Part, answer string, choice int) {
	if part.MakeID {
		give(edits, p.Object, p.ID, "id", append(toolcall.AppendID([]byte{'"'}, answer, choice, part.Position), '"'))
	}
	if part.NeedType {
		give(edits, p.Object, p.Type, "type", []byte(`"function"`))
	}
	if p.Args.IsObject() { // Ollama's native shape
		edits.Set(p.Args, append(appendArguments([]byte{'"'}, p.Args), '"'))
	}
}

// appendArguments appends arguments that are an object as the contents of a JSON string.
func appendArguments(dst []byte, v jsonx.Value) []byte {
	raw := bytes.Clone(v.Raw())
	jsonx.MendLone(raw)
	return jsonx.AppendEscaped(dst, raw)
}

// give notes that a member of an object gets a value in place of the old one, which may be absent.
func give(edits *jsonx.Edits, object, old jsonx.Value, name string, value []byte) {
	if old.Exists() {
		edits.Set(old, value)
		return
	}
	edits.Add(object, append([]byte(`"`+name+`":`), value...))
}
