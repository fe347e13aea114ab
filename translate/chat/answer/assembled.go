package answer

import (
	"bytes"
	"strconv"

	"penstock/translate/chat/toolcall"
)

type assembledChoice struct {
	index        int
	finish       []byte // a finish_reason of the chat dialect, in quotes
	finishKind   Finish
	otherMembers passedMembers

	content, refusal, reasoning optionalText
	reasoningName               string
	toolCalls                   []assembledToolCall
	messageMembers              passedMembers

	hasLogprobs               bool
	logprobs, refusalLogprobs []byte // comma-separated elements of logprobs.content and logprobs.refusal
	logprobsMore              passedMembers
}

// given is true if the string occurred in the stream.
type optionalText struct {
	raw   []byte
	given bool
}

type assembledToolCall struct {
	id, kind, name         []byte // contents of JSON strings; the edge replaces an empty id
	args                   []byte // contents of a JSON string that contains a JSON text
	otherMembers, function passedMembers
}

// passedMembers lists members that are passed on unread.
type passedMembers []passedMember

type passedMember struct {
	name, value []byte // if list is true, value lacks the array brackets
	list        bool
}

const maxPassedMembers = 64

func (m passedMembers) find(name []byte) *passedMember {
	for i := range m {
		if bytes.Equal(m[i].name, name) {
			return &m[i]
		}
	}
	return nil
}

func (c *assembledChoice) appendJSON(dst []byte, id string, strip bool) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(c.index), 10)
	dst = append(dst, `,"message":{"role":"assistant","content":`...)
	if len(c.content.raw) == 0 && c.refusal.given {
		dst = append(dst, "null"...)
	} else { // llama.cpp sends "" in a whole answer and null in chunks
		dst = appendQuoted(dst, c.content.raw)
	}
	dst = append(dst, `,"refusal":`...)
	if c.refusal.given {
		dst = appendQuoted(dst, c.refusal.raw)
	} else {
		dst = append(dst, "null"...)
	}
	if c.reasoningName != "" && !strip {
		dst = append(dst, `,"`...)
		dst = append(dst, c.reasoningName...)
		dst = append(dst, `":`...)
		dst = appendQuoted(dst, c.reasoning.raw)
	}
	if len(c.toolCalls) > 0 {
		dst = append(dst, `,"tool_calls":[`...)
		for i := range c.toolCalls {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = c.toolCalls[i].appendJSON(dst, id, c.index, i, isTruncated(c.finishKind))
		}
		dst = append(dst, ']')
	}
	dst = c.messageMembers.appendJSON(dst, strip)
	dst = append(dst, `},"logprobs":`...)
	dst = c.appendLogprobsJSON(dst)
	dst = append(dst, `,"finish_reason":`...)
	if c.finishKind == FinishStop && len(c.toolCalls) > 0 {
		dst = append(dst, quotedToolCalls...)
	} else {
		dst = append(dst, c.finish...)
	}
	dst = c.otherMembers.appendJSON(dst, false)
	return append(dst, '}')
}

func (c *assembledChoice) appendLogprobsJSON(dst []byte) []byte {
	if !c.hasLogprobs {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"content":[`...)
	dst = append(dst, c.logprobs...)
	dst = append(dst, ']')
	if len(c.refusalLogprobs) > 0 {
		dst = append(dst, `,"refusal":[`...)
		dst = append(dst, c.refusalLogprobs...)
		dst = append(dst, ']')
	}
	dst = c.logprobsMore.appendJSON(dst, false)
	return append(dst, '}')
}

// appendJSON writes the tool call. If cut is true, the tool call may be incomplete.
func (c *assembledToolCall) appendJSON(dst []byte, id string, choice, n int, cut bool) []byte {
	dst = append(dst, `{"id":`...)
	if len(c.id) > 0 {
		dst = appendQuoted(dst, c.id)
	} else {
		dst = append(dst, '"')
		dst = toolcall.AppendGeneratedID(dst, id, choice, n)
		dst = append(dst, '"')
	}
	dst = append(dst, `,"type":`...)
	if len(c.kind) > 0 {
		dst = appendQuoted(dst, c.kind)
	} else {
		dst = append(dst, `"function"`...)
	}
	dst = append(dst, `,"function":{"name":`...)
	dst = appendQuoted(dst, c.name)
	dst = append(dst, `,"arguments":`...)
	if toolcall.HasEscapes(c.args) {
		toolcall.ReplaceLoneEscapes(c.args, true)
	}
	dst = append(append(dst, '"'), c.args...)
	if !cut && toolcall.IsBlank(c.args) {
		dst = append(dst, emptyObject...)
	}
	dst = append(dst, '"')
	dst = c.function.appendJSON(dst, false)
	dst = append(dst, '}')
	dst = c.otherMembers.appendJSON(dst, false)
	return append(dst, '}')
}

func (m passedMembers) appendJSON(dst []byte, strip bool) []byte {
	for i := range m {
		if strip && isReasoning(m[i].name) {
			continue
		}
		dst = append(dst, ',')
		dst = appendQuoted(dst, m[i].name)
		dst = append(dst, ':')
		if m[i].list {
			dst = append(dst, '[')
			dst = append(dst, m[i].value...)
			dst = append(dst, ']')
			continue
		}
		dst = append(dst, m[i].value...)
	}
	return dst
}

func appendQuoted(dst, contents []byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, contents...)
	return append(dst, '"')
}
