package attempt

import (
	"errors"

	"penstock/proxy/endpoint"
	"penstock/translate"
	"penstock/translate/chat/answer"
	"penstock/upstreams/http1"
)

// ErrLarge ends ReadWhole for a reply that is larger than what a call may hold without asking, and
// that can be passed on as it comes.
var ErrLarge = errors.New("a large reply that is passed on")

var errTooLarge = &translate.BadAnswer{Reason: translate.TooLarge}

// OutMore is how much longer than its completion an answer may be before its buffer grows.
const OutMore = 1 << 10

// wholeBuffer makes the buffer of a reply that is read whole.
func (r *reply) wholeBuffer() {
	if r.whole == nil {
		r.whole = NewBuffer()
		*r.whole = (*r.whole)[:0]
	}
}

// readWhole reads the reply's body into r.whole, or its beginning if the rest is to be passed on as
// it comes; to may be nil: it is not.
func (r *reply) readWhole(to endpoint.Unary) error {
	announced := int(min(r.x.ContentLength(), translate.MaxAnswer+1))
	if announced > translate.MaxAnswer {
		return errTooLarge
	}
	for dst := *r.whole; ; {
		switch {
		case len(dst) > translate.MaxAnswer:
			return errTooLarge
		case len(dst) >= free && to != nil && to.PassesOn(r.x):
			return ErrLarge
		case len(dst) == cap(dst):
			most := translate.MaxAnswer + 1
			if announced >= len(dst) { // and one byte more for the read that finds the end
				most = announced + 1
			}
			var err error
			if dst, err = r.memory.grow(dst, most); err != nil {
				return err
			}
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		*r.whole = dst
		if isEnd(err) {
			r.ended = true
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// completion returns the native reply in r.whole as a chat completion.
func (r *reply) completion() ([]byte, error) {
	if r.native == nil || r.form == endpoint.Events {
		return *r.whole, nil
	}
	if err := r.memory.Hold(PartState, len(*r.whole)); err != nil {
		return nil, err
	}
	return r.native.AppendCompletion(nil, *r.whole)
}

// assemble reads a stream to its end and puts its completion together in r.whole.
func (r *reply) assemble(options *answer.Options) error {
	if r.assembler == nil {
		r.assembler = assemblerPool.Get().(*answer.Assembler)
		r.assembler.Reset()
	}
	if err := r.readEvents(r.assembler); err != nil {
		return err
	}
	if n := r.assembler.Held() + OutMore; n > MaxPooled {
		if err := r.memory.Hold(PartBody, n); err != nil {
			return err
		}
		*r.whole = make([]byte, 0, n)
	}
	var err error
	*r.whole, err = r.assembler.Append((*r.whole)[:0], options)
	return err
}

// readEvents reads a stream to its end into an assembler.
func (r *reply) readEvents(into *answer.Assembler) error {
	for {
		ev, err := r.events.Next()
		if isEnd(err) {
			r.ended = true
			return nil
		}
		if err != nil {
			if r.clock.completeAt.IsZero() || errors.Is(err, http1.ErrNotYet) && !r.clock.overdue() {
				return err
			}
			return nil
		}
		blank := ev.Blank()
		if r.native != nil {
			if ev, err = r.native.Read(ev); err != nil {
				return err
			}
		}
		if err := into.Add(ev); err != nil {
			return err
		}
		if err := r.memory.holdState(into.Held()); err != nil {
			return err
		}
		r.clock.begun = r.clock.begun || !blank
		if into.Done() || r.native != nil && r.native.Done() {
			return nil
		}
		if into.Finished() {
			r.clock.complete()
		}
	}
}

// pullPassedOn is pull for a large reply that is passed on.
func (r *reply) pullPassedOn(dst []byte, to *endpoint.PassOn) (out []byte, done bool, err error) {
	for before := len(dst); len(dst) == before; {
		piece := (*r.whole)[:cap(*r.whole)]
		n, err := r.Read(piece)
		if isEnd(err) {
			r.ended = true
			err = to.End()
			return dst, err == nil, err
		}
		if err == nil {
			dst, err = to.Append(dst, piece[:n])
		}
		if err != nil {
			return dst, false, err
		}
	}
	return dst, false, nil
}
