package endpoint

import (
	"penstock/translate"
	"penstock/translate/chat/answer"
	"penstock/translate/forward"
)

const (
	jsonType        = "application/json"
	eventStreamType = "text/event-stream"
	anyType         = "*/*"
)

var errTooLarge = &translate.BadAnswer{Reason: translate.TooLarge}

// PassOn relays a large response while it arrives. The response format lets the client detect a
// truncated response.
type PassOn struct {
	relay  *forward.Relay // nil if the response is not JSON
	answer *forwarded
	passed int
}

// Append appends what the client gets for one piece of the response.
func (p *PassOn) Append(dst, piece []byte) ([]byte, error) {
	if p.passed += len(piece); p.passed > translate.MaxAnswer {
		return dst, errTooLarge
	}
	if p.relay == nil {
		return append(dst, piece...), nil
	}
	return p.relay.Append(dst, piece)
}

// End ends the response. It returns an error if the response is truncated.
func (p *PassOn) End() error {
	if p.relay == nil {
		return nil
	}
	return p.relay.End()
}

// Held returns the approximate number of buffered response bytes.
func (p *PassOn) Held() int {
	if p.relay == nil {
		return 0
	}
	return p.relay.Held()
}

// Usage returns the token usage that the response has reported so far.
func (p *PassOn) Usage() translate.Usage {
	var u translate.Usage
	if p.relay != nil {
		u = p.relay.Usage()
	}
	return p.answer.counted(u)
}

// noEstimate is the value of forwarded.estimate if no estimate is made.
const noEstimate = -1

// forwarded is the Unary for a JSON answer that is forwarded.
type forwarded struct {
	model string
	// estimate is the estimated number of prompt tokens, or noEstimate. It is used if the answer
	// does not report usage.
	estimate   int
	completion bool // whether the answer must have choices
	vectors    forward.VectorForm
	usage      translate.Usage
}

func (f *forwarded) begin(about *CallInfo) { f.model, f.estimate = about.Model.ID, about.PromptTokens }

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

// Assembled implements Unary. It is never called, because an engine is not asked for a stream
// instead of JSON.
func (f *forwarded) Assembled() *answer.Options {
	panic("BUG: an answer that is passed on is assembled")
}

func (f *forwarded) MediaType() string        { return jsonType }
func (f *forwarded) Usage() translate.Usage   { return f.usage }
func (f *forwarded) Markup() translate.Markup { return 0 }

type forwardedEvents struct{ forward.Stream }

func (*forwardedEvents) AppendBody([]byte, []byte, Reply) ([]byte, error) {
	panic("BUG: a document in place of a stream")
}

func (*forwardedEvents) MediaType() string { return eventStreamType }
func (*forwardedEvents) InBand() bool      { return true }
