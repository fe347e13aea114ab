package responses

import (
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat/answer"
	"penstock/translate/jsonx"
)

// AppendWhole appends the response object for a whole completion, which has been parsed. The error
// is a *translate.BadAnswer.
func (s *Stream) AppendWhole(dst []byte, c *answer.Completion) ([]byte, error) {
	if err := s.output.reader.ReadWhole(c); err != nil {
		return dst, err
	}
	if err := s.output.take(); err != nil {
		return dst, err
	}
	for n := range s.output.parts {
		s.output.end(n)
	}
	return s.appendResponse(dst, s.output.status(), nil), nil
}

const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

// appendResponse appends the response object. e is why it failed, or nil.
func (s *Stream) appendResponse(dst []byte, status string, e *apierr.Error) []byte {
	dst = append(dst, `{"id":"resp_`...)
	dst = append(dst, s.identity.ID...)
	dst = append(dst, `","object":"response","created_at":`...)
	dst = appendInt(dst, int(s.identity.Created))
	dst = append(dst, `,"completed_at":`...)
	if status == statusCompleted {
		dst = appendInt(dst, int(s.identity.Now()))
	} else {
		dst = append(dst, `null`...)
	}
	dst = append(dst, `,"status":"`...)
	dst = append(dst, status...)
	dst = append(dst, `","incomplete_details":`...)
	if status == statusIncomplete {
		dst = append(append(append(dst, `{"reason":"`...), s.output.reason()...), `"}`...)
	} else {
		dst = append(dst, `null`...)
	}
	dst = append(dst, `,"error":`...)
	if e != nil {
		dst = append(append(append(dst, `{"code":"`...), streamCode(e)...), `","message":`...)
		dst = append(jsonx.AppendStringS(dst, e.Message), '}')
	} else {
		dst = append(dst, `null`...)
	}
	dst = jsonx.AppendStringS(append(dst, `,"model":`...), s.identity.Model)
	dst = append(dst, `,"output":[`...)
	dst = s.output.append(dst)
	dst = append(dst, `],"usage":`...)
	if u := s.output.reader.Usage(); status != statusInProgress && (e == nil || u.Known) {
		dst = appendUsage(dst, u)
	} else {
		dst = append(dst, `null`...)
	}
	dst = append(dst, s.RequestInfo.members...)
	return append(dst, '}')
}

func appendUsage(dst []byte, u translate.Usage) []byte {
	dst = appendInt(append(dst, `{"input_tokens":`...), u.Prompt)
	dst = appendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), u.Cached)
	dst = appendInt(append(dst, `},"output_tokens":`...), u.Completion)
	dst = appendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), u.Reasoning)
	dst = appendInt(append(dst, `},"total_tokens":`...), u.Total)
	return append(dst, '}')
}
