package chat

import (
	"bytes"

	"penstock/translate/jsonx"
)

// callSoFar is what joinCall looks at of a call: contents of JSON strings, each maybe empty.
type callSoFar struct {
	index          int
	id, name, args []byte
}

// joinCall returns which of the n calls of a choice a piece belongs to; n itself when it begins a new one, and then the
// index that the new one goes by. last is the call that the piece before was about; old returns what there is of a call.
//
// The index decides, and where it is left out a piece goes to the last call. Engines that send whole calls one after the
// other, all with index 0 or none, must be understood all the same: see begins.
func joinCall(p *callPiece, n, last int, old func(i int) callSoFar) (at, index int, err error) {
	number, given := p.index.Int()
	if given && (number < 0 || number >= maxCalls) {
		return 0, 0, bad(tooManyCalls)
	}
	at, index = -1, int(number)
	if given {
		for i := range n {
			if old(i).index == index {
				at = i
			}
		}
	} else {
		index = n
		if n > 0 {
			at = last
		}
	}
	if at >= 0 && !p.begins(old(at), given) {
		return at, index, nil
	}
	if n == maxCalls {
		return 0, 0, bad(tooManyCalls)
	}
	return n, index, nil
}

// begins reports whether a piece begins another call than c, although it has no index, or c's, which is given. Only a piece
// with a name does. A new id alone does not tell, since old vLLM makes up a new one for every piece, and says the name in each;
// that the arguments before are complete does, or that the name is another. Where there are no ids, arguments that are
// complete are followed by another name, or by the beginning of another object.
func (p *callPiece) begins(c callSoFar, given bool) bool {
	if !HasText(p.name) {
		return false
	}
	other := len(c.name) > 0 && !bytes.Equal(c.name, inside(p.name))
	if HasText(p.id) && len(c.id) > 0 {
		return !bytes.Equal(c.id, inside(p.id)) && (!given || other || complete(c.args))
	}
	return other && !given || (other || p.args.IsObject() || opens(p.args)) && complete(c.args)
}

// opens reports whether a string begins an object.
func opens(v jsonx.Value) bool {
	return v.IsString() && bytes.HasPrefix(bytes.TrimLeft(inside(v), " "), []byte{'{'})
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
