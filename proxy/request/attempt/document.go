package attempt

import (
	"io"
	"time"

	"penstock/config/instant"
	"penstock/proxy/request/endpoint"
	"penstock/translate"
	"penstock/translate/chat/answer"
	"penstock/translate/engineerror"
	"penstock/translate/sse"
)

// document is the state for reading a response whose Content-Type does not match the requested
// stream.
type document struct {
	read      whole
	mediaType string
}

// document handles a response whose Content-Type does not match the requested stream. The response
// may be a stream, because some servers and proxies send streams as text/plain or without a
// Content-Type. It may also be a complete answer, which document converts to a stream. Any other
// response is an error. After http1.ErrNotYet, document may be called again.
func (a *Attempt) document(until time.Time) error {
	r := &a.Reply
	r.clock.until = instant.Of(until)
	in := &r.document.read
	in.begin()
	for !r.ended {
		events, decided := sse.Begins(*in.body)
		if events {
			r.readEvents(*in.body, maxEvent)
			return nil
		}
		if decided || len(*in.body) == cap(*in.body) {
			break
		}
		if err := in.readMore(r); err != nil {
			return err
		}
	}
	if !r.ended {
		if err := in.read(r, nil); err != nil {
			return err
		}
	}
	events, err := answer.AppendEvents(nil, *in.body)
	if err != nil {
		var short engineerror.Shortener
		text := short.Append(nil, *in.body)
		return a.complaint(r.document.mediaType, text[:min(len(text), engineerror.MaxBody)])
	}
	if err := r.memory.Hold(PartBody, len(*in.body)+len(events)); err != nil {
		return err
	}
	r.readEvents(events, translate.MaxAnswer+maxEvent)
	return nil
}

func (r *Reply) readEvents(first []byte, longest int) {
	r.first = first
	r.form, r.clock.headed = endpoint.Events, true
	r.events = readerPool.Get().(*sse.Reader)
	r.events.Reset(readAhead{r}, longest)
}

// readAhead reads Reply.first and then the Reply.
type readAhead struct{ *Reply }

func (r readAhead) Read(p []byte) (int, error) {
	switch {
	case len(r.first) > 0:
		n := copy(p, r.first)
		r.first = r.first[n:]
		return n, nil
	case r.ended:
		return 0, io.EOF
	}
	return r.Reply.Read(p)
}

// Lend implements sse.Source. It lends nothing until Read has returned all bytes of first.
func (r readAhead) Lend() []byte {
	if len(r.first) > 0 {
		return nil
	}
	return r.Reply.Lend()
}

func (w *whole) readMore(r *Reply) error {
	dst := *w.body
	n, err := r.Read(dst[len(dst):cap(dst)])
	*w.body = dst[:len(dst)+n]
	if isEnd(err) {
		r.ended = true
		return nil
	}
	return err
}
