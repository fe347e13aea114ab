package responses

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
// the token limit and the effort are the checked ones; store is false; members that steer an engine
// go, and so do prompt_cache_key, include (it asks for reasoning, which is not shown),
// previous_input_messages (a second, unchecked conversation) and the tools that are
// no functions or that tool_choice does not allow. Arguments of tool calls that are no JSON object
// become one, as engines refuse others. body is one that Decode has accepted; the pieces borrow
// from it.
func NativeSegments(segs [][]byte, body []byte, n *chat.NativeRequest) [][]byte {
	var d jsonx.Doc
	if d.Parse(body, parseOptions) != nil {
		panic("BUG: a body that was decoded is not JSON")
	}
	root := d.Root()
	var edits jsonx.Edits
	n.Edit(&edits, root)
	n.Limit(&edits, root, "max_output_tokens")
	n.Lower(&edits, root.Get("reasoning").Get("effort"))
	if v := root.Get("store"); v.Exists() {
		edits.Set(v, []byte("false"))
	} else {
		edits.Add(root, []byte(`"store":false`))
	}
	for _, name := range [...]string{"prompt_cache_key", "include", "previous_input_messages"} {
		if v := root.Get(name); v.Exists() {
			edits.Delete(v)
		}
	}
	choice := root.Get("tool_choice")
	limited := choice.Get("type").EqualText("allowed_tools")
	for it := root.Get("tools").Iter(); it.Next(); {
		t := it.Value()
		if !t.Get("type").EqualText("function") || limited && !listed(choice.Get("tools"), t.Get("name")) {
			edits.Delete(t)
		}
	}
	if limited {
		edits.Set(choice, modeOf(choice))
	}
	wrapArguments(&edits, root.Get("input"))
	return edits.Segments(segs, body)
}

// wrapArguments makes objects of the arguments of tool calls that hold none.
func wrapArguments(edits *jsonx.Edits, input jsonx.Value) {
	if !input.IsArray() {
		return
	}
	var args chat.Arguments
	for it := input.Iter(); it.Next(); {
		v := it.Value().Get("arguments")
		if !it.Value().Get("type").EqualText("function_call") || !v.IsString() {
			continue
		}
		if with := args.Append(nil, v); !bytes.Equal(with, v.Raw()) {
			edits.Set(v, with)
		}
	}
}

// listed reports whether a list of tools has one of that name.
func listed(tools, name jsonx.Value) bool {
	want := string(name.AppendText(nil))
	for it := tools.Iter(); it.Next(); {
		if it.Value().Get("name").EqualText(want) {
			return true
		}
	}
	return false
}

// Native reads an engine's answer in this dialect and turns it into chat. Engines leave out many
// members that the dialect demands (numbers, indexes, half of the members of a response), and all
// of them show reasoning; so their events are read for text, tool calls, counts and the end, and
// written anew by Stream.
//
// The zero value is ready. A Native belongs to one attempt at a time.
type Native struct {
	doc         jsonx.Doc
	out         []byte
	toolCalls   []nativeToolCall
	messageText bool // the message that is open has brought text
	anyText     bool // some message has
	done        bool
}

