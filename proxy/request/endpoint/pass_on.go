package endpoint

import (
	"penstock/translate"
	"penstock/translate/chat/answer"
	"penstock/translate/forward"
)

// The media types of answers.
const (
	jsonType        = "application/json"
	eventStreamType = "text/event-stream"
	anyType         = "*/*"
)

// errTooLarge is the error for a reply that is larger than an answer may be.
var errTooLarge = &translate.BadAnswer{Reason: translate.TooLarge}

// PassOn passes a large reply on as it arrives. The reply's format lets the client tell a truncated
// reply from a complete one.
type PassOn struct {
	relay  *forward.Relay // nil: the reply is not JSON
	answer *forwarded
	passed int // how many bytes have been passed on
}

// Append appends the client's bytes for a piece of the reply.
func (p *PassOn) Append(dst, piece []byte) ([]byte, error) {
	if p.passed += len(piece); p.passed > translate.MaxAnswer {
		return dst, errTooLarge
	}
	if p.relay == nil {
		return append(dst, piece...), nil
	}
	return p.relay.Append(dst, piece)
}

// End ends the reply. It returns an error if the reply is truncated.
func (p *PassOn) End() error {
	if p.relay == nil {
		return nil
	}
	return p.relay.End()
}

// Held returns roughly how many bytes of the reply are held, for the reply memory budget.
func (p *PassOn) Held() int {
	if p.relay == nil {
		return 0
	}
	return p.relay.Held()
}

// Usage returns the token usage that the reply has reported so far.
func (p *PassOn) Usage() translate.Usage {
	var u translate.Usage
	if p.relay != nil {
		u = p.relay.Usage()
	}
	return p.answer.counted(u)
}

// noEstimate is the forwarded.estimate of an answer whose prompt is not estimated.
const noEstimate = -1

// forwarded is the Unary of a JSON answer that is passed on.
type forwarded struct {
	model string
	// estimate is the estimated number of prompt tokens for an answer that does not report its
	// usage, or noEstimate.
	estimate   int
	completion bool // the answer must have choices
	vectors    forward.VectorForm
	usage      translate.Usage
}

// begin prepares for the reply of one attempt.
func (f *forwarded) begin(about *Answer) { f.model, f.estimate = about.Model.ID, about.PromptTokens }

// counted returns the token usage u that an answer reported, or the estimate if it reported none.
func (f *forwarded) counted(u translate.Usage) translate.Usage {
	if !u.Known && f.estimate != noEstimate {
		return translate.Usage{Prompt: f.estimate, Estimated: true}
	}
	return u
}

func (f *forwarded) Append(dst, body []byte, _ Reply) ([]byte, error) {
	a := forward.Answer{Vectors: f.vectors}
	if err := a.Parse(body); err != nil {
		return dst, err
	}
	if f.completion {
		if err := a.NeedChoices(); err != nil {
			return dst, err
		}
	}
	f.usage = f.counted(a.Usage())
	return a.Append(dst, f.model), nil
}

func (f *forwarded) PassesOn(Reply) bool  { return true }
func (f *forwarded) PassOn(Reply) *PassOn { return f.passOn(true) }

func (f *forwarded) passOn(isJSON bool) *PassOn {
	p := &PassOn{answer: f}
	if isJSON {
		p.relay = new(forward.Relay)
		p.relay.Reset(f.model, f.vectors)
	}
	return p
}

// Assembled implements Unary. Engines are never asked for a stream instead of JSON.
func (f *forwarded) Assembled() *answer.Options {
	panic("BUG: an answer that is passed on is assembled")
}

func (f *forwarded) MediaType() string        { return jsonType }
func (f *forwarded) Usage() translate.Usage   { return f.usage }
func (f *forwarded) Markup() translate.Markup { return 0 }

// forwardedEvents is the Stream of events that are passed on.
type forwardedEvents struct{ forward.Stream }

func (*forwardedEvents) AppendBody([]byte, []byte, Reply) ([]byte, error) {
	panic("BUG: a document in place of a stream")
}

func (*forwardedEvents) MediaType() string { return eventStreamType }
func (*forwardedEvents) InBand() bool      { return true }
