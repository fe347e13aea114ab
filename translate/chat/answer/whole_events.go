package answer

import (
	"strconv"

	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// AppendAsStream appends a whole completion as a stream that consists of one chunk and [DONE]. Some
// engines and gateways send a completion even though the client requested a stream. If the body is
// not a completion, the error is a *translate.BadAnswerError.
func AppendAsStream(dst, completion []byte) ([]byte, error) {
	var (
		top   topLevelMembers
		edits jsonx.Edits
	)
	if err := top.parse(completion); err != nil {
		return dst, err
	}
	if !top.choices.Index(0).Exists() || !top.choices.IsArray() || top.engineError() != nil {
		return dst, newBadAnswer(reasonNoChoices)
	}
	if top.object.EqualText("chat.completion") {
		edits.Set(top.object, []byte(`"chat.completion.chunk"`))
	}
	for it := top.choices.Iter(); it.Next(); {
		var choice Choice
		if err := choice.ReadMessage(it.Value()); err != nil {
			return dst, err
		}
		editWholeChoice(&edits, it.Index(), it.Value(), &choice)
	}
	dst = append(dst, "data: "...)
	start := len(dst)
	dst = edits.Append(dst, completion)
	sse.ReplaceLineEnds(dst[start:])
	return append(dst, "\n\ndata: [DONE]\n\n"...), nil
}

// editWholeChoice adds an index, renames the message to delta, numbers the tool calls and adds a
// missing finish_reason. It does not change a finish_reason of null, because null means that the
// engine has not finished.
func editWholeChoice(edits *jsonx.Edits, n int, v jsonx.Value, choice *Choice) {
	if !choice.Numbered {
		newMissingIndexMember(v, n).addTo(edits)
	}
	if choice.Body.IsObject() && choice.Body == choice.message {
		if choice.unused.Exists() { // if an engine sends a delta and a message, use the message
			edits.Delete(choice.unused)
		}
		edits.Rename(choice.message, []byte("delta"))
	}
	var message Delta
	message.Read(choice.Body)
	for it := message.ToolCalls.Iter(); it.Next(); {
		if toolCall := it.Value(); toolCall.IsObject() {
			index := strconv.AppendInt(nil, int64(it.Index()), 10)
			if own := toolCall.Get("index"); own.Exists() {
				edits.Set(own, index)
			} else {
				edits.Add(toolCall, append([]byte(`"index":`), index...))
			}
		}
	}
	if !choice.Finish.Exists() {
		word := replacementFinish(choice.Finish, message.ToolCalls.Index(0).Exists())
		edits.Add(v, append([]byte(`"finish_reason":`), word...))
	}
}
