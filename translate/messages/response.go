package messages

import (
	"strconv"

	"penstock/translate"
	"penstock/translate/chat/answer"
	"penstock/translate/jsonx"
)

// AppendCompletion appends the answer for a completion. If the engine's answer is malformed, a tool
// call has no name or its arguments break off, the error is a *translate.BadAnswerError. If
// AppendCompletion returns an error, it returns dst unchanged.
func (s *Stream) AppendCompletion(dst []byte, c *answer.ChatCompletion) ([]byte, error) {
	r := &s.reader
	if err := r.ReadCompletion(c); err != nil {
		return dst, err
	}
	out := append(dst, `{"id":`...) //nolint:gocritic // dst is what a failure returns
	out = jsonx.AppendStringS(out, s.identity.ID)
	out = append(out, `,"type":"message","role":"assistant","model":`...)
	out = jsonx.AppendStringS(out, s.identity.Model)
	out = append(out, `,"content":[`...)
	start := len(out)
	if len(r.Reasoning) > 0 {
		out = s.RequestInfo.thinking.append(out, r.Reasoning, s.identity.Seal)
	}
	if len(r.Content)+len(r.Refusal) > 0 {
		out = appendSeparator(out, start)
		out = append(append(out, `{"type":"text","text":"`...), r.Content...)
		out = append(append(out, r.Refusal...), `"}`...)
	}
	for i := range r.ToolCalls.List {
		toolCall := &r.ToolCalls.List[i]
		in, is := s.input.read(toolCall.Args)
		switch {
		case len(toolCall.Name) == 0:
			return dst, errToolCallWithoutName
		case is == inputKindTruncated && r.Finish != answer.FinishLength:
			return dst, errArguments
		case is != inputKindObject && r.Finish == answer.FinishLength, len(in) == 0:
			in = emptyToolInput
		}
		out = appendSeparator(out, start)
		out = append(append(out, `{"type":"tool_use","id":"`...), r.ToolCalls.ID(i)...)
		out = append(append(out, `","name":"`...), toolCall.Name...)
		out = append(append(out, `","input":`...), in...)
		out = append(out, '}')
	}
	out = append(out, `],`...)
	out = appendStopReason(out, r, s.RequestInfo.stopSequences)
	out = append(out, `,"usage":`...)
	out = appendUsage(out, r.Usage())
	return append(s.RequestInfo.cleared.appendEdits(out), '}'), nil
}

// appendSeparator appends a comma if anything was written after start.
func appendSeparator(dst []byte, start int) []byte {
	if len(dst) > start {
		dst = append(dst, ',')
	}
	return dst
}

// appendUsage appends the token counts. In this dialect, the input count excludes cached tokens.
func appendUsage(dst []byte, u translate.Usage) []byte {
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Prompt-u.Cached), 10)
	dst = append(dst, `,"cache_creation_input_tokens":0,"cache_read_input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Cached), 10)
	dst = append(dst, `,"output_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Completion), 10)
	return append(u.AppendResumeCount(dst), '}')
}

func appendStopReason(dst []byte, r *answer.Reader, stops []string) []byte {
	reason, sequence := stopReason(r, stops)
	dst = append(append(dst, `"stop_reason":"`...), reason...)
	dst = append(dst, `","stop_sequence":`...)
	if sequence == "" {
		return append(dst, "null"...)
	}
	return jsonx.AppendStringS(dst, sequence)
}

// stopReason returns tool_use if and only if there are tool calls. Some engines report stop even
// though there are tool calls. If an agent receives tool_use without a tool call, it waits forever.
func stopReason(r *answer.Reader, stops []string) (reason, sequence string) {
	switch {
	case r.Finish == answer.FinishLength:
		return "max_tokens", ""
	case r.Finish == answer.FinishContentFilter:
		return "refusal", ""
	case len(r.ToolCalls.List) > 0:
		return "tool_use", ""
	}
	if len(r.StopSequence) > 0 {
		var d jsonx.Doc
		if d.Parse(appendQuoted(nil, r.StopSequence), jsonx.Options{}) == nil {
			for _, stop := range stops {
				if d.Root().EqualText(stop) {
					return "stop_sequence", stop
				}
			}
		}
	}
	return "end_turn", ""
}
