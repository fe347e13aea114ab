package messages

import (
	"fmt"
	"strings"
	"time"

	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

// fault describes an error in one member of a request.
type fault = chat.Invalid

// requiredText is chat.RequiredString for a member that must not be empty.
func requiredText(name string, v jsonx.Value) *fault {
	if f := chat.RequiredString(name, v); f != nil {
		return f
	}
	if len(v.Inside()) == 0 {
		return chat.WrongValue(name, "must not be empty")
	}
	return nil
}

// renamed maps members of a chat request to their name or position in Messages, where it differs.
var renamed = map[string]string{
	"response_format":  "output_config.format",
	"reasoning_effort": "output_config.effort",
}

// Locate renames the member in an error of the chat request's Decode or Check to its name in the
// Messages request. Other errors are returned unchanged.
func (i *RequestInfo) Locate(err error) error { return dialects.Locate(err, i.nameOf) }

func (i *RequestInfo) nameOf(param string) string {
	if name, ok := renamed[param]; ok {
		return name
	}
	if m, _ := i.images.Find(param); m != nil {
		return m.Path(m.Member)
	}
	return param
}

// MapError returns an error of the edge, or an engine's failure, in the form that the contract
// defines for Messages. An engine's failure is a 529 with a Retry-After. Agents recognise some
// messages by their words. The message about a prompt that does not fit starts with the words that
// make agents compact a conversation. If the prompt would fit with a smaller max_tokens, the
// message also has the words that make agents lower max_tokens and retry. The message about images
// that the model does not accept has the words that make agents remove the images.
func MapError(e *apierr.Error) *apierr.Error {
	own := *e
	switch {
	case e.Status == 502 || e.Status == 503 || e.Status == 504:
		own.Status, own.Type = apierr.StatusOverloaded, apierr.TypeOverloaded
		own.RetryAfter = max(e.RetryAfter, leastRetryAfter)
	case e.Overflow.Known() && e.Overflow.Answer > 0:
		o := e.Overflow
		own.Message = fmt.Sprintf(promptTooLong+": %d tokens > %d maximum; "+
			"input length and `max_tokens` exceed context limit: %d + %d > %d, "+
			"decrease input length or `max_tokens` and try again", o.Prompt+o.Answer, o.Max, o.Prompt, o.Answer, o.Max)
	case e.Overflow.Known():
		own.Message = fmt.Sprintf(promptTooLong+": %d tokens > %d maximum", e.Overflow.Prompt, e.Overflow.Max)
	case e.Code == apierr.CodeContextLength && e.Param == "messages" && !strings.HasPrefix(e.Message, promptTooLong):
		own.Message = promptTooLong + ". " + e.Message
	case e.Image:
		own.Message = e.Message + " " + imageRefused
	default:
		return e
	}
	return &own
}

// imageRefused is the text that makes agents remove the images from a conversation. Otherwise they
// would always get the same answer.
const imageRefused = "Could not process image."

// leastRetryAfter is the minimum Retry-After for a failure.
const leastRetryAfter = time.Second

const promptTooLong = "prompt is too long"
