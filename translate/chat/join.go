package chat

import (
	"bytes"

	"penstock/translate/jsonx"
)

// joinCall returns which of the n calls of a choice a piece belongs to; n itself when it begins a new one, and then the
// index that the new one goes by. last is the call that the piece before was about; old returns the index, the id and the
// arguments so far of a call, as contents of JSON strings.
//
// The index decides. Two kinds of engines must be understood all the same: those that leave it out, where a new id
// starts a new call, and those that send whole calls one after the other, all with index 0. An id alone does not tell
// these apart, since old vLLM makes up a new one for every piece; that the arguments before are complete does.
func joinCall(p *callPiece, n, last int, old func(i int) (index int, id, args []byte)) (at, index int, err error) {
	id := p.id
	number, given := p.index.Int()
	if given && (number < 0 || number >= maxCalls) {
		return 0, 0, bad(tooManyCalls)
	}
	at, index = -1, int(number)
	if given {
		for i := range n {
			if j, _, _ := old(i); j == index {
				at = i
			}
		}
	} else {
		index = n
		if n > 0 {
			at = last
		}
	}
	if at >= 0 {
		_, oldID, args := old(at)
		if !HasText(id) || len(oldID) == 0 || bytes.Equal(oldID, inside(id)) || !HasText(p.name) || given && !complete(args) {
			return at, index, nil
		}
	}
	if n == maxCalls {
		return 0, 0, bad(tooManyCalls)
	}
	return n, index, nil
}

// maxComplete bounds the arguments that are looked at: it is done for each piece, so an engine could make it costly.
const maxComplete = 64 << 10

// complete reports whether arguments, as the contents of a JSON string, are a whole JSON object.
func complete(args []byte) bool {
	if len(args) == 0 || len(args) > maxComplete || args[len(args)-1] != '}' {
		return false
	}
	var d jsonx.Doc
	quoted := append(append([]byte{'"'}, args...), '"')
	if d.Parse(quoted, jsonx.Options{}) != nil {
		return false
	}
	text := d.Root().AppendText(nil)
	return d.Parse(text, jsonx.Options{Record: 1}) == nil
}
