package chat

import "penstock/translate/jsonx"

// callPiece is a view of one element of the tool_calls of a delta or a message: a whole call, the beginning of one, or a
// piece of its arguments. It is the one way in which such an element is read, so that all who read it see the same call:
// of a member that is there twice the last one counts, as it does for clients.
type callPiece struct {
	call, function jsonx.Value // the objects, for members that we do not know

	index, id, kind, name, args jsonx.Value
}

// read makes p the view of v. The error is a *BadAnswer when v is no object.
func (p *callPiece) read(v jsonx.Value) error {
	*p = callPiece{call: v}
	if !v.IsObject() {
		return bad(badCall)
	}
	for it := v.Iter(); it.Next(); {
		switch string(plain(it.Key())) {
		case "index":
			p.index = it.Value()
		case "id":
			p.id = it.Value()
		case "type":
			p.kind = it.Value()
		case "function":
			p.function = it.Value()
		}
	}
	for it := p.function.Iter(); it.Next(); {
		switch string(plain(it.Key())) {
		case "name":
			p.name = it.Value()
		case "arguments":
			p.args = it.Value()
		}
	}
	return nil
}
