package answer

import (
	"bytes"
	"slices"
	"strconv"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
)

// Clients join the pieces of a tool call by their index, send results with the id, and read the
// arguments from a string. Some SDKs require the type. This file adds members that an engine omits.

var emptyText = []byte(`""`)

// hasTruncatedToolCall reports whether the last tool call may be incomplete because of f. The edge
// does not complete the arguments of such a tool call, because a tool must not run with fewer
// arguments than the model intended.
func isTruncated(f Finish) bool { return f == FinishLength || f == FinishContentFilter }

// finalToolCallPieces returns the pieces that clients still need at the end of a choice. These
// pieces are names that were held back, and {} for empty arguments, because clients parse arguments
// as JSON.
func finalToolCallPieces(tools *toolcall.Assembler, c *Choice, answer string) (pieces [][]byte) {
	if !tools.HasToolCalls(c.Index) {
		return nil
	}
	for _, part := range tools.ReleaseHeldNames(c.Index) {
		pieces = append(pieces, namePiece(&part, answer, c.Index))
	}
	if c.hasTruncatedToolCall() {
		return pieces
	}
	for _, position := range tools.TakeBlankArguments(nil, c.Index) {
		pieces = append(pieces, argumentsPiece(position, []byte(`"{}"`)))
	}
	return pieces
}

func namePiece(part *toolcall.PieceContribution, answer string, choice int) []byte {
	piece := strconv.AppendInt([]byte(`{"index":`), int64(part.Position), 10)
	switch { // the piece has the id if no earlier piece had it
	case part.TakeID:
		piece = appendQuoted(append(piece, `,"id":`...), part.ID)
	case part.MakeID:
		piece = appendQuoted(append(piece, `,"id":`...), toolcall.AppendGeneratedID(nil, answer, choice, part.Position))
	}
	piece = appendQuoted(append(piece, `,"type":"function","function":{"name":`...), part.Name)
	return append(piece, `,"arguments":""}}`...)
}

func setJoinedName(edits *jsonx.Edits, p *toolcall.ToolCallPiece, part *toolcall.PieceContribution) {
	if part.TakeID {
		setMember(edits, p.Object, p.ID, "id", appendQuoted(nil, part.ID))
	}
	setMember(edits, p.Function, p.Name, "name", appendQuoted(nil, part.Name))
}

// completeArguments returns the replacement for the arguments of a whole tool call, or nil if they
// are kept.
func completeArguments(p *toolcall.ToolCallPiece, cut bool) []byte {
	switch {
	case !p.Function.IsObject() || p.Args.Exists() && !p.Args.IsString() && !p.Args.IsNull():
		return nil
	case p.Args.IsString() && (cut || !toolcall.IsBlank(p.Args.RawContents())):
		return nil
	case cut:
		return emptyText
	case p.Args.IsString():
		return appendQuoted(nil, slices.Concat(p.Args.RawContents(), emptyObject))
	}
	return []byte(`"{}"`)
}

func hasWrongToolCallIndex(p *toolcall.ToolCallPiece, part *toolcall.PieceContribution) bool {
	index, given := p.Index.Int()
	return p.Index.Exists() && (!given || index != int64(part.Position))
}

// addToolCallMembers adds the members that clients need to a piece. answer is the edge's id for the
// answer.
func addToolCallMembers(edits *jsonx.Edits, p *toolcall.ToolCallPiece, part *toolcall.PieceContribution, answer string, choice int) {
	if part.MakeID {
		setMember(edits, p.Object, p.ID, "id", append(toolcall.AppendGeneratedID([]byte{'"'}, answer, choice, part.Position), '"'))
	}
	if part.NeedType {
		setMember(edits, p.Object, p.Type, "type", []byte(`"function"`))
	}
	if p.Args.IsObject() { // as in Ollama's native format
		edits.Set(p.Args, append(appendArguments([]byte{'"'}, p.Args), '"'))
	}
}

func appendArguments(dst []byte, v jsonx.Value) []byte {
	raw := bytes.Clone(v.Raw())
	jsonx.ReplaceLoneSurrogates(raw)
	return jsonx.AppendEscaped(dst, raw)
}

// setMember sets a member of an object. The old value may be absent.
func setMember(edits *jsonx.Edits, object, old jsonx.Value, name string, value []byte) {
	if old.Exists() {
		edits.Set(old, value)
		return
	}
	edits.Add(object, append([]byte(`"`+name+`":`), value...))
}
