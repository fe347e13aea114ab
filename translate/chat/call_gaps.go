package chat

import (
	"bytes"
	"strconv"

	"penstock/translate/jsonx"
)

// Clients join the pieces of a call by its index, answer it by its id, read its arguments out of a string, and some SDKs
// demand its type. Engines that send calls as a whole leave out one or the other; what is missing is added here, in streams
// and in whole answers.

// callGaps is what a stream needs to know of the calls of an engine that leaves something out; empty for all others.
type callGaps struct {
	made     map[callPlace]bool // the calls that have an id of ours
	count    map[int]int        // how many calls without an index each choice has
	id, name []byte             // of the one that began last
}

// callPlace is where a call stands in an answer.
type callPlace struct{ choice, index int }

// fillCalls notes what the pieces of calls in a delta of a choice lack.
func (s *Stream) fillCalls(choice int, calls jsonx.Value) {
	var p callPiece
	for it := calls.Iter(); it.Next(); {
		if p.read(it.Value()) != nil {
			continue
		}
		index, given := p.index.Int()
		if !given {
			index = int64(s.gaps.number(choice, &p))
			give(&s.edits, p.call, p.index, "index", strconv.AppendInt(nil, index, 10))
		}
		at := callPlace{choice, int(index)}
		switch made := s.gaps.made[at]; {
		case index < 0 || index >= maxCalls: // no call of an answer that could be told whole
		case made && HasText(p.id): // clients would join it to ours
			s.edits.Delete(p.id)
		case !made && HasText(p.name) && !HasText(p.id):
			if s.gaps.made == nil {
				s.gaps.made = map[callPlace]bool{}
			}
			s.gaps.made[at] = true
			p.giveID(&s.edits, s.answer.ID, at)
		}
		p.fill(&s.edits)
	}
}

// number returns the index of a piece that has none: that of the call before, unless the piece begins one, as joinCall has it.
func (g *callGaps) number(choice int, p *callPiece) int {
	n := g.count[choice]
	if n > 0 && !p.another(g.id, g.name) {
		return n - 1
	}
	if g.count == nil {
		g.count = map[int]int{}
	}
	g.count[choice] = n + 1
	g.id, g.name = g.id[:0], g.name[:0]
	if HasText(p.id) {
		g.id = append(g.id, inside(p.id)...)
	}
	if HasText(p.name) {
		g.name = append(g.name, inside(p.name)...)
	}
	return n
}

// another reports whether a piece without an index is of another call than the one of that id and name.
func (p *callPiece) another(id, name []byte) bool {
	switch {
	case !HasText(p.name):
		return false
	case HasText(p.id) && len(id) > 0:
		return !bytes.Equal(id, inside(p.id))
	}
	return !bytes.Equal(name, inside(p.name)) || p.args.IsObject() || opens(p.args)
}

// lacks reports whether a whole call has not all that giveID and fill add.
func (p *callPiece) lacks() bool {
	return !HasText(p.id) || !HasText(p.kind) || p.args.IsObject()
}

// giveID notes that a call gets an id. answer is our id of the answer.
func (p *callPiece) giveID(edits *jsonx.Edits, answer string, at callPlace) {
	give(edits, p.call, p.id, "id", append(AppendCallID([]byte{'"'}, answer, at.choice, at.index), '"'))
}

// fill notes the type of a call, where its name is told without one, and the quotes of its arguments.
func (p *callPiece) fill(edits *jsonx.Edits) {
	if HasText(p.name) && !HasText(p.kind) {
		give(edits, p.call, p.kind, "type", []byte(`"function"`))
	}
	if p.args.IsObject() { // Ollama's native shape
		edits.Set(p.args, append(jsonx.AppendEscaped([]byte{'"'}, p.args.Raw()), '"'))
	}
}

// give notes that a member of an object gets a value in place of the old one, which may be absent.
func give(edits *jsonx.Edits, object, old jsonx.Value, name string, value []byte) {
	if old.Exists() {
		edits.Set(old, value)
		return
	}
	edits.Add(object, append([]byte(`"`+name+`":`), value...))
}
