package chat

import (
	"bytes"
	"strconv"

	"penstock/translate/jsonx"
)

// Clients join the pieces of a call by its index, answer it by its id, read its arguments out of a string, and some SDKs
// demand its type. Engines that send calls as a whole leave out one or the other; what is missing is added here, in streams
// and in whole answers.

// callGaps is what a stream needs to know of its calls.
type callGaps struct {
	told  map[callPlace]callTold
	count map[int]int // how many calls without an index each choice has
	again map[int]int // how many calls of a choice began with the index of the one before
	at    callPlace   // of the call that began last; without an index that of the choice's first one
	last  callSoFar   // of it; its arguments as far as they came with its name
}

// callPlace is where a call stands in an answer.
type callPlace struct{ choice, index int }

// callTold is what the client has been told of a call. It puts pieces of strings together, so each is told once.
type callTold struct{ id, ours, kind bool }

// fillCalls notes what the pieces of calls in a delta of a choice lack.
func (s *Stream) fillCalls(choice int, calls jsonx.Value) {
	var p callPiece
	for it := calls.Iter(); it.Next(); {
		if p.read(it.Value()) != nil {
			continue
		}
		told, given := p.index.Int()
		index := told
		if given {
			index += int64(s.gaps.shift(callPlace{choice, int(told)}, &p))
		} else {
			index = int64(s.gaps.number(choice, &p))
		}
		if !given || index != told {
			give(&s.edits, p.call, p.index, "index", strconv.AppendInt(nil, index, 10))
		}
		if HasText(p.name) || !given || index != told {
			s.repeat.forget() // what it remembers is of an earlier call
		}
		if index >= 0 && index < maxCalls { // else it is no call of an answer that could be told whole
			s.introduce(&p, callPlace{choice, int(index)})
		}
		p.quote(&s.edits)
	}
}

// introduce notes what the piece that names a call lacks of what is told once, and what comes too late.
func (s *Stream) introduce(p *callPiece, at callPlace) {
	told := s.gaps.told[at]
	before := told
	switch {
	case HasText(p.id) && told.ours: // clients would join it to ours
		s.edits.Delete(p.id)
	case HasText(p.id):
		told.id = true
	case HasText(p.name) && !told.id:
		told.id, told.ours = true, true
		p.giveID(&s.edits, s.answer.ID, at)
	}
	switch {
	case HasText(p.kind):
		told.kind = true
	case HasText(p.name) && !told.kind:
		told.kind = true
		p.giveType(&s.edits)
	}
	if told == before {
		return
	}
	if s.gaps.told == nil {
		s.gaps.told = map[callPlace]callTold{}
	}
	s.gaps.told[at] = told
}

// number returns the index of a piece that has none: that of the call before, unless the piece begins one, as joinCall has it.
func (g *callGaps) number(choice int, p *callPiece) int {
	n := g.count[choice]
	if n > 0 && !p.another(&g.last) {
		return n - 1
	}
	if g.count == nil {
		g.count = map[int]int{}
	}
	g.count[choice] = n + 1
	g.begin(callPlace{choice, 0}, p)
	return n
}

// another reports whether a piece without an index is of another call than the last one.
func (p *callPiece) another(last *callSoFar) bool {
	switch {
	case !HasText(p.name):
		return false
	case HasText(p.id) && len(last.id) > 0:
		return !bytes.Equal(last.id, inside(p.id))
	}
	return !bytes.Equal(last.name, inside(p.name)) || p.args.IsObject() || opens(p.args)
}

// shift returns what is to be added to the index of a piece, which is in at: how many calls came with the index of the one
// before. Engines that leave the name out of the later pieces of a call tell it with a beginning alone, so those pieces end
// what a name begins, be they empty: the short cut does not come here.
func (g *callGaps) shift(at callPlace, p *callPiece) int {
	same := g.at == at && len(g.last.name) > 0
	switch {
	case !HasText(p.name):
		if same && p.args.IsString() {
			g.last.args = append(g.last.args[:0], wholeArgs...)
		}
	case !same:
		g.begin(at, p)
	case p.begins(g.last, true):
		if g.again == nil {
			g.again = map[int]int{}
		}
		g.again[at.choice]++
		g.begin(at, p)
	}
	return g.again[at.choice]
}

// wholeArgs stands for arguments that are complete, whatever is in them.
const wholeArgs = "{}"

// begin takes down the beginning of a call.
func (g *callGaps) begin(at callPlace, p *callPiece) {
	g.at = at
	g.last = callSoFar{id: g.last.id[:0], name: g.last.name[:0], args: g.last.args[:0]}
	if HasText(p.id) {
		g.last.id = append(g.last.id, inside(p.id)...)
	}
	if HasText(p.name) {
		g.last.name = append(g.last.name, inside(p.name)...)
	}
	switch args := p.args; {
	case args.IsString() && len(args.Raw()) <= maxComplete:
		g.last.args = append(g.last.args, inside(args)...)
	case args.IsObject():
		g.last.args = append(g.last.args, wholeArgs...)
	}
}

// reset makes g as new, but for memory that is worth keeping.
func (g *callGaps) reset() {
	told := g.told
	if len(told) > keepCalls {
		told = nil
	}
	clear(told)
	*g = callGaps{told: told, last: callSoFar{id: keep(g.last.id), name: keep(g.last.name), args: keep(g.last.args)}}
}

// lacks reports whether a whole call has not all that giveID, giveType and quote add.
func (p *callPiece) lacks() bool {
	return !HasText(p.id) || !HasText(p.kind) || p.args.IsObject()
}

// giveID notes that a call gets an id. answer is our id of the answer.
func (p *callPiece) giveID(edits *jsonx.Edits, answer string, at callPlace) {
	give(edits, p.call, p.id, "id", append(AppendCallID([]byte{'"'}, answer, at.choice, at.index), '"'))
}

// giveType notes that a call gets its type.
func (p *callPiece) giveType(edits *jsonx.Edits) {
	give(edits, p.call, p.kind, "type", []byte(`"function"`))
}

// quote notes the quotes of arguments that have none.
func (p *callPiece) quote(edits *jsonx.Edits) {
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
