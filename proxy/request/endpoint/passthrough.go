package endpoint

import (
	"penstock/translate"
	"penstock/translate/chat/answer"
	"penstock/translate/forward"
)

const (
	jsonType        = "application/json"
	eventStreamType = "text/event-stream"
	acceptAnyType   = "*/*"
)

var errAnswerTooLarge = &translate.BadAnswerError{Reason: translate.ReasonTooLarge}

// ReplyPassthrough relays a large response while it arrives. The format of the response lets the
// client detect whether the response is truncated.
type ReplyPassthrough struct {
	relay       *forward.Relay // nil if the response is not JSON
	answer      *forwardedAnswer
	passedBytes int
}

// Append appends what the client gets for one piece of the response.
func (p *ReplyPassthrough) Append(dst, piece []byte) ([]byte, error) {
	if p.passedBytes += len(piece); p.passedBytes > translate.MaxAnswerBytes {
		return dst, errAnswerTooLarge
	}
	if p.relay == nil {
		return append(dst, piece...), nil
	}
	return p.relay.Append(dst, piece)
}

// End ends the response. It returns an error if the response is truncated.
func (p *ReplyPassthrough) End() error {
	if p.relay == nil {
		return nil
	}
	return p.relay.CheckComplete()
}

// BufferedBytes returns the approximate number of buffered response bytes.
func (p *ReplyPassthrough) BufferedBytes() int {
	if p.relay == nil {
		return 0
	}
	return p.relay.BufferedBytes()
}

// Usage returns the token usage that the response has reported so far.
func (p *ReplyPassthrough) Usage() translate.Usage {
	var u translate.Usage
	if p.relay != nil {
		u = p.relay.Usage()
	}
	return p.answer.usageOrEstimate(u)
}

// noEstimate is the value of forwardedAnswer.estimate if there is no estimate.
const noEstimate = -1

// forwardedAnswer is the UnaryAnswer for a JSON answer that is forwarded.
type forwardedAnswer struct {
	model string
	// estimate is the estimated number of prompt tokens, or noEstimate. It is used if the answer
	// does not report usage.
	estimate     int
	prompts      int  // number of a completion's prompts
	needsChoices bool // whether the answer must have choices
	needsText    bool // whether the answer must have a text, as transcripts do
	vectors      forward.VectorForm
	usage        translate.Usage
}

func (f *forwardedAnswer) initAnswer(about *CallInfo) {
	f.model, f.estimate = about.Model.ID, about.PromptTokens
}

func (f *forwardedAnswer) usageOrEstimate(u translate.Usage) translate.Usage {
	switch {
	case u.FirstChoiceOnly && f.prompts > 1:
		// The estimate includes the rest of the request, so only half of it is certain.
		if half := f.estimate / 2; half > u.Prompt {
			u.Prompt, u.Estimated = half, true
			u.Reconcile()
		}
		return u
	case u.Known:
		return u
	case f.estimate == noEstimate:
		return translate.Usage{}
	}
	u.Estimated = true
	return u.WithPrompt(f.estimate)
}

func (f *forwardedAnswer) AppendAnswer(dst, body []byte, _ ReplyHead) ([]byte, error) {
	a := forward.Answer{Vectors: f.vectors}
	if err := a.Parse(body); err != nil {
		return dst, err
	}
	if f.needsChoices {
		if err := a.CheckChoices(); err != nil {
			return dst, err
		}
	}
	if f.needsText {
		if err := a.CheckText(); err != nil {
			return dst, err
		}
	}
	f.usage = f.usageOrEstimate(a.Usage())
	return a.Append(dst, f.model), nil
}

func (f *forwardedAnswer) CanPassThrough(ReplyHead) bool              { return true }
func (f *forwardedAnswer) NewPassthrough(ReplyHead) *ReplyPassthrough { return f.newPassthrough(true) }

func (f *forwardedAnswer) newPassthrough(isJSON bool) *ReplyPassthrough {
	p := &ReplyPassthrough{answer: f}
	if isJSON {
		p.relay = new(forward.Relay)
		p.relay.Reset(f.model, f.vectors)
	}
	return p
}

// AssemblyOptions implements UnaryAnswer. It is never called, because the edge does not ask an
// engine for a stream instead of JSON.
func (f *forwardedAnswer) AssemblyOptions() *answer.WriteOptions {
	panic("BUG: an answer that is passed on is assembled")
}

func (f *forwardedAnswer) MediaType() string                { return jsonType }
func (f *forwardedAnswer) Usage() translate.Usage           { return f.usage }
func (f *forwardedAnswer) UnparsedMarkup() translate.Markup { return 0 }

type forwardedEvents struct{ forward.Stream }

// Translator implements Stream.
func (e *forwardedEvents) Translator() translate.Stream { return &e.Stream }

func (*forwardedEvents) AppendBody([]byte, []byte, ReplyHead) ([]byte, error) {
	panic("BUG: a document in place of a stream")
}

func (*forwardedEvents) MediaType() string     { return eventStreamType }
func (*forwardedEvents) HasInBandErrors() bool { return true }
