package toolcall

import (
	"penstock/translate/jsonx"
)

// ToolCallPiece is a view of one element of tool_calls: a whole tool call, the start of one, or a piece of
// its arguments. If a member occurs twice, Read uses the last value, as client libraries do.
type ToolCallPiece struct {
	Object, Function jsonx.Value // for callers that read other members

	Index, ID, Type, Name, Args jsonx.Value
}

// Read makes p a view of v and reports whether v is an object.
func (p *ToolCallPiece) Read(v jsonx.Value) bool {
	*p = ToolCallPiece{Object: v}
	if !v.IsObject() {
		return false
	}
	for it := v.Iter(); it.Next(); {
		switch string(it.Key().Name()) {
		case "index":
			p.Index = it.Value()
		case "id":
			p.ID = it.Value()
		case "type":
			p.Type = it.Value()
		case "function":
			p.Function = it.Value()
		}
	}
	for it := p.Function.Iter(); it.Next(); {
		switch string(it.Key().Name()) {
		case "name":
			p.Name = it.Value()
		case "arguments":
			p.Args = it.Value()
		}
	}
	return true
}

// HasName reports whether the piece has a name.
func (p *ToolCallPiece) HasName() bool { return p.Name.HasText() }