var _ translate.NativeReader = (*Native)(nil)

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
	n.doc.Reset()
	*n = Native{doc: n.doc, out: n.out[:0], toolCalls: n.toolCalls[:0]}
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
// when it brings nothing. The error is a *translate.BadAnswer, or a *engineerror.Error when the engine
// reports a failure. What is returned borrows from n until the next Read.
func (n *Native) Read(ev sse.Event) (sse.Event, error) {
	if n.done || ev.Blank() || bytes.Equal(bytes.TrimSpace(ev.Data), []byte("[DONE]")) {
		return sse.Event{}, nil
	}
	if err := answer.ParseNative(&n.doc, ev.Data, recordNative); err != nil {
		return sse.Event{}, err
	}
	var e [nativeMembers]jsonx.Value
	if err := answer.NativeMembers(n.doc.Root(), nativeNames, e[:]); err != nil {
		return sse.Event{}, err
	}
	n.out = n.out[:0]
	var err error
	switch t := e[nativeType]; {
	case t.EqualText("response.output_text.delta"):
		n.text(answer.MemberContent, e[nativeDelta])
	case t.EqualText("response.refusal.delta"):
		n.text(answer.MemberRefusal, e[nativeDelta])
	case t.EqualText("response.function_call_arguments.delta"):
		n.arguments(n.find(e[nativeItemID], e[nativePlace]), e[nativeDelta])
	case t.EqualText("response.function_call_arguments.done"):
		n.rest(n.find(e[nativeItemID], e[nativePlace]), e[nativeArguments])
	case t.EqualText("response.output_item.added"):
		err = n.added(e[nativeItem], e[nativePlace])
	case t.EqualText("response.output_item.done"):
		err = n.ended(e[nativeItem], e[nativePlace])
	case t.EqualText("response.created"):
		n.out = answer.AppendRoleChunk(n.out, translate.Usage{})
	case t.EqualText("response.completed"), t.EqualText("response.incomplete"):
		err = n.end(e[nativeResponse])
	case t.EqualText("response.failed"):
		err = engineerror.ParseNative(e[nativeResponse].Get("error").Raw())
	case chat.Given(e[nativeError]), t.EqualText("error"), bytes.Equal(ev.Name, []byte("error")): // engines forget type and name
		err = engineerror.ParseNative(ev.Data)
	}
	return sse.Event{Data: n.out}, err
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
	n.done = true
	n.out = answer.AppendEndChunk(n.out, finishOf(response, len(n.toolCalls) > 0), nil, nativeUsage(response.Get("usage")))
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
func (n *Native) Done() bool { return n.done }

func (n *Native) text(member string, v jsonx.Value) {
	if v.HasText() {
		n.messageText, n.anyText = true, true
		n.out = answer.AppendTextChunk(n.out, member, v.Inside())
	}
}

// find returns the position of the tool call that an event is about: by its item, or by its place,
// or the last one; -1 when there is none.
func (n *Native) find(id, place jsonx.Value) int {
	item, at := answer.NativeText(id), placeOf(place)
	for i := range n.toolCalls {
		if len(item) > 0 && bytes.Equal(n.toolCalls[i].id, item) {
			return i
		}
	}
	for i := range n.toolCalls {
		if at >= 0 && n.toolCalls[i].place == at {
			return i
		}
	}
	return len(n.toolCalls) - 1
}

// begun returns the position of the tool call whose item m has ended; -1 if the engine did not
// announce its beginning. Engines leave the item's id out, or make up another one for the end.
func (n *Native) begun(m *[itemMembers]jsonx.Value, place jsonx.Value) int {
	item, callID, at := answer.NativeText(m[itemMemberID]), answer.NativeText(m[itemMemberCallID]), placeOf(place)
	for i := range n.toolCalls {
		if len(item) > 0 && bytes.Equal(n.toolCalls[i].id, item) {
			return i
		}
	}
	for i := range n.toolCalls {
		switch c := &n.toolCalls[i]; {
		case c.ended:
		case len(callID) > 0 && bytes.Equal(c.callID, callID), len(item)+len(callID) == 0 && at >= 0 && c.place == at:
			return i
		}
	}
	return -1
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
		n.out = answer.AppendToolCallChunk(n.out, i, nil, nil, v.Inside())
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
	if err := answer.NativeMembers(item, nativeItemNames, m[:]); err != nil {
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
	callID, args := answer.NativeText(m[itemMemberCallID]), answer.NativeText(m[itemMemberArguments])
	n.toolCalls = append(n.toolCalls, nativeToolCall{
		id: bytes.Clone(answer.NativeText(m[itemMemberID])), callID: bytes.Clone(callID), place: placeOf(place), came: len(args) > 0,
	})
	n.out = answer.AppendToolCallChunk(n.out, len(n.toolCalls)-1, callID, answer.NativeText(m[itemMemberName]), args)
	return nil
}

// ended takes the rest of an item at its end.
func (n *Native) ended(item, place jsonx.Value) error {
	var m [itemMembers]jsonx.Value
	if err := answer.NativeMembers(item, nativeItemNames, m[:]); err != nil {
		return err
	}
	switch {
	case m[itemMemberType].EqualText("message") && !n.messageText:
		var w answer.CompletionBuilder
		message(&w, m[itemMemberContent])
		n.anyText = n.anyText || len(w.Content)+len(w.Refusal) > 0
		if len(w.Content) > 0 {
			n.out = answer.AppendTextChunk(n.out, answer.MemberContent, w.Content)
		} else if len(w.Refusal) > 0 {
			n.out = answer.AppendTextChunk(n.out, answer.MemberRefusal, w.Refusal)
		}
	case m[itemMemberType].EqualText("function_call"):
		i := n.begun(&m, place)
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
	w.Content = append(w.Content, answer.NativeText(parts)...)
	for it := parts.Iter(); it.Next(); {
		switch p := it.Value(); {
		case p.Get("type").EqualText("output_text"):
			w.Content = append(w.Content, answer.NativeText(p.Get("text"))...)
		case p.Get("type").EqualText("refusal"):
			w.Refusal = append(w.Refusal, answer.NativeText(p.Get("refusal"))...)
		}
	}
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
	return answer.NativeUsage(translate.Count(in), translate.Count(v.Get("input_tokens_details").Get("cached_tokens")),
		translate.Count(out), translate.Count(v.Get("output_tokens_details").Get("reasoning_tokens")))
}

// AppendWhole appends the completion that a whole response amounts to. An error that stands in its
// place is appended as it is, for answer.Completion to find. The error is a *translate.BadAnswer.
func (n *Native) AppendCompletion(dst, body []byte) ([]byte, error) {
	n.Reset()
	if err := answer.ParseNative(&n.doc, body, recordNative); err != nil {
		return dst, err
	}
	root := n.doc.Root()
	switch status := root.Get("status"); {
	case chat.Given(root.Get("error")):
		return append(dst, body...), nil
	case !over(status):
		return dst, errNotEnded
	case !root.Get("output").IsArray():
		return dst, errNoOutput
	}
	var w answer.CompletionBuilder
	for it := root.Get("output").Iter(); it.Next(); {
		var m [itemMembers]jsonx.Value
		if err := answer.NativeMembers(it.Value(), nativeItemNames, m[:]); err != nil {
			return dst, err
		}
		switch {
		case m[itemMemberType].EqualText("message"):
			message(&w, m[itemMemberContent])
		case m[itemMemberType].EqualText("function_call"):
			w.AddToolCall(answer.NativeText(m[itemMemberCallID]), answer.NativeText(m[itemMemberName]), answer.NativeText(m[itemMemberArguments]))
		}
	}
	return w.Append(dst, finishOf(root, w.ToolCalls > 0), nil, nativeUsage(root.Get("usage"))), nil
}
