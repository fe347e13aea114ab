package toolcall

import (
	"bytes"
	"slices"
)

// ToolNames contains the names of the tools that a request offers. Each name is followed by a 0
// byte.
type ToolNames []byte

// find reports whether name is the name of a tool, and whether it is the start of a longer name.
func (n ToolNames) find(name []byte) (whole, begins bool) {
	for rest := []byte(n); len(rest) > 0 && !whole; {
		var tool []byte
		tool, rest, _ = bytes.Cut(rest, []byte{0})
		if bytes.HasPrefix(tool, name) {
			whole = len(tool) == len(name)
			begins = begins || !whole
		}
	}
	return whole, begins
}

type heldName struct {
	at       int
	id, name []byte
}

const maxHeldID = 256

// SetToolNames sets the names of the request's tools. If an engine sends only the start of one of
// these names, the start is held back until the name is complete. The names must not change until
// Reset.
func (a *Assembler) SetToolNames(names ToolNames) { a.names = names }

// HasHeldNames reports whether a tool call's name is held back.
func (a *Assembler) HasHeldNames() bool { return len(a.held) > 0 }

func (a *Assembler) findHeldName(at int) *heldName {
	for i := range a.held {
		if a.held[i].at == at {
			return &a.held[i]
		}
	}
	return nil
}

// appendNamePiece appends a piece to a held name. Some engines repeat the name from its start, so
// a piece that does this is also accepted. If the piece belongs to a different name, the result
// is nil.
func (a *Assembler) appendNamePiece(name, piece []byte) []byte {
	joined := slices.Concat(name, piece)
	if whole, begins := a.names.find(joined); whole || begins {
		return joined
	}
	if whole, begins := a.names.find(piece); (whole || begins) && bytes.HasPrefix(piece, name) {
		return slices.Clone(piece)
	}
	return nil
}

// holdName reports whether the name of the tool call with index at is still held back after this
// piece. Once the name is complete, holdName copies the name and the id to part.
func (a *Assembler) holdName(at int, p *ToolCallPiece, part *PieceContribution) bool {
	h := a.findHeldName(at)
	if h == nil {
		if len(part.Name) == 0 || p.hasArgs() || len(part.ID) > maxHeldID {
			return false
		}
		if whole, begins := a.names.find(part.Name); whole || !begins {
			return false
		}
		a.held = append(a.held, heldName{at: at, id: bytes.Clone(part.ID), name: bytes.Clone(part.Name)})
		return true
	}
	if p.HasName() {
		h.name = a.appendNamePiece(h.name, part.Name)
	}
	if len(h.id) == 0 && len(part.ID) <= maxHeldID {
		h.id = bytes.Clone(part.ID)
	}
	if whole, _ := a.names.find(h.name); !whole && !p.hasArgs() {
		return true
	}
	part.ID, part.Name, part.Joined = h.id, h.name, true
	a.held = slices.DeleteFunc(a.held, func(h heldName) bool { return h.at == at })
	return false
}

// hasArgs reports whether the piece has arguments, which means that the name is complete.
func (p *ToolCallPiece) hasArgs() bool { return p.Args.HasText() || p.Args.IsObject() }

// ReleaseHeldNames returns the held names of a choice that has ended.
func (a *Assembler) ReleaseHeldNames(choice int) (released []PieceContribution) {
	for i := 0; i < len(a.held); {
		h := a.held[i]
		t := &a.toolCalls[h.at]
		if !t.isInChoice(choice) {
			i++
			continue
		}
		part := PieceContribution{Position: int(t.position), ID: h.id, Name: h.name, Joined: true, TakeName: true}
		t.name = hashText(h.name)
		a.chooseID(h.at, &part, t.id)
		released = append(released, part)
		a.held = slices.Delete(a.held, i, i+1)
	}
	return released
}
