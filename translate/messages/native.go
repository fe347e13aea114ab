package messages

import (
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Native reads an engine's answer in this dialect and turns it into chat. Engines' streams are not
// always in order (blocks that overlap, members that are missing), so they are read for their
// contents and written anew by Stream.
//
// The zero value is ready. A Native belongs to one attempt at a time.
type Native struct {
	reader                   dialects.NativeReader
	stop                     []byte
	input, read, made, wrote int
	hasCounts                bool
	finish                   string
}

var _ translate.NativeReader = (*Native)(nil)

// Reset makes n ready for another answer.
func (n *Native) Reset() {
	n.reader.Reset()
	*n = Native{reader: n.reader, stop: n.stop[:0]}
}

var (
	eventNames = jsonx.NewNames("type", "index", "message", "content_block", "delta", "usage", "error")
	partNames  = jsonx.NewNames("type", "text", "thinking", "partial_json", "id", "name", "input",
		"stop_reason", "stop_sequence")
)

const (
	eventType = iota
	eventIndex
	eventMessage
	eventBlock
	eventDelta
	eventUsage
	eventError
	eventMembers
)

const (
	partType = iota
	partText
	partThinking
	partJSON
	partID
	partName
	partInput
	partStop
	partSequence
	partMembers
)

// recordNative reaches the members of a block in the content of a message.
const recordNative = 5

// The errors of an answer that lacks what the dialect demands.
var (
	errNoBlocks = &translate.BadAnswer{Reason: "an answer without content"}
	errNoReason = &translate.BadAnswer{Reason: "an answer without a stop_reason"}
)

// Read returns what one event of the engine amounts to in chat: a chunk, or an event without data
// when it brings nothing. The error is a *translate.BadAnswer, or a *engineerror.Error when the
// engine reports a failure. What is returned borrows from n until the next Read.
func (n *Native) Read(ev sse.Event) (sse.Event, error) {
	var e [eventMembers]jsonx.Value
	if ok, err := n.reader.Event(ev, recordNative, eventNames, e[:]); !ok {
		return sse.Event{}, err
	}
	var err error
	switch t := e[eventType]; {
	case t.EqualText("content_block_delta"):
		err = n.piece(e[eventDelta], e[eventIndex])
	case t.EqualText("content_block_start"):
		err = n.piece(e[eventBlock], e[eventIndex])
	case t.EqualText("message_start"):
		n.count(e[eventMessage].Get("usage"))
		n.reader.Chunk = answer.AppendRoleChunk(n.reader.Chunk, n.usage())
	case t.EqualText("message_delta"):
		n.count(e[eventUsage])
		err = n.ends(e[eventDelta])
	case t.EqualText("message_stop"):
		n.reader.Ended = true
		if n.finish == "" {
			n.reader.Chunk = append(n.reader.Chunk, "[DONE]"...)
		} else {
			n.reader.Chunk = answer.AppendEndChunk(n.reader.Chunk, n.finish, n.stop, n.usage())
		}
	case dialects.IsError(ev, t, e[eventError]):
		err = engineerror.ParseNative(ev.Data)
	}
	return sse.Event{Data: n.reader.Chunk}, err
}

// Done reports whether the engine has ended its answer.
func (n *Native) Done() bool { return n.reader.Ended }

// piece takes a delta of a block, or a block at its beginning, which may hold something already.
func (n *Native) piece(v, index jsonx.Value) error {
	var p [partMembers]jsonx.Value
	if err := dialects.Members(v, partNames, p[:]); err != nil {
		return err
	}
	t := p[partType]
	switch {
	case t.EqualText("text_delta"), t.EqualText("text"):
		n.reader.Text(answer.MemberContent, p[partText])
	case t.EqualText("thinking_delta"), t.EqualText("thinking"):
		n.reader.Text(answer.MemberReasoning, p[partThinking])
	case t.EqualText("input_json_delta"):
		if v := p[partJSON]; v.HasText() {
			n.reader.ToolCall(blockIndex(index), nil, nil, v.Inside())
		}
	case t.EqualText("tool_use"):
		n.reader.ToolCall(blockIndex(index), dialects.Text(p[partID]), dialects.Text(p[partName]), arguments(p[partInput]))
	}
	return nil
}

// blockIndex is a block's number, to which the pieces of a tool call refer.
func blockIndex(index jsonx.Value) int {
	i, _ := index.Int()
	return int(i)
}

// arguments returns an input as the contents of a JSON string. The empty input at the beginning of
// a streamed tool call is nothing.
func arguments(v jsonx.Value) []byte {
	if !chat.Given(v) || v.IsObject() && v.Len() == 0 || v.IsString() && !v.HasText() {
		return nil
	}
	return jsonx.AppendEscaped(nil, v.Raw())
}

// ends takes the reason why the engine stopped, which counts once message_stop has come.
func (n *Native) ends(delta jsonx.Value) error {
	var p [partMembers]jsonx.Value
	if err := dialects.Members(delta, partNames, p[:]); err != nil {
		return err
	}
	if v := p[partStop]; v.HasText() {
		n.finish = answer.WordOf(v)
		n.stop = append(n.stop[:0], dialects.Text(p[partSequence])...)
	}
	return nil
}

// count keeps the engine's counts; later ones replace earlier ones.
func (n *Native) count(v jsonx.Value) {
	for it := v.Iter(); v.IsObject() && it.Next(); {
		to := (*int)(nil)
		switch string(it.Key().Raw()) {
		case "input_tokens":
			to = &n.input
		case "cache_read_input_tokens":
			to = &n.read
		case "cache_creation_input_tokens":
			to = &n.made
		case "output_tokens":
			to = &n.wrote
		}
		if to != nil && it.Value().IsNumber() {
			*to, n.hasCounts = translate.Count(it.Value()), true
		}
	}
}

func (n *Native) usage() translate.Usage {
	if !n.hasCounts {
		return translate.Usage{}
	}
	return dialects.Usage(n.input+n.read+n.made, n.read, n.wrote, 0)
}

// AppendCompletion appends the completion that a whole answer amounts to. An error that stands in
// its place is appended as it is, for answer.Completion to find. The error is a
// *translate.BadAnswer.
func (n *Native) AppendCompletion(dst, body []byte) ([]byte, error) {
	n.Reset()
	root, failed, err := n.reader.Whole(body, recordNative)
	switch {
	case err != nil:
		return dst, err
	case failed:
		return append(dst, body...), nil
	}
	blocks, reason := root.Get("content"), root.Get("stop_reason")
	switch {
	case !blocks.IsArray():
		return dst, errNoBlocks
	case !reason.HasText(): // engines have no word here for an answer that they gave up
		return dst, errNoReason
	}
	var w answer.CompletionBuilder
	for it := blocks.Iter(); it.Next(); {
		var p [partMembers]jsonx.Value
		if err := dialects.Members(it.Value(), partNames, p[:]); err != nil {
			return dst, err
		}
		switch t := p[partType]; {
		case t.EqualText("text"):
			w.Content = append(w.Content, dialects.Text(p[partText])...)
		case t.EqualText("thinking"):
			w.Reasoning = append(w.Reasoning, dialects.Text(p[partThinking])...)
		case t.EqualText("tool_use"):
			w.AddToolCall(dialects.Text(p[partID]), dialects.Text(p[partName]), arguments(p[partInput]))
		}
	}
	n.count(root.Get("usage"))
	return w.Append(dst, answer.WordOf(reason), dialects.Text(root.Get("stop_sequence")), n.usage()), nil
}
