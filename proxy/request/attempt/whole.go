package attempt

import (
	"errors"

	"penstock/proxy/request/endpoint"
	"penstock/translate"
	"penstock/translate/chat/answer"
	"penstock/upstreams/http1"
)

// ErrLarge is the error of ReadWhole if the response needs a reservation and the caller can relay
// it while it arrives.
var ErrLarge = errors.New("a large reply that is passed on")

var errTooLarge = &translate.BadAnswer{Reason: translate.TooLarge}

// OutMore is the number of bytes by which an answer buffer exceeds the completion, so that the
// buffer rarely has to grow.
const OutMore = 1 << 10

type whole struct {
	// Response bytes or the assembled completion; nil before the first read.
	body      *[]byte
	assembler *answer.Assembler // assembles a stream if the client did not request a stream
}

func (w *whole) begin() {
	if w.body == nil {
		w.body = NewBuffer()
	}
}

func (w *whole) release() {
	if w.body != nil {
		Recycle(w.body)
	}
	if w.assembler != nil {
		w.assembler.Reset()
		assemblerPool.Put(w.assembler)
	}
	*w = whole{}
}

// read reads the body of r. If to is not nil and the response can be relayed, read returns ErrLarge
// once it has read more bytes than the constant free.
func (w *whole) read(r *Reply, to endpoint.Unary) error {
	announced := int(min(r.x.ContentLength(), translate.MaxAnswer+1))
	if announced > translate.MaxAnswer {
		return errTooLarge
	}
	for dst := *w.body; ; {
		switch {
		case len(dst) > translate.MaxAnswer:
			return errTooLarge
		case len(dst) >= free && to != nil && to.PassesOn(r.x):
			return ErrLarge
		case len(dst) == cap(dst):
			most := translate.MaxAnswer + 1
			if announced >= len(dst) { // the additional byte lets a read reach the end
				most = announced + 1
			}
			var err error
			if dst, err = r.memory.grow(dst, most); err != nil {
				return err
			}
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		*w.body = dst
		if isEnd(err) {
			r.ended = true
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (w *whole) assemble(r *Reply, options *answer.Options) error {
	if w.assembler == nil {
		w.assembler = assemblerPool.Get().(*answer.Assembler)
		w.assembler.Reset()
		w.assembler.Offer(options.Tools)
	}
	if err := w.readEvents(r); err != nil {
		return err
	}
	if n := w.assembler.Held() + OutMore; n > MaxPooled {
		if err := r.memory.Hold(PartBody, n); err != nil {
			return err
		}
		*w.body = make([]byte, 0, n)
	}
	var err error
	*w.body, err = w.assembler.Append((*w.body)[:0], options)
	return err
}

func (w *whole) readEvents(r *Reply) error {
	into := w.assembler
	for {
		ev, err := r.events.Next()
		if isEnd(err) {
			r.ended = true
			return nil
		}
		if err != nil {
			if r.clock.completeAt == 0 || errors.Is(err, http1.ErrNotYet) && !r.clock.overdue() {
				return err
			}
			return nil
		}
		blank := ev.Blank()
		if err := into.Add(ev); err != nil {
			return err
		}
		if err := r.memory.holdState(into.Held()); err != nil {
			return err
		}
		r.clock.begun = r.clock.begun || !blank
		if into.Done() {
			return nil
		}
		if into.Finished() {
			r.clock.complete()
		}
	}
}

// BeginPassOn relays the bytes that ReadWhole read before it returned ErrLarge.
func (r *Reply) BeginPassOn(dst []byte, to *endpoint.PassOn) ([]byte, error) {
	out, err := to.Append(dst, *r.whole.body)
	if err == nil {
		r.clock.begun = true
	}
	return out, err
}

// PullPassedOn is Attempt.Pull for the remaining bytes of a relayed response.
func (r *Reply) PullPassedOn(dst []byte, to *endpoint.PassOn) (out []byte, done bool, err error) {
	r.clock.until = 0
	for before := len(dst); len(dst) == before; {
		piece := (*r.whole.body)[:cap(*r.whole.body)]
		n, err := r.Read(piece)
		if isEnd(err) {
			r.ended = true
			err = to.End()
			return dst, err == nil, err
		}
		if err == nil {
			dst, err = to.Append(dst, piece[:n])
		}
		if err == nil {
			err = r.memory.holdState(to.Held())
		}
		if err != nil {
			return dst, false, err
		}
	}
	return dst, false, nil
}
