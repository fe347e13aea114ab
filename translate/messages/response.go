package messages

import (
	"bytes"
	"errors"
	"strconv"
	"sync"

	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// responseWriter is the memory for one whole answer.
type responseWriter struct {
	reader chat.AnswerReader
	input  input
}

var responseWriters = sync.Pool{New: func() any { return new(responseWriter) }}

// AppendResponse appends the answer for a completion, which has been parsed. The error is a
// *translate.BadAnswer: the engine's answer is malformed, or a tool call in it has no name; dst is
// returned as it was then.
//
// e is only read. It is safe for concurrent use.
func AppendResponse(dst []byte, c *chat.Completion, e *RequestInfo) ([]byte, error) {
	w := responseWriters.Get().(*responseWriter)
	defer func() {
		w.reader.Reset("")
		w.input.reset()
		responseWriters.Put(w)
	}()
	s := &w.reader
	s.Reset(e.ID)
	s.SetPromptEstimate(e.PromptTokens)
	if err := s.ReadWhole(c); err != nil {
		return dst, err
	}
	out := append(dst, `{"id":`...) //nolint:gocritic // dst is what a failure returns
	out = jsonx.AppendStringS(out, e.ID)
	out = append(out, `,"type":"message","role":"assistant","model":`...)
	out = jsonx.AppendStringS(out, e.Model)
	out = append(out, `,"content":[`...)
	start := len(out)
	if e.Thinking && len(s.Reasoning) > 0 {
		out = append(append(out, `{"type":"thinking","thinking":"`...), s.Reasoning...)
		out = append(out, `","signature":"`+signature+`"}`...)
	}
	if len(s.Content)+len(s.Refusal) > 0 {
		out = separate(out, start)
		out = append(append(out, `{"type":"text","text":"`...), s.Content...)
		out = append(append(out, s.Refusal...), `"}`...)
	}
	for i := range s.ToolCalls {
		toolCall := &s.ToolCalls[i]
		in, is := w.input.read(toolCall.Args)
		switch {
		case len(toolCall.Name) == 0:
			return dst, errNoName
		case is != inputObject && s.Finish == chat.FinishLength, len(in) == 0:
			in = noInput
		}
		out = separate(out, start)
		out = append(append(out, `{"type":"tool_use","id":"`...), s.ToolCallID(i)...)
		out = append(append(out, `","name":"`...), toolCall.Name...)
		out = append(append(out, `","input":`...), in...)
		out = append(out, '}')
	}
	out = append(out, `],`...)
	out = appendStop(out, s, e)
	out = append(out, `,"usage":`...)
	out = appendUsage(out, s.Usage())
	return append(out, '}'), nil
}

// separate appends a comma unless nothing was written since start.
func separate(dst []byte, start int) []byte {
	if len(dst) > start {
		dst = append(dst, ',')
	}
	return dst
}

// signature is what stands where a vendor proves that thinking is its own. Clients hand it back
// unread.
const signature = "cGVuc3RvY2s="

// The ways in which a tool call is malformed.
var (
	errNoName    = &translate.BadAnswer{Reason: "a tool call without a name"}
	errArguments = &translate.BadAnswer{Reason: "a tool call with arguments that break off", ByModel: true}
	errLate      = &translate.BadAnswer{Reason: "a tool call that goes on behind its arguments"}
)

// appendUsage appends the counts. Here the input leaves out what came from the cache.
func appendUsage(dst []byte, u translate.Usage) []byte {
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Prompt-u.Cached), 10)
	dst = append(dst, `,"cache_creation_input_tokens":0,"cache_read_input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Cached), 10)
	dst = append(dst, `,"output_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Completion), 10)
	return append(dst, '}')
}

// appendStop appends the members stop_reason and stop_sequence.
func appendStop(dst []byte, s *chat.AnswerReader, e *RequestInfo) []byte {
	reason, sequence := stopOf(s, e)
	dst = append(append(dst, `"stop_reason":"`...), reason...)
	dst = append(dst, `","stop_sequence":`...)
	if sequence == "" {
		return append(dst, "null"...)
	}
	return jsonx.AppendStringS(dst, sequence)
}

// stopOf returns why the answer ended. The presence of tool calls decides, not the engine's word:
// some engines say stop although there are tool calls, and an agent that reads tool_use without a
// tool call waits for ever.
func stopOf(s *chat.AnswerReader, e *RequestInfo) (reason, sequence string) {
	switch {
	case s.Finish == chat.FinishLength:
		return "max_tokens", ""
	case s.Finish == chat.FinishContentFilter:
		return "refusal", ""
	case len(s.ToolCalls) > 0:
		return "tool_use", ""
	}
	if len(s.StopSequence) > 0 {
		var d jsonx.Doc
		if d.Parse(quoted(nil, s.StopSequence), jsonx.Options{}) == nil {
			for _, stop := range e.Stops {
				if d.Root().EqualText(stop) {
					return "stop_sequence", stop
				}
			}
		}
	}
	return "end_turn", ""
}

// input reads the arguments of tool calls.
type input struct {
	doc     jsonx.Doc
	in, out []byte
}

var noInput = []byte("{}")

// inputKind is what the arguments of a tool call are.
type inputKind uint8

const (
	inputObject inputKind = iota // a JSON object, or nothing at all
	inputCut                     // JSON that ends too early
	inputOther                   // JSON that is no object, or no JSON
)

// read returns the input that args, the contents of a JSON string, say: JSON as it stands, nothing
// when they say nothing, and a string of them when they are no JSON. The slice is good until the
// next read.
func (n *input) read(args []byte) (value []byte, is inputKind) {
	if len(args) == 0 {
		return nil, inputObject
	}
	n.in = quoted(n.in[:0], args)
	if n.doc.Parse(n.in, jsonx.Options{}) != nil {
		panic("BUG: the arguments are not from a string")
	}
	n.out = n.doc.Root().AppendText(n.out[:0])
	if len(bytes.TrimLeft(n.out, " \t\r\n")) == 0 {
		return nil, inputObject
	}
	err := n.doc.Parse(n.out, jsonx.Options{Record: 1, Paired: true})
	var syntax *jsonx.SyntaxError
	if errors.As(err, &syntax) && syntax.Lone() { // escaped once more than what the reader of the answer mends
		jsonx.MendLone(n.out)
		err = n.doc.Parse(n.out, jsonx.Options{Record: 1})
	}
	if err != nil {
		if errors.As(err, &syntax) && syntax.Offset == len(n.out) {
			return n.in, inputCut
		}
		return n.in, inputOther
	}
	switch root := n.doc.Root(); {
	case root.IsObject():
		return root.Raw(), inputObject
	case root.IsNull():
		return nil, inputObject
	default:
		return root.Raw(), inputOther
	}
}

// reset lets go of the arguments, and of memory that is not worth keeping.
func (n *input) reset() {
	n.doc.Reset()
	if cap(n.in)+cap(n.out) > keepInput {
		n.in, n.out = nil, nil
	}
}

const keepInput = 64 << 10

// quoted appends the contents of a JSON string as one.
func quoted(dst, contents []byte) []byte {
	return append(append(append(dst, '"'), contents...), '"')
}
