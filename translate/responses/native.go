package responses

import (
	"bytes"
	"slices"

	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Native reads an engine's answer in this dialect and turns it into chat. Engines leave out many
// members that the dialect demands (numbers, indexes, half of the members of a response), and all
// of them show reasoning; so their events are read for text, tool calls, counts and the end, and
// written anew by Stream.
//
// The zero value is ready. A Native belongs to one attempt at a time.
type Native struct {
	reader      dialects.NativeReader
	toolCalls   nativeToolCalls
	messageText bool // the message that is open has brought text
	anyText     bool // some message has
}

var _ translate.NativeReader = (*Native)(nil)

// nativeToolCalls are the tool calls of an answer so far.
type nativeToolCalls []nativeToolCall

// nativeToolCall is what is needed to find a tool call again, and to see whether its arguments
// came.
type nativeToolCall struct {
	id, callID []byte // of the item and of the tool call, maybe empty
	place      int64  // output_index, -1 if absent
	came       bool
	ended      bool // the end of the item has come
}

// Reset makes n ready for another answer.
func (n *Native) Reset() {
	n.reader.Reset()
	*n = Native{reader: n.reader, toolCalls: n.toolCalls[:0]}
}

var (
	nativeNames     = jsonx.NewNames("type", "delta", "item_id", "output_index", "item", "arguments", "response", "error")
	nativeItemNames = jsonx.NewNames("type", "id", "call_id", "name", "arguments", "content")
)

const (
	nativeType = iota
	nativeDelta
	nativeItemID
	nativePlace
	nativeItem
	nativeArguments
	nativeResponse
	nativeError
	nativeMembers
)

const (
	itemMemberType = iota
	itemMemberID
	itemMemberCallID
	itemMemberName
	itemMemberArguments
	itemMemberContent
	itemMembers
)

// The errors of an answer that lacks what the dialect demands.
var (
	errNoOutput      = &translate.BadAnswer{Reason: "a response without output"}
	errNotEnded      = &translate.BadAnswer{Reason: "a response that is not complete"}
	errNoItems       = &translate.BadAnswer{Reason: "a response whose output was not told before its end"}
	errManyToolCalls = &translate.BadAnswer{Reason: "too many tool calls"}
)

// maxNativeToolCalls is the limit of tool calls in one answer.
const maxNativeToolCalls = 1024

// recordNative reaches the text of a part in the output of a response.
const recordNative = 8

// Read returns what one event of the engine amounts to in chat: a chunk, or an event without data
// when it brings nothing. The error is a *translate.BadAnswer, or a *engineerror.Error when the
// engine reports a failure. What is returned borrows from n until the next Read.
func (n *Native) Read(ev sse.Event) (sse.Event, error) {
	if bytes.Equal(bytes.TrimSpace(ev.Data), []byte("[DONE]")) {
		return sse.Event{}, nil
	}
	var e [nativeMembers]jsonx.Value
	if ok, err := n.reader.Event(ev, recordNative, nativeNames, e[:]); !ok {
		return sse.Event{}, err
	}
	var err error
	switch t := e[nativeType]; {
	case t.EqualText("response.output_text.delta"):
		n.text(answer.MemberContent, e[nativeDelta])
	case t.EqualText("response.reasoning_text.delta"), t.EqualText("response.reasoning_summary_text.delta"):
		n.reader.Text(answer.MemberReasoning, e[nativeDelta])
	case t.EqualText("response.refusal.delta"):
		n.text(answer.MemberRefusal, e[nativeDelta])
	case t.EqualText("response.function_call_arguments.delta"):
		n.arguments(n.toolCalls.find(e[nativeItemID], e[nativePlace]), e[nativeDelta])
	case t.EqualText("response.function_call_arguments.done"):
		n.rest(n.toolCalls.find(e[nativeItemID], e[nativePlace]), e[nativeArguments])
	case t.EqualText("response.output_item.added"):
		err = n.added(e[nativeItem], e[nativePlace])
	case t.EqualText("response.output_item.done"):
		err = n.ended(e[nativeItem], e[nativePlace])
	case t.EqualText("response.created"):
		n.reader.Chunk = answer.AppendRoleChunk(n.reader.Chunk, translate.Usage{})
	case t.EqualText("response.completed"), t.EqualText("response.incomplete"):
		err = n.end(e[nativeResponse])
	case t.EqualText("response.failed"):
		err = engineerror.ParseNative(e[nativeResponse].Get("error").Raw())
	case dialects.IsError(ev, t, e[nativeError]):
		err = engineerror.ParseNative(ev.Data)
	}
	return sse.Event{Data: n.reader.Chunk}, err
}

// end takes the event that ends an answer. What it says of the response counts, not its name:
// engines announce a response that has failed as complete, and one that was cut short. The error is
// that of Read.
func (n *Native) end(response jsonx.Value) error {
	switch status := response.Get("status"); {
	case chat.Given(response.Get("error")):
		return engineerror.ParseNative(response.Get("error").Raw())
	case !over(status):
		return errNotEnded
	case !n.anyText && len(n.toolCalls) == 0 && speaks(response.Get("output")):
		return errNoItems
	}
	n.reader.Ended = true
	finish := finishOf(response, len(n.toolCalls) > 0)
	n.reader.Chunk = answer.AppendEndChunk(n.reader.Chunk, finish, nil, nativeUsage(response.Get("usage")))
	return nil
}

// over reports whether the status of a response, which engines forget, is that of one that is over
// and no failure.
func over(status jsonx.Value) bool {
	return !chat.Given(status) || status.EqualText(statusCompleted) || status.EqualText(statusIncomplete)
}

// speaks reports whether there is anything in an output that a client is shown.
func speaks(output jsonx.Value) bool {
	for it := output.Iter(); it.Next(); {
		var w answer.CompletionBuilder
		switch item := it.Value(); {
		case item.Get("type").EqualText("function_call"):
			return true
		case item.Get("type").EqualText("message"):
			if message(&w, item.Get("content")); len(w.Content)+len(w.Refusal) > 0 {
				return true
			}
		}
	}
	return false
}

// Done reports whether the engine has ended its answer.
func (n *Native) Done() bool { return n.reader.Ended }

func (n *Native) text(member string, v jsonx.Value) {
	if n.reader.Text(member, v) {
		n.messageText, n.anyText = true, true
	}
}

// byItem returns the position of the tool call with that item id, -1 when there is none.
func (s nativeToolCalls) byItem(item []byte) int {
	return slices.IndexFunc(s, func(c nativeToolCall) bool { return len(item) > 0 && bytes.Equal(c.id, item) })
}

// find returns the position of the tool call that an event is about: by its item, or by its place,
// or the last one; -1 when there is none.
func (s nativeToolCalls) find(id, place jsonx.Value) int {
	if i := s.byItem(dialects.Text(id)); i >= 0 {
		return i
	}
	at := placeOf(place)
	if i := slices.IndexFunc(s, func(c nativeToolCall) bool { return at >= 0 && c.place == at }); i >= 0 {
		return i
	}
	return len(s) - 1
}

// begun returns the position of the tool call whose item m has ended; -1 if the engine did not
// announce its beginning. Engines leave the item's id out, or make up another one for the end.
func (s nativeToolCalls) begun(m *[itemMembers]jsonx.Value, place jsonx.Value) int {
	item, callID, at := dialects.Text(m[itemMemberID]), dialects.Text(m[itemMemberCallID]), placeOf(place)
	if i := s.byItem(item); i >= 0 {
		return i
	}
	return slices.IndexFunc(s, func(c nativeToolCall) bool {
		byPlace := len(item)+len(callID) == 0 && at >= 0 && c.place == at
		return !c.ended && (byPlace || len(callID) > 0 && bytes.Equal(c.callID, callID))
	})
}

// placeOf reads an output_index; -1 if absent.
func placeOf(v jsonx.Value) int64 {
	if at, ok := v.Int(); ok {
		return at
	}
	return -1
}

func (n *Native) arguments(i int, v jsonx.Value) {
	if i >= 0 && v.HasText() {
		n.toolCalls[i].came = true
		n.reader.ToolCall(i, nil, nil, v.Inside())
	}
}

// rest takes the arguments at their end, for engines that do not send them piece by piece.
func (n *Native) rest(i int, v jsonx.Value) {
	if i >= 0 && !n.toolCalls[i].came {
		n.arguments(i, v)
	}
}

func (n *Native) added(item, place jsonx.Value) error {
	var m [itemMembers]jsonx.Value
	if err := dialects.Members(item, nativeItemNames, m[:]); err != nil {
		return err
	}
	switch {
	case m[itemMemberType].EqualText("message"):
		n.messageText = false
	case m[itemMemberType].EqualText("function_call"):
		return n.beginToolCall(&m, place)
	}
	return nil
}

// beginToolCall begins a tool call.
func (n *Native) beginToolCall(m *[itemMembers]jsonx.Value, place jsonx.Value) error {
	if len(n.toolCalls) == maxNativeToolCalls {
		return errManyToolCalls
	}
	callID, args := dialects.Text(m[itemMemberCallID]), dialects.Text(m[itemMemberArguments])
	n.toolCalls = append(n.toolCalls, nativeToolCall{
		id: bytes.Clone(dialects.Text(m[itemMemberID])), callID: bytes.Clone(callID),
		place: placeOf(place), came: len(args) > 0,
	})
	n.reader.ToolCall(len(n.toolCalls)-1, callID, dialects.Text(m[itemMemberName]), args)
	return nil
}

// ended takes the rest of an item at its end.
func (n *Native) ended(item, place jsonx.Value) error {
	var m [itemMembers]jsonx.Value
	if err := dialects.Members(item, nativeItemNames, m[:]); err != nil {
		return err
	}
	switch {
	case m[itemMemberType].EqualText("message") && !n.messageText:
		var w answer.CompletionBuilder
		message(&w, m[itemMemberContent])
		n.anyText = n.anyText || len(w.Content)+len(w.Refusal) > 0
		if len(w.Content) > 0 {
			n.reader.Chunk = answer.AppendTextChunk(n.reader.Chunk, answer.MemberContent, w.Content)
		} else if len(w.Refusal) > 0 {
			n.reader.Chunk = answer.AppendTextChunk(n.reader.Chunk, answer.MemberRefusal, w.Refusal)
		}
	case m[itemMemberType].EqualText("function_call"):
		i := n.toolCalls.begun(&m, place)
		if i < 0 {
			i = len(n.toolCalls)
			if err := n.beginToolCall(&m, place); err != nil {
				return err
			}
		}
		n.toolCalls[i].ended = true
		n.rest(i, m[itemMemberArguments])
	}
	return nil
}

// message adds what a message says: in parts, or in one string, as a request may have it.
func message(w *answer.CompletionBuilder, parts jsonx.Value) {
	w.Content = append(w.Content, dialects.Text(parts)...)
	for it := parts.Iter(); it.Next(); {
		switch p := it.Value(); {
		case p.Get("type").EqualText("output_text"):
			w.Content = append(w.Content, dialects.Text(p.Get("text"))...)
		case p.Get("type").EqualText("refusal"):
			w.Refusal = append(w.Refusal, dialects.Text(p.Get("refusal"))...)
		}
	}
}

// appendReasoningTexts appends the text of reasoning, which some engines call its summary.
func appendReasoningTexts(dst []byte, content, summary jsonx.Value) []byte {
	parts := content
	if !content.IsArray() || content.Len() == 0 {
		parts = summary
	}
	for it := parts.Iter(); parts.IsArray() && it.Next(); {
		dst = append(dst, dialects.Text(it.Value().Get("text"))...)
	}
	return dst
}

// finishOf says why a response ended, in the words of chat.
func finishOf(response jsonx.Value, toolCalls bool) string {
	switch reason := response.Get("incomplete_details").Get("reason"); {
	case reason.EqualText("content_filter"):
		return "content_filter"
	case response.Get("status").EqualText("incomplete"), reason.HasText():
		return "length"
	case toolCalls:
		return "tool_calls"
	}
	return "stop"
}

func nativeUsage(v jsonx.Value) translate.Usage {
	in, out := v.Get("input_tokens"), v.Get("output_tokens")
	if !in.IsNumber() && !out.IsNumber() {
		return translate.Usage{}
	}
	return dialects.Usage(translate.Count(in), translate.Count(v.Get("input_tokens_details").Get("cached_tokens")),
		translate.Count(out), translate.Count(v.Get("output_tokens_details").Get("reasoning_tokens")))
}

// AppendCompletion appends the completion that a whole response amounts to. An error that stands in
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
	case !over(root.Get("status")):
		return dst, errNotEnded
	case !root.Get("output").IsArray():
		return dst, errNoOutput
	}
	var w answer.CompletionBuilder
	for it := root.Get("output").Iter(); it.Next(); {
		var m [itemMembers]jsonx.Value
		if err := dialects.Members(it.Value(), nativeItemNames, m[:]); err != nil {
			return dst, err
		}
		switch {
		case m[itemMemberType].EqualText("message"):
			message(&w, m[itemMemberContent])
		case m[itemMemberType].EqualText("reasoning"):
			w.Reasoning = appendReasoningTexts(w.Reasoning, m[itemMemberContent], it.Value().Get("summary"))
		case m[itemMemberType].EqualText("function_call"):
			w.AddToolCall(dialects.Text(m[itemMemberCallID]), dialects.Text(m[itemMemberName]),
				dialects.Text(m[itemMemberArguments]))
		}
	}
	return w.Append(dst, finishOf(root, w.ToolCalls > 0), nil, nativeUsage(root.Get("usage"))), nil
}
