package answer

import (
	"bytes"
	"slices"
	"strconv"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
)

// Clients join a tool call's pieces by the index, answer the tool call by the id and read the
// arguments from a string. Some SDKs require the type. Members that an engine omits are added here,
// in streams and in whole answers.

var emptyText = []byte(`""`)

// isCut reports whether an answer that ends with f may have an incomplete last tool call. If so,
// the arguments are not changed, because a tool must not run with fewer arguments than the model
// meant.
func isCut(f Finish) bool { return f == FinishLength || f == FinishContentFilter }

// endToolCalls ends the tool calls of a choice. It returns the pieces that clients still need:
// names that had to wait, and {} for blank arguments, because clients parse arguments as JSON.
func endToolCalls(tools *toolcall.Assembler, c *Choice, answer string) (pieces [][]byte) {
	if !tools.Any(c.Index) {
		return nil
	}
	for _, part := range tools.Release(c.Index) {
		pieces = append(pieces, namePiece(&part, answer, c.Index))
	}
	if c.cut() {
		return pieces
	}
	for _, position := range tools.Fill(nil, c.Index) {
		pieces = append(pieces, argumentsPiece(position, []byte(`"{}"`)))
	}
	return pieces
}

// namePiece returns the first piece of a tool call whose name waited until the end.
func namePiece(part *toolcall.Part, answer string, choice int) []byte {
	piece := strconv.AppendInt([]byte(`{"index":`), int64(part.Position), 10)
	switch { // in either case no earlier piece had the id
	case part.TakeID:
		piece = appendQuoted(append(piece, `,"id":`...), part.ID)
	case part.MakeID:
		piece = appendQuoted(append(piece, `,"id":`...), toolcall.AppendID(nil, answer, choice, part.Position))
	}
	piece = appendQuoted(append(piece, `,"type":"function","function":{"name":`...), part.Name)
	return append(piece, `,"arguments":""}}`...)
}

// addJoined records that a piece gets the name that waited for it, and the id that arrived with
// that name.
func addJoined(edits *jsonx.Edits, p *toolcall.Piece, part *toolcall.Part) {
	if part.TakeID {
		setMember(edits, p.Object, p.ID, "id", appendQuoted(nil, part.ID))
	}
	setMember(edits, p.Function, p.Name, "name", appendQuoted(nil, part.Name))
}

// completeArguments returns the replacement for the arguments of a whole tool call, or nil if they
// are kept.
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

// wrongIndex reports whether a whole tool call's index differs from its position.
func wrongIndex(p *toolcall.Piece, part *toolcall.Part) bool {
	index, given := p.Index.Int()
	return p.Index.Exists() && (!given || index != int64(part.Position))
}

// addToolCallMembers records the members that are added to the piece with a tool call's name.
// answer is the edge's id for the answer.
func addToolCallMembers(edits *jsonx.Edits, p *toolcall.Piece, part *toolcall.Part, answer string, choice int) {
	if part.MakeID {
		setMember(edits, p.Object, p.ID, "id", append(toolcall.AppendID([]byte{'"'}, answer, choice, part.Position), '"'))
	}
	if part.NeedType {
		setMember(edits, p.Object, p.Type, "type", []byte(`"function"`))
	}
	if p.Args.IsObject() { // Ollama's native format
		edits.Set(p.Args, append(appendArguments([]byte{'"'}, p.Args), '"'))
	}
}

// appendArguments appends arguments that are an object, as the contents of a JSON string.
func appendArguments(dst []byte, v jsonx.Value) []byte {
	raw := bytes.Clone(v.Raw())
	jsonx.MendLone(raw)
	return jsonx.AppendEscaped(dst, raw)
}

// setMember records a new value for a member of an object. The old value may be absent.
func setMember(edits *jsonx.Edits, object, old jsonx.Value, name string, value []byte) {
	if old.Exists() {
		edits.Set(old, value)
		return
	}
	edits.Add(object, append([]byte(`"`+name+`":`), value...))
}
