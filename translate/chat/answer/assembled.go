package answer

import (
	"bytes"
	"strconv"

	"penstock/translate/chat/toolcall"
)

// assembledChoice is one choice of an Assembler.
type assembledChoice struct {
	index  int
	finish []byte // a word of chat, in quotes
	end    Finish // what finish means
	more   members

	content, refusal, reasoning optionalText
	reasoningName               string // the member's name in the engine's spelling
	toolCalls                   []assembledToolCall
	message                     members // unknown members of the message

	hasLogprobs               bool
	logprobs, refusalLogprobs []byte // elements of logprobs.content and logprobs.refusal, separated by commas
	logprobsMore              members
}

// optionalText is the contents of a JSON string, without quotes. It also records whether the string
// was present.
type optionalText struct {
	raw   []byte
	given bool
}

// assembledToolCall is one tool call.
type assembledToolCall struct {
	id, kind, name []byte // contents of JSON strings; an empty id is replaced by one from the edge
	args           []byte // also contents of a JSON string: a JSON text
	more, function members
}

// members holds raw members that are passed on unread.
type members []member

type member struct {
	name, value []byte // if list is set, value has no brackets
	list        bool
}

// maxMembers is the maximum number of unknown members of one object.
const maxMembers = 64

// find returns the member with the given name, or nil if there is none.
func (m members) find(name []byte) *member {
	for i := range m {
		if bytes.Equal(m[i].name, name) {
			return &m[i]
		}
	}
	return nil
}

// append appends the choice.
func (c *assembledChoice) append(dst []byte, id string, strip bool) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(c.index), 10)
	dst = append(dst, `,"message":{"role":"assistant","content":`...)
	if len(c.content.raw) == 0 && c.refusal.given {
		dst = append(dst, "null"...)
	} else { // like llama.cpp, which has "" in a whole answer and null in its chunks
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
			dst = c.toolCalls[i].append(dst, id, c.index, i, isCut(c.end))
		}
		dst = append(dst, ']')
	}
	dst = c.message.append(dst, strip)
	dst = append(dst, `},"logprobs":`...)
	dst = c.appendLogprobs(dst)
	dst = append(dst, `,"finish_reason":`...)
	if c.end == FinishStop && len(c.toolCalls) > 0 {
		dst = append(dst, toolCallsWord...)
	} else {
		dst = append(dst, c.finish...)
	}
	dst = c.more.append(dst, false)
	return append(dst, '}')
}

func (c *assembledChoice) appendLogprobs(dst []byte) []byte {
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
	dst = c.logprobsMore.append(dst, false)
	return append(dst, '}')
}

// append appends the tool call, which is number n of its choice. If cut is true, the tool call may
// be incomplete.
func (c *assembledToolCall) append(dst []byte, id string, choice, n int, cut bool) []byte {
	dst = append(dst, `{"id":`...)
	if len(c.id) > 0 {
		dst = appendQuoted(dst, c.id)
	} else {
		dst = append(dst, '"')
		dst = toolcall.AppendID(dst, id, choice, n)
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
		toolcall.MendEscapes(c.args, true)
	}
	dst = append(append(dst, '"'), c.args...)
	if !cut && toolcall.Blank(c.args) {
		dst = append(dst, emptyObject...)
	}
	dst = append(dst, '"')
	dst = c.function.append(dst, false)
	dst = append(dst, '}')
	dst = c.more.append(dst, false)
	return append(dst, '}')
}

// append appends the members, each after a comma.
func (m members) append(dst []byte, strip bool) []byte {
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

// appendQuoted appends a JSON string with the given contents.
func appendQuoted(dst, contents []byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, contents...)
	return append(dst, '"')
}
