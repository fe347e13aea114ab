package messages

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

type requestFault = chat.InvalidMember

// requiredText is like chat.CheckRequiredString, but also rejects an empty string.
func requiredText(name string, v jsonx.Value) *requestFault {
	if f := chat.CheckRequiredString(name, v); f != nil {
		return f
	}
	if len(v.RawContents()) == 0 {
		return chat.WrongValueError(name, "must not be empty")
	}
	return nil
}

// renamedMembers maps a member of a chat request to its path in Messages, if the paths differ.
var renamedMembers = map[string]string{
	"response_format":  "output_config.format",
	"reasoning_effort": "output_config.effort",
}

// RelocateError replaces the parameter of an error about the chat request with its name in the
// Messages request. It returns other errors unchanged.
func (i *RequestInfo) RelocateError(err error) error {
	var e *apierr.Error
	if errors.As(err, &e) {
		if m, rest := i.images.Find(e.Param); m != nil && strings.HasPrefix(rest, ".file") {
			e = e.WithParam(m.Path(m.Member))
			e.Message += pdfRejectedMessage
			return e
		}
	}
	return dialects.RelocateError(err, i.clientParam)
}

func (i *RequestInfo) clientParam(param string) string {
	if name, ok := renamedMembers[param]; ok {
		return name
	}
	if m, _ := i.images.Find(param); m != nil {
		return m.Path(m.Member)
	}
	return param
}

// MapError returns an error in the form that the contract defines for Messages. A failure of the
// engine becomes a 529 with a Retry-After. Agents recognize some errors by the wording of their
// message:
//   - If the prompt does not fit, the message starts with a phrase that makes agents compact the
//     conversation.
//   - If the prompt would fit with a smaller max_tokens, the message contains a phrase that makes
//     agents lower max_tokens.
//   - If images are rejected, the message contains a phrase that makes agents remove them.
func MapError(e *apierr.Error) *apierr.Error {
	own := *e
	switch {
	case e.Status == 502 || e.Status == 503 || e.Status == 504:
		own.Status, own.Type = apierr.StatusOverloaded, apierr.TypeOverloaded
		own.RetryAfter = max(e.RetryAfter, minRetryAfter)
	case e.Overflow.HasSizes() && e.Overflow.Answer > 0:
		o := e.Overflow
		own.Message = fmt.Sprintf(promptTooLong+": %d tokens > %d maximum; "+
			"input length and `max_tokens` exceed context limit: %d + %d > %d, "+
			"decrease input length or `max_tokens` and try again", o.Prompt+o.Answer, o.Max, o.Prompt, o.Answer, o.Max)
	case e.Overflow.HasSizes():
		own.Message = fmt.Sprintf(promptTooLong+": %d tokens > %d maximum", e.Overflow.Prompt, e.Overflow.Max)
	case e.Code == apierr.CodeContextLength && e.Param == "messages" && !strings.HasPrefix(e.Message, promptTooLong):
		own.Message = promptTooLong + ". " + e.Message
	case e.Image:
		own.Message = e.Message + " " + imageRejectedMessage
	default:
		return e
	}
	return &own
}

// imageRejectedMessage makes agents remove the images. Otherwise they would receive the same error again
// and again.
const imageRejectedMessage = "Could not process image."

// pdfRejectedMessage makes agents remove the PDF.
const pdfRejectedMessage = " Could not process PDF."

const minRetryAfter = time.Second

const promptTooLong = "prompt is too long"
