package messages

import (
	"bytes"
	"errors"

	"penstock/translate"
	"penstock/translate/jsonx"
)

// The errors for a malformed tool call.
var (
	errToolCallWithoutName = &translate.BadAnswerError{Reason: "a tool call without a name"}
	errArguments           = &translate.BadAnswerError{Reason: "a tool call with arguments that break off", ByModel: true}
	errAfterArguments      = &translate.BadAnswerError{Reason: "a tool call that goes on behind its arguments"}
)

type toolInput struct {
	doc     jsonx.Doc
	in, out []byte
}

var emptyToolInput = []byte("{}")

type inputKind uint8

const (
	inputKindObject    inputKind = iota // a JSON object, or empty
	inputKindTruncated                  // truncated JSON
	inputKindOther                      // JSON other than an object, or not JSON
)

// read returns the arguments as a JSON value. If they are valid JSON, it returns them unchanged. If
// they are empty, it returns nil. Otherwise it returns a JSON string. args are the contents of a
// JSON string. The slice is valid until the next read.
func (n *toolInput) read(args []byte) (value []byte, is inputKind) {
	if len(args) == 0 {
		return nil, inputKindObject
	}
	n.in = appendQuoted(n.in[:0], args)
	if n.doc.Parse(n.in, jsonx.Options{}) != nil {
		panic("BUG: the arguments are not from a string")
	}
	n.out = n.doc.Root().AppendText(n.out[:0])
	if len(bytes.TrimLeft(n.out, " \t\r\n")) == 0 {
		return nil, inputKindObject
	}
	err := n.doc.Parse(n.out, jsonx.Options{Record: 1, Paired: true})
	var syntax *jsonx.SyntaxError
	// The escapes within the arguments contain half a surrogate pair.
	if errors.As(err, &syntax) && syntax.IsLoneSurrogate() {
		jsonx.ReplaceLoneSurrogates(n.out)
		err = n.doc.Parse(n.out, jsonx.Options{Record: 1})
	}
	if err != nil {
		if errors.As(err, &syntax) && syntax.Offset == len(n.out) {
			return n.in, inputKindTruncated
		}
		return n.in, inputKindOther
	}
	switch root := n.doc.Root(); {
	case root.IsObject():
		return root.Raw(), inputKindObject
	case root.IsNull():
		return nil, inputKindObject
	default:
		return root.Raw(), inputKindOther
	}
}

func (n *toolInput) reset() {
	n.doc.Reset()
	if cap(n.in)+cap(n.out) > maxKeptBytes {
		n.in, n.out = nil, nil
	}
}

const maxKeptBytes = 64 << 10

func appendQuoted(dst, contents []byte) []byte {
	return append(append(append(dst, '"'), contents...), '"')
}
