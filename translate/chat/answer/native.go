package answer

import (
	"strconv"

	"penstock/translate"
)

// The members of a delta for AppendTextChunk.
const (
	MemberContent   = "content"
	MemberRefusal   = "refusal"
	MemberReasoning = "reasoning_content"
)

const (
	chunkStart = `{"choices":[{"index":0,"delta":{`
	chunkEnd   = `}}]}`
)

// AppendRoleChunk appends the chunk that a stream begins with, and the counts if they are known.
func AppendRoleChunk(dst []byte, u translate.Usage) []byte {
	dst = append(dst, chunkStart+`"role":"assistant"}}]`...)
	return append(appendUsageMember(dst, u), '}')
}

// AppendTextChunk appends a chunk with a piece of text. text is the contents of a JSON string.
func AppendTextChunk(dst []byte, member string, text []byte) []byte {
	dst = append(append(append(dst, chunkStart+`"`...), member...), `":"`...)
	return append(append(dst, text...), `"`+chunkEnd...)
}

// AppendToolCallChunk appends a chunk with a piece of the tool call of that index. id and name come
// once, in its first piece; args continues the arguments. All are contents of JSON strings and may
// be empty.
func AppendToolCallChunk(dst []byte, index int, id, name, args []byte) []byte {
	dst = strconv.AppendInt(append(dst, chunkStart+`"tool_calls":[{"index":`...), int64(index), 10)
	if len(id) > 0 {
		dst = append(append(append(dst, `,"id":"`...), id...), '"')
	}
	dst = append(dst, `,"function":{`...)
	if len(name) > 0 {
		dst = append(append(append(dst, `"name":"`...), name...), `",`...)
	}
	return append(append(append(dst, `"arguments":"`...), args...), `"}}]`+chunkEnd...)
}

// AppendEndChunk appends the chunk that ends a choice, with the counts if they are known. stop is
// the stop sequence that was met, the contents of a JSON string, or nothing.
func AppendEndChunk(dst []byte, finish string, stop []byte, u translate.Usage) []byte {
	dst = append(dst, chunkStart+`}`...)
	dst = appendFinish(dst, finish, stop)
	return append(appendUsageMember(append(dst, `}]`...), u), '}')
}

func appendFinish(dst []byte, finish string, stop []byte) []byte {
	dst = append(append(append(dst, `,"finish_reason":"`...), finish...), '"')
	if len(stop) > 0 {
		dst = append(append(append(dst, `,"stop_reason":"`...), stop...), '"')
	}
	return dst
}

func appendUsageMember(dst []byte, u translate.Usage) []byte {
	if !u.Known {
		return dst
	}
	return appendUsage(append(dst, `,"usage":`...), u)
}

// CompletionBuilder writes a whole completion. The texts are contents of JSON strings. The zero
// value is ready.
type CompletionBuilder struct {
	Content, Refusal, Reasoning []byte
	ToolCalls                   int
	toolCalls                   []byte
}

// AddToolCall adds a tool call.
func (w *CompletionBuilder) AddToolCall(id, name, args []byte) {
	if w.ToolCalls++; w.ToolCalls > 1 {
		w.toolCalls = append(w.toolCalls, ',')
	}
	w.toolCalls = append(append(w.toolCalls, `{"id":"`...), id...)
	w.toolCalls = append(append(w.toolCalls, `","type":"function","function":{"name":"`...), name...)
	w.toolCalls = append(append(w.toolCalls, `","arguments":"`...), args...)
	w.toolCalls = append(w.toolCalls, `"}}`...)
}

// Append appends the completion.
func (w *CompletionBuilder) Append(dst []byte, finish string, stop []byte, u translate.Usage) []byte {
	dst = append(dst, `{"choices":[{"index":0,"message":{"role":"assistant","content":"`...)
	dst = append(append(dst, w.Content...), '"')
	for _, t := range [...]struct {
		name string
		text []byte
	}{{MemberRefusal, w.Refusal}, {MemberReasoning, w.Reasoning}} {
		if len(t.text) > 0 {
			dst = append(append(append(dst, `,"`...), t.name...), `":"`...)
			dst = append(append(dst, t.text...), '"')
		}
	}
	if w.ToolCalls > 0 {
		dst = append(append(append(dst, `,"tool_calls":[`...), w.toolCalls...), ']')
	}
	dst = append(dst, '}')
	dst = appendFinish(dst, finish, stop)
	return append(appendUsageMember(append(dst, `}]`...), u), '}')
}
