package responses

import (
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

// appendResponse appends the response object. e is the reason for a failure, or nil.
func appendResponse(
	dst []byte, i *dialects.AnswerIdentity, info *RequestInfo, o *answerOutput, status string, e *apierr.Error,
) []byte {
	dst = append(dst, `{"id":"resp_`...)
	dst = append(dst, i.ID...)
	dst = append(dst, `","object":"response","created_at":`...)
	dst = appendInt(dst, int(i.Created))
	dst = append(dst, `,"completed_at":`...)
	if status == statusCompleted {
		dst = appendInt(dst, int(i.Now()))
	} else {
		dst = append(dst, `null`...)
	}
	dst = append(dst, `,"status":"`...)
	dst = append(dst, status...)
	dst = append(dst, `","incomplete_details":`...)
	if status == statusIncomplete {
		dst = append(append(append(dst, `{"reason":"`...), o.incompleteReason()...), `"}`...)
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
	dst = jsonx.AppendStringS(append(dst, `,"model":`...), i.Model)
	dst = append(dst, `,"output":[`...)
	dst = o.appendItems(dst)
	dst = append(dst, `],"usage":`...)
	if u := o.reader.Usage(); status != statusInProgress && (e == nil || u.Known) {
		dst = appendUsage(dst, u)
	} else {
		dst = append(dst, `null`...)
	}
	dst = append(dst, info.members...)
	return append(dst, '}')
}

func appendUsage(dst []byte, u translate.Usage) []byte {
	dst = appendInt(append(dst, `{"input_tokens":`...), u.Prompt)
	dst = appendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), u.Cached)
	dst = appendInt(append(dst, `},"output_tokens":`...), u.Completion)
	dst = appendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), u.Reasoning)
	dst = appendInt(append(dst, `},"total_tokens":`...), u.Total)
	return append(u.AppendResumeCount(dst), '}')
}
