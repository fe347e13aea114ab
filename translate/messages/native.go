package messages

import (
	"bytes"

	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// NativeSegments appends to segs the pieces of the request for an engine that speaks this dialect
// itself: the client's bytes, with these changes and no others. The model has the engine's name;
// the token limit and the effort are the checked ones; members that steer an engine go, and so do
// server tools, their servers and the billing block, which no engine of ours is to see. Inputs of
// tool calls that are no objects become objects, as engines refuse others. body is one that Decode
// has accepted; the pieces borrow from it.
func NativeSegments(segs [][]byte, body []byte, n *chat.NativeRequest) [][]byte {
	root := parseAgain(body)
	var edits jsonx.Edits
	n.Edit(&edits, root)
	n.Limit(&edits, root, "max_tokens")
	if n.Effort != "none" { // of thinking that is disabled; output_config has no word for it
		n.Lower(&edits, root.Get("output_config").Get("effort"))
	}
	for _, name := range [...]string{"mcp_servers", "container"} { // places that a client would have the engine go to
		if v := root.Get(name); v.Exists() {
			edits.Delete(v)
		}
	}
	leaveOut(&edits, root)
	return edits.Segments(segs, body)
}

// parseAgain returns the root of a body that Decode has accepted.
func parseAgain(body []byte) jsonx.Value {
	var d jsonx.Doc
	if d.Parse(body, jsonx.Options{MaxDepth: parseOptions.MaxDepth, MaxNodes: parseOptions.MaxNodes, Record: 5}) != nil {
		panic("BUG: a body that was decoded is not JSON")
	}
	return d.Root()
}

// leaveOut notes what engines are not to see of the tools and the system prompt, and wraps inputs.
func leaveOut(edits *jsonx.Edits, root jsonx.Value) {
	for it := root.Get("tools").Iter(); it.Next(); {
		if t := it.Value().Get("type"); chat.Given(t) && !t.EqualText("custom") {
			edits.Delete(it.Value())
		}
	}
	if system := root.Get("system"); system.IsArray() {
		for it := system.Iter(); it.Next(); {
			if text := it.Value().Get("text"); text.IsString() && bytes.HasPrefix(text.Inside(), billing) {
				edits.Delete(it.Value())
			}
		}
	}
	wrapInputs(edits, root.Get("messages"))
}

// wrapInputs makes objects of the inputs of tool calls that are none. Clients send such inputs back
// after a malformed tool call.
func wrapInputs(edits *jsonx.Edits, messages jsonx.Value) {
	var args chat.Arguments
	for it := messages.Iter(); it.Next(); {
		content := it.Value().Get("content")
		if !content.IsArray() {
			continue
		}
		for block := content.Iter(); block.Next(); {
			input := block.Value().Get("input")
			if block.Value().Get("type").EqualText("tool_use") && chat.Given(input) && !input.IsObject() {
				edits.Set(input, bytes.Clone(args.Object(input)))
			}
		}
	}
}

// Native reads an engine's answer in this dialect and turns it into chat. Engines' streams are not
// always in order (blocks that overlap, members that are missing), so they are read for their
// contents and written anew by Stream.
//
// The zero value is ready. A Native belongs to one attempt at a time.
type Native struct {
	doc                      jsonx.Doc
	out, stop                []byte
	input, read, made, wrote int
	hasCounts                bool
	finish                   string
	done                     bool
}

var _ translate.NativeReader = (*Native)(nil)

// Reset makes n ready for another answer.
func (n *Native) Reset() {
	n.doc.Reset()
	*n = Native{doc: n.doc, out: n.out[:0], stop: n.stop[:0]}
}

var (
	eventNames = jsonx.NewNames("type", "index", "message", "content_block", "delta", "usage", "error")
	partNames  = jsonx.NewNames("type", "text", "thinking", "partial_json", "id", "name", "input", "stop_reason", "stop_sequence")
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
// when it brings nothing. The error is a *translate.BadAnswer, or a *engineerror.Error when the engine
// reports a failure. What is returned borrows from n until the next Read.
func (n *Native) Read(ev sse.Event) (sse.Event, error) {
	if n.done || ev.Blank() {
		return sse.Event{}, nil
	}
	if err := answer.ParseNative(&n.doc, ev.Data, recordNative); err != nil {
		return sse.Event{}, err
	}
	var e [eventMembers]jsonx.Value
	if err := answer.NativeMembers(n.doc.Root(), eventNames, e[:]); err != nil {
		return sse.Event{}, err
	}
	n.out = n.out[:0]
	var err error
	switch t := e[eventType]; {
	case t.EqualText("content_block_delta"):
		err = n.piece(e[eventDelta], e[eventIndex])
	case t.EqualText("content_block_start"):
		err = n.piece(e[eventBlock], e[eventIndex])
	case t.EqualText("message_start"):
		n.count(e[eventMessage].Get("usage"))
		n.out = answer.AppendRoleChunk(n.out, n.usage())
	case t.EqualText("message_delta"):
		n.count(e[eventUsage])
		err = n.ends(e[eventDelta])
	case t.EqualText("message_stop"):
		n.done = true
		if n.finish == "" {
			n.out = append(n.out, "[DONE]"...)
		} else {
			n.out = answer.AppendEndChunk(n.out, n.finish, n.stop, n.usage())
		}
	case chat.Given(e[eventError]), t.EqualText("error"), bytes.Equal(ev.Name, []byte("error")): // engines forget type and name
		err = engineerror.ParseNative(ev.Data)
	}
	return sse.Event{Data: n.out}, err
}

// Done reports whether the engine has ended its answer.
func (n *Native) Done() bool { return n.done }

// piece takes a delta of a block, or a block at its beginning, which may hold something already.
func (n *Native) piece(v, index jsonx.Value) error {
	var p [partMembers]jsonx.Value
	if err := answer.NativeMembers(v, partNames, p[:]); err != nil {
		return err
	}
	t := p[partType]
	switch {
	case t.EqualText("text_delta"), t.EqualText("text"):
		n.text(answer.MemberContent, p[partText])
	case t.EqualText("thinking_delta"), t.EqualText("thinking"):
		n.text(answer.MemberReasoning, p[partThinking])
	case t.EqualText("input_json_delta"):
		if v := p[partJSON]; v.HasText() {
			n.out = answer.AppendToolCallChunk(n.out, blockIndex(index), nil, nil, v.Inside())
		}
	case t.EqualText("tool_use"):
		n.out = answer.AppendToolCallChunk(n.out, blockIndex(index), answer.NativeText(p[partID]), answer.NativeText(p[partName]), arguments(p[partInput]))
	}
	return nil
}

// blockIndex is a block's number, to which the pieces of a tool call refer.
func blockIndex(index jsonx.Value) int {
	i, _ := index.Int()
	return int(i)
}

func (n *Native) text(member string, v jsonx.Value) {
	if v.HasText() {
		n.out = answer.AppendTextChunk(n.out, member, v.Inside())
	}
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
	if err := answer.NativeMembers(delta, partNames, p[:]); err != nil {
		return err
	}
	if v := p[partStop]; v.HasText() {
		n.finish = finishOf(v)
		n.stop = append(n.stop[:0], answer.NativeText(p[partSequence])...)
	}
	return nil
}

// finishOf is stopReason the other way round.
func finishOf(reason jsonx.Value) string {
	switch {
	case reason.EqualText("max_tokens"), reason.EqualText("model_context_window_exceeded"):
		return "length"
	case reason.EqualText("tool_use"):
		return "tool_calls"
	case reason.EqualText("refusal"):
		return "content_filter"
	case reason.EqualText("abort"), reason.EqualText("error"): // no words of this dialect: what engines call an answer they gave up
		return "abort"
	}
	return "stop"
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
	return answer.NativeUsage(n.input+n.read+n.made, n.read, n.wrote, 0)
}

// AppendWhole appends the completion that a whole answer amounts to. An error that stands in its
// place is appended as it is, for answer.Completion to find. The error is a *translate.BadAnswer.
func (n *Native) AppendCompletion(dst, body []byte) ([]byte, error) {
	n.Reset()
	if err := answer.ParseNative(&n.doc, body, recordNative); err != nil {
		return dst, err
	}
	root := n.doc.Root()
	if chat.Given(root.Get("error")) {
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
		if err := answer.NativeMembers(it.Value(), partNames, p[:]); err != nil {
			return dst, err
		}
		switch t := p[partType]; {
		case t.EqualText("text"):
			w.Content = append(w.Content, answer.NativeText(p[partText])...)
		case t.EqualText("thinking"):
			w.Reasoning = append(w.Reasoning, answer.NativeText(p[partThinking])...)
		case t.EqualText("tool_use"):
			w.AddToolCall(answer.NativeText(p[partID]), answer.NativeText(p[partName]), arguments(p[partInput]))
		}
	}
	n.count(root.Get("usage"))
	return w.Append(dst, finishOf(reason), answer.NativeText(root.Get("stop_sequence")), n.usage()), nil
}
