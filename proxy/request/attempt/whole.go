package attempt

import (
	"errors"

	"penstock/proxy/request/endpoint"
	"penstock/translate"
	"penstock/translate/chat/answer"
	"penstock/upstreams/http1"
)

// ErrLarge ends ReadWhole for a reply that can be passed on as it arrives and is larger than a call
// may hold without a reservation.
var ErrLarge = errors.New("a large reply that is passed on")

var errTooLarge = &translate.BadAnswer{Reason: translate.TooLarge}

// OutMore is the number of bytes by which an answer may exceed its completion before the buffer has
// to grow.
const OutMore = 1 << 10

// whole is a reply that is read to its end before it is used.
type whole struct {
	body      *[]byte           // the bytes so far, or a stream's completion; nil: nothing yet
	assembler *answer.Assembler // assembles a stream for a client that wants it whole
}

// begin takes a buffer from its pool.
func (w *whole) begin() {
	if w.body == nil {
		w.body = NewBuffer()
	}
}

// release returns the buffer and the assembler to their pools.
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

// read reads the body of r. If the reply can be passed on as it arrives, read returns after the
// first bytes. If to is nil, read reads the whole body.
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
			if announced >= len(dst) { // one more byte for the read that finds the end
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

// assemble reads the stream of r to its end and assembles the completion.
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

// readEvents reads the stream of r to its end into the assembler.
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

// BeginPassOn appends what ReadWhole has read of a large reply.
func (r *Reply) BeginPassOn(dst []byte, to *endpoint.PassOn) ([]byte, error) {
	out, err := to.Append(dst, *r.whole.body)
	if err == nil {
		r.clock.begun = true
	}
	return out, err
}

// PullPassedOn is Attempt.Pull for the rest of a large reply that is passed on.
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
