package messages

import (
	"bytes"
	"errors"

	"penstock/translate"
	"penstock/translate/jsonx"
)

// The ways in which a tool call is malformed.
var (
	errNoName    = &translate.BadAnswer{Reason: "a tool call without a name"}
	errArguments = &translate.BadAnswer{Reason: "a tool call with arguments that break off", ByModel: true}
	errLate      = &translate.BadAnswer{Reason: "a tool call that goes on behind its arguments"}
)

// toolInput reads the arguments of tool calls.
type toolInput struct {
	doc     jsonx.Doc
	in, out []byte
}

var noInput = []byte("{}")

// inputKind classifies the arguments of a tool call.
type inputKind uint8

const (
	inputObject inputKind = iota // a JSON object, or nothing
	inputCut                     // JSON that is cut off
	inputOther                   // JSON other than an object, or not JSON
)

// read returns the input in args, which are the contents of a JSON string: JSON unchanged, nil if
// args is empty, and otherwise args as a JSON string. The slice is valid until the next read.
func (n *toolInput) read(args []byte) (value []byte, is inputKind) {
	if len(args) == 0 {
		return nil, inputObject
	}
	n.in = quoted(n.in[:0], args)
	if n.doc.Parse(n.in, jsonx.Options{}) != nil {
		panic("BUG: the arguments are not from a string")
	}
	n.out = n.doc.Root().AppendText(n.out[:0])
	if len(bytes.TrimLeft(n.out, " \t\r\n")) == 0 {
		return nil, inputObject
	}
	err := n.doc.Parse(n.out, jsonx.Options{Record: 1, Paired: true})
	var syntax *jsonx.SyntaxError
	if errors.As(err, &syntax) && syntax.Lone() { // half of a pair, one level of escapes deeper than those that the answer's reader replaces
		jsonx.MendLone(n.out)
		err = n.doc.Parse(n.out, jsonx.Options{Record: 1})
	}
	if err != nil {
		if errors.As(err, &syntax) && syntax.Offset == len(n.out) {
			return n.in, inputCut
		}
		return n.in, inputOther
	}
	switch root := n.doc.Root(); {
	case root.IsObject():
		return root.Raw(), inputObject
	case root.IsNull():
		return nil, inputObject
	default:
		return root.Raw(), inputOther
	}
}

// reset releases the arguments, and buffers that have grown large.
func (n *toolInput) reset() {
	n.doc.Reset()
	if cap(n.in)+cap(n.out) > keepInput {
		n.in, n.out = nil, nil
	}
}

const keepInput = 64 << 10

// quoted appends a JSON string with the given contents.
func quoted(dst, contents []byte) []byte {
	return append(append(append(dst, '"'), contents...), '"')
}
