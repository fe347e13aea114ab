package toolcall

import (
	"bytes"
	"slices"
)

// Names holds the names of the tools that a request offers, each followed by a 0 byte.
type Names []byte

// find reports whether name is a tool's name, and whether a longer tool name starts with it.
func (n Names) find(name []byte) (whole, begins bool) {
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

// heldName is a name that waits for its continuation, and the id that arrived with the name.
type heldName struct {
	at       int // index of the tool call
	id, name []byte
}

// maxHeldID is the maximum length of an id that is kept.
const maxHeldID = 256

// Offer sets the names of the request's tools. A piece that is only the start of a name waits for
// its continuation. The names must not change until Reset.
func (a *Assembler) Offer(names Names) { a.names = names }

// Holds reports whether a tool call's name waits for its continuation.
func (a *Assembler) Holds() bool { return len(a.held) > 0 }

// heldOf returns the waiting name of the tool call at the given index, or nil if there is none.
func (a *Assembler) heldOf(at int) *heldName {
	for i := range a.held {
		if a.held[i].at == at {
			return &a.held[i]
		}
	}
	return nil
}

// join returns a name extended by a piece. The piece either continues the name or repeats it from
// the start, because some engines repeat what they have sent. join returns nil if the piece is
// another name.
func (a *Assembler) join(name, piece []byte) []byte {
	joined := slices.Concat(name, piece)
	if whole, begins := a.names.find(joined); whole || begins {
		return joined
	}
	if whole, begins := a.names.find(piece); (whole || begins) && bytes.HasPrefix(piece, name) {
		return slices.Clone(piece)
	}
	return nil
}

// hold reports whether a tool call's name still waits for its continuation after this piece. If it
// does not, part gets the name that waited, if any, and the id that arrived with that name.
func (a *Assembler) hold(at int, p *Piece, part *Part) bool {
	h := a.heldOf(at)
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
	if p.Named() {
		h.name = a.join(h.name, part.Name)
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

// hasArgs reports whether the piece has arguments, which end the name.
func (p *Piece) hasArgs() bool { return p.Args.HasText() || p.Args.IsObject() }

// Release ends the wait of names in a choice that has ended. What has arrived counts as the whole
// name.
func (a *Assembler) Release(choice int) (released []Part) {
	for i := 0; i < len(a.held); {
		h := a.held[i]
		t := &a.toolCalls[h.at]
		if !t.is(choice) {
			i++
			continue
		}
		part := Part{Position: int(t.position), ID: h.id, Name: h.name, Joined: true, TakeName: true}
		t.name = hash(h.name)
		a.identify(h.at, &part, t.id)
		released = append(released, part)
		a.held = slices.Delete(a.held, i, i+1)
	}
	return released
}
