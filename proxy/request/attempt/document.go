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

// document holds what has been read of a reply that does not have the media type of the requested
// stream.
type document struct {
	read      whole
	mediaType string
}

// document decides what such a reply is. It may be the stream after all: servers and proxies in
// front of engines send streams as text/plain or without a type. It may be a whole answer, which
// document turns into a stream. Otherwise the reply is an error. document returns http1.ErrNotYet
// if the time until passes first, and may then be called again.
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

// readEvents starts reading a stream. first holds bytes that precede the rest of the reply.
func (r *Reply) readEvents(first []byte, longest int) {
	r.first = first
	r.form, r.clock.headed = endpoint.Events, true
	r.events = readerPool.Get().(*sse.Reader)
	r.events.Reset(readAhead{r}, longest)
}

// readAhead reads a Reply whose first bytes have already been read.
type readAhead struct{ *Reply }

// Read implements io.Reader.
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

// Lend implements sse.Source. It lends nothing as long as Read still has bytes from first.
func (r readAhead) Lend() []byte {
	if len(r.first) > 0 {
		return nil
	}
	return r.Reply.Lend()
}

// readMore reads once into the free part of the buffer.
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
