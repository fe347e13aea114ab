package answer

import (
	"bytes"
	"slices"
	"strconv"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
)

// Clients join the pieces of a tool call by its index, answer it by its id, read its arguments out
// of a string, and some SDKs demand its type. Those that an engine leaves out are added here, in
// streams and in whole answers.

// toolCalls notes the changes to the pieces of tool calls in a delta of a choice. unique: the next
// chunk of the same form may need other changes.
func (s *Stream) toolCalls(choice int, v jsonx.Value) (unique bool, err error) {
	s.template.forget() // its chunk may be of another tool call
	var p toolcall.Piece
	for it := v.Iter(); it.Next(); {
		if !p.Read(it.Value()) {
			return false, badAnswer(badToolCall)
		}
		part, ok := s.tools.AddPiece(choice, &p)
		if !ok {
			return false, badAnswer(tooManyToolCalls)
		}
		if index, given := p.Index.Int(); !given || index != int64(part.Position) {
			setMember(&s.edits, p.Object, p.Index, "index", strconv.AppendInt(nil, int64(part.Position), 10))
		}
		if p.ID.HasText() && !part.TakeID && !part.MakeID { // clients would join it to the first
			s.edits.Delete(p.ID)
		}
		if p.Named() && !part.TakeName {
			s.edits.Delete(p.Name)
		}
		if p.Args.IsString() && (s.chunk.lone || len(s.halves) > 0 || toolcall.HasEscapes(p.Args.Inside())) {
			s.mendText(textPlace{choice: choice, toolCall: part.Position}, p.Args, false)
			unique = true
		}
		addToolCallMembers(&s.edits, &p, &part, s.options.ID, choice)
		if part.TakeName && !p.Args.IsString() && !p.Args.IsObject() { // clients add the pieces up
			setMember(&s.edits, p.Function, p.Args, "arguments", emptyText)
		}
		unique = unique || part.Unique() || s.tools.Blank()
	}
	return unique, nil
}

var (
	emptyText     = []byte(`""`)
	toolCallsWord = []byte(`"tool_calls"`)
)

// isCut reports whether an answer that ends so may lack the rest of its last tool call. Its
// arguments stay as they are, because a tool must not run without those that the model meant.
func (f Finish) isCut() bool { return f == FinishLength || f == FinishContentFilter }

// endToolCalls notes the end of a choice's tool calls. It returns the positions of those that get
// the arguments of an empty object, because clients read arguments as JSON.
func (s *Stream) endToolCalls(c *Choice) []int {
	if !s.tools.Any(c.Index) {
		return nil
	}
	finish := finishOf(c.Finish)
	if finish == FinishStop { // agents run tools only for the word
		s.edits.Set(c.Finish, toolCallsWord)
	}
	if finish.isCut() {
		return nil
	}
	return s.tools.Fill(nil, c.Index)
}

// completeArguments returns what a whole tool call has in place of its arguments; nil: they stay.
func completeArguments(p *toolcall.Piece, cut bool) []byte {
	switch {
	case !p.Function.IsObject() || p.Args.Exists() && !p.Args.IsString() && !p.Args.IsNull():
		return nil
	case p.Args.IsString() && (cut || !toolcall.Blank(p.Args.Inside())):
		return nil
	case cut:
		return emptyText
	case p.Args.IsString():
		return appendQuoted(nil, slices.Concat(p.Args.Inside(), emptyObject))
	}
	return []byte(`"{}"`)
}

// wrongIndex reports whether a whole tool call has an index, and another than its position.
func wrongIndex(p *toolcall.Piece, part *toolcall.Part) bool {
	index, given := p.Index.Int()
	return p.Index.Exists() && (!given || index != int64(part.Position))
}

// addToolCallMembers notes the members that the piece with a tool call's name gets. answer is our
// id of the answer.
func addToolCallMembers(edits *jsonx.Edits, p *toolcall.Piece, part *toolcall.Part, answer string, choice int) {
	if part.MakeID {
		setMember(edits, p.Object, p.ID, "id", append(toolcall.AppendID([]byte{'"'}, answer, choice, part.Position), '"'))
	}
	if part.NeedType {
		setMember(edits, p.Object, p.Type, "type", []byte(`"function"`))
	}
	if p.Args.IsObject() { // Ollama's native form
		edits.Set(p.Args, append(appendArguments([]byte{'"'}, p.Args), '"'))
	}
}

// appendArguments appends arguments that are an object as the contents of a JSON string.
func appendArguments(dst []byte, v jsonx.Value) []byte {
	raw := bytes.Clone(v.Raw())
	jsonx.MendLone(raw)
	return jsonx.AppendEscaped(dst, raw)
}

// setMember notes that a member of an object gets a value in place of the old one, which may be
// absent.
func setMember(edits *jsonx.Edits, object, old jsonx.Value, name string, value []byte) {
	if old.Exists() {
		edits.Set(old, value)
		return
	}
	edits.Add(object, append([]byte(`"`+name+`":`), value...))
}
