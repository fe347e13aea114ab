package attempt

import (
	"errors"

	"penstock/proxy/request/endpoint"
	"penstock/translate"
	"penstock/translate/chat/answer"
	"penstock/upstreams/http1"
)

// ErrLargeReply is returned by ReadFullResponse for a response that needs a reservation and that
// the caller can relay while it arrives.
var ErrLargeReply = errors.New("a large reply that is passed on")

var errTooLarge = &translate.BadAnswerError{Reason: translate.ReasonTooLarge}

// AnswerBufferHeadroom is the number of bytes by which an answer buffer is larger than the
// completion, so that the buffer rarely has to grow.
const AnswerBufferHeadroom = 1 << 10

type fullResponse struct {
	// The engine's response bytes or the assembled completion; nil before the first read.
	body      *[]byte
	assembler *answer.Assembler // assembles the engine's stream; nil if the response is not a stream
}

func (w *fullResponse) ensureBuffer() {
	if w.body == nil {
		w.body = NewBuffer()
	}
}

func (w *fullResponse) release() {
	if w.body != nil {
		RecycleBuffer(w.body)
	}
	if w.assembler != nil {
		w.assembler.Reset()
		assemblerPool.Put(w.assembler)
	}
	*w = fullResponse{}
}

// readBody reads the body of r. If to is not nil and the response can be relayed, readBody returns
// ErrLargeReply once it has read unreservedBytes or more.
func (w *fullResponse) readBody(r *Reply, to endpoint.UnaryAnswer) error {
	announced := int(min(r.x.ContentLength(), translate.MaxAnswerBytes+1))
	if announced > translate.MaxAnswerBytes {
		return errTooLarge
	}
	for dst := *w.body; ; {
		switch {
		case len(dst) > translate.MaxAnswerBytes:
			return errTooLarge
		case len(dst) >= unreservedBytes && to != nil && to.CanPassThrough(r.x):
			return ErrLargeReply
		case len(dst) == announced: // a further read would only return io.EOF
			r.hasEnded = true
			return nil
		}
		arrived := r.LendBytes() // at most a buffer of package http1, and never more than announced
		if len(dst)+max(len(arrived), 1) > cap(dst) {
			most := translate.MaxAnswerBytes + 1
			if announced >= 0 {
				most = announced
			}
			var err error
			if dst, err = r.memory.grow(dst, most); err != nil {
				return err
			}
		}
		if len(arrived) > 0 {
			dst = append(dst, arrived...)
			*w.body = dst
			continue
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		*w.body = dst
		if isEOF(err) {
			r.hasEnded = true
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (w *fullResponse) assembleStream(r *Reply, options *answer.WriteOptions) error {
	if w.assembler == nil {
		w.assembler = assemblerPool.Get().(*answer.Assembler)
		w.assembler.Reset()
		w.assembler.SetToolNames(options.Tools)
	}
	if err := w.readEvents(r); err != nil {
		return err
	}
	if n := w.assembler.BufferedBytes() + AnswerBufferHeadroom; n > MaxPooled {
		if err := r.memory.SetPartSize(ResponseBodyMemory, n); err != nil {
			return err
		}
		*w.body = make([]byte, 0, n)
	}
	var err error
	*w.body, err = w.assembler.AppendCompletion((*w.body)[:0], options)
	return err
}

func (w *fullResponse) readEvents(r *Reply) error {
	into := w.assembler
	for {
		ev, err := r.eventReader.NextEvent()
		if isEOF(err) {
			r.hasEnded = true
			return nil
		}
		if err != nil {
			if r.timeouts.completeAt == 0 || errors.Is(err, http1.ErrNoBytesYet) && !r.timeouts.isTailOverdue() {
				return err
			}
			return nil
		}
		blank := ev.IsBlank()
		if err := into.AddEvent(ev); err != nil {
			return err
		}
		if err := r.memory.setStateSize(into.BufferedBytes()); err != nil {
			return err
		}
		r.timeouts.answerBegun = r.timeouts.answerBegun || !blank
		if into.IsDone() {
			return nil
		}
		if into.IsFinished() {
			r.timeouts.markAnswerComplete()
		}
	}
}

// BeginPassthrough relays the bytes that ReadFullResponse read before it returned ErrLargeReply.
func (r *Reply) BeginPassthrough(dst []byte, to *endpoint.ReplyPassthrough) ([]byte, error) {
	out, err := to.Append(dst, *r.full.body)
	if err == nil {
		r.timeouts.answerBegun = true
	}
	return out, err
}

// PullPassthrough is Attempt.PullStream for the remaining bytes of a relayed response.
func (r *Reply) PullPassthrough(dst []byte, to *endpoint.ReplyPassthrough) (out []byte, done bool, err error) {
	r.timeouts.readDeadline = 0
	for before := len(dst); len(dst) == before; {
		piece := (*r.full.body)[:cap(*r.full.body)]
		n, err := r.Read(piece)
		if isEOF(err) {
			r.hasEnded = true
			err = to.End()
			return dst, err == nil, err
		}
		if err == nil {
			dst, err = to.Append(dst, piece[:n])
		}
		if err == nil {
			err = r.memory.setStateSize(to.BufferedBytes())
		}
		if err != nil {
			return dst, false, err
		}
	}
	return dst, false, nil
}
