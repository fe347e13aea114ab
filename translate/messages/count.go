package messages

import (
	"strconv"

	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// counted are the members of a request that its number of tokens follows from.
var counted = [...]string{"messages", "system", "tools", "tool_choice", "thinking"}

// CountSegments appends to segs the pieces of a count_tokens request for an engine that speaks this
// dialect itself: the client's own members that matter, as NativeSegments would send them, under
// the name that the engine has for the model. Nothing else of the client's goes along, as it might
// steer the engine; nor does thinking that is sealed, which is opened. body is one that Decode has
// accepted; the pieces borrow from it.
func CountSegments(segs [][]byte, body []byte, n *chat.NativeRequest) [][]byte {
	root := parseAgain(body)
	var edits jsonx.Edits
	for it := root.Iter(); it.Next(); {
		switch {
		case it.Key().Is("model"):
			edits.Set(it.Value(), jsonx.AppendStringS(nil, n.Served))
		case !isCounted(it.Key()) || !chat.Given(it.Value()):
			edits.Delete(it.Value())
		}
	}
	leaveOut(&edits, root)
	editHistory(&edits, root, n)
	return edits.Segments(segs, body)
}

func isCounted(k jsonx.Key) bool {
	for _, name := range counted {
		if k.Is(name) {
			return true
		}
	}
	return false
}

// ReadCount reads the answer to a count_tokens request. ok is false when it is none.
func ReadCount(answer []byte) (tokens int, ok bool) {
	var d jsonx.Doc
	if d.Parse(answer, jsonx.Options{Record: 1}) != nil {
		return 0, false
	}
	n, ok := d.Root().Get("input_tokens").Int()
	if !ok || n < 0 || n > maxCount {
		return 0, false
	}
	return int(n), true
}

// maxCount is more than any prompt has.
const maxCount = 1 << 31

// AppendCount appends the answer to a count_tokens request.
func AppendCount(dst []byte, tokens int) []byte {
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(tokens), 10)
	return append(dst, '}')
}
