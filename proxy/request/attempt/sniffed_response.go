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

// sniffedResponse is the state for reading a response whose Content-Type does not match the
// requested stream.
type sniffedResponse struct {
	full        fullResponse
	mediaType   string
	peekedBytes []byte // bytes that peekedReader returns before it reads from the Reply
}

// sniffResponse handles a response whose Content-Type does not match the requested stream. The
// response may be a stream, because some servers and proxies send streams as text/plain or without
// a Content-Type. It may also be a complete answer, which sniffResponse converts to a stream. Any
// other response is an error. After http1.ErrNoBytesYet, sniffResponse may be called again.
func (a *Attempt) sniffResponse(until time.Time) error {
	r := &a.Reply
	r.timeouts.readDeadline = instant.FromTime(until)
	in := &r.sniffed.full
	in.ensureBuffer()
	for !r.hasEnded {
		events, decided := sse.LooksLikeEvents(*in.body)
		if events {
			r.startEventReader(*in.body, maxEventBytes)
			return nil
		}
		if decided || len(*in.body) == cap(*in.body) {
			break
		}
		if err := in.readMore(r); err != nil {
			return err
		}
	}
	if !r.hasEnded {
		if err := in.readBody(r, nil); err != nil {
			return err
		}
	}
	events, err := answer.AppendAsStream(nil, *in.body)
	if err != nil {
		var short engineerror.StringShortener
		text := short.Append(nil, *in.body)
		return a.unexpectedTypeFailure(r.sniffed.mediaType, text[:min(len(text), engineerror.MaxBodyBytes)])
	}
	if err := r.memory.SetPartSize(ResponseBodyMemory, len(*in.body)+len(events)); err != nil {
		return err
	}
	r.startEventReader(events, translate.MaxAnswerBytes+maxEventBytes)
	return nil
}

func (r *Reply) startEventReader(first []byte, longest int) {
	r.sniffed.peekedBytes = first
	r.form, r.timeouts.headArrived = endpoint.ReplyEvents, true
	r.eventReader = eventReaderPool.Get().(*sse.Reader)
	r.eventReader.Reset(peekedReader{r}, longest)
}

// peekedReader reads sniffedResponse.peekedBytes and then the Reply.
type peekedReader struct{ *Reply }

func (r peekedReader) Read(p []byte) (int, error) {
	switch {
	case len(r.sniffed.peekedBytes) > 0:
		n := copy(p, r.sniffed.peekedBytes)
		r.sniffed.peekedBytes = r.sniffed.peekedBytes[n:]
		return n, nil
	case r.hasEnded:
		return 0, io.EOF
	}
	return r.Reply.Read(p)
}

// LendBytes implements sse.Source. It lends nothing until Read has returned all peeked bytes.
func (r peekedReader) LendBytes() []byte {
	if len(r.sniffed.peekedBytes) > 0 {
		return nil
	}
	return r.Reply.LendBytes()
}

func (w *fullResponse) readMore(r *Reply) error {
	dst := *w.body
	n, err := r.Read(dst[len(dst):cap(dst)])
	*w.body = dst[:len(dst)+n]
	if isEOF(err) {
		r.hasEnded = true
		return nil
	}
	return err
}
