package messages

import (
	"bytes"
	"errors"
	"strconv"

	"penstock/translate"
	"penstock/translate/chat/answer"
	"penstock/translate/jsonx"
)

// AppendWhole appends the answer for a whole completion, which has been parsed. The error is a
// *translate.BadAnswer: the engine's answer is malformed, or a tool call in it has no name; dst is
// returned as it was then.
func (s *Stream) AppendWhole(dst []byte, c *answer.Completion) ([]byte, error) {
	r := &s.reader
	if err := r.ReadWhole(c); err != nil {
		return dst, err
	}
	out := append(dst, `{"id":`...) //nolint:gocritic // dst is what a failure returns
	out = jsonx.AppendStringS(out, s.identity.ID)
	out = append(out, `,"type":"message","role":"assistant","model":`...)
	out = jsonx.AppendStringS(out, s.identity.Model)
	out = append(out, `,"content":[`...)
	start := len(out)
	if s.RequestInfo.thinking && len(r.Reasoning) > 0 {
		out = append(append(out, `{"type":"thinking","thinking":"`...), r.Reasoning...)
		out = append(out, `","signature":"`+signature+`"}`...)
	}
	if len(r.Content)+len(r.Refusal) > 0 {
		out = separate(out, start)
		out = append(append(out, `{"type":"text","text":"`...), r.Content...)
		out = append(append(out, r.Refusal...), `"}`...)
	}
	for i := range r.ToolCalls {
		toolCall := &r.ToolCalls[i]
		in, is := s.input.read(toolCall.Args)
		switch {
		case len(toolCall.Name) == 0:
			return dst, errNoName
		case is != inputObject && r.Finish == answer.FinishLength, len(in) == 0:
			in = noInput
		}
		out = separate(out, start)
		out = append(append(out, `{"type":"tool_use","id":"`...), r.ToolCallID(i)...)
		out = append(append(out, `","name":"`...), toolCall.Name...)
		out = append(append(out, `","input":`...), in...)
		out = append(out, '}')
	}
	out = append(out, `],`...)
	out = s.appendStop(out)
	out = append(out, `,"usage":`...)
	out = appendUsage(out, r.Usage())
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
func (s *Stream) appendStop(dst []byte) []byte {
	reason, sequence := s.stopReason()
	dst = append(append(dst, `"stop_reason":"`...), reason...)
	dst = append(dst, `","stop_sequence":`...)
	if sequence == "" {
		return append(dst, "null"...)
	}
	return jsonx.AppendStringS(dst, sequence)
}

// stopReason returns why the answer ended. The presence of tool calls decides, not the engine's word:
// some engines say stop although there are tool calls, and an agent that reads tool_use without a
// tool call waits for ever.
func (s *Stream) stopReason() (reason, sequence string) {
	r := &s.reader
	switch {
	case r.Finish == answer.FinishLength:
		return "max_tokens", ""
	case r.Finish == answer.FinishContentFilter:
		return "refusal", ""
	case len(r.ToolCalls) > 0:
		return "tool_use", ""
	}
	if len(r.StopSequence) > 0 {
		var d jsonx.Doc
		if d.Parse(quoted(nil, r.StopSequence), jsonx.Options{}) == nil {
			for _, stop := range s.RequestInfo.stops {
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
