package attempt

import (
	"errors"
	"io"
	"slices"

	"penstock/proxy/request/endpoint"
	"penstock/translate"
	"penstock/translate/sse"
	"penstock/upstreams/http1"
)

const (
	coalesce = 16 << 10 // maximum total size of events that are written together
	rawPiece = 16 << 10
)

func (r *Reply) pull(dst []byte, to endpoint.Stream) (out []byte, done bool, err error) {
	if r.bad != nil {
		return dst, false, r.bad
	}
	switch r.form { //nolint:exhaustive // the others are no streams
	case endpoint.Bytes:
		return r.pullBytes(dst)
	case endpoint.BytesOfStream:
		return pullIntoEvents(r, dst, to)
	case endpoint.WholeOfStream:
		return r.pullWhole(dst, to)
	}
	return r.pullEvents(dst, to)
}

func (r *Reply) pullEvents(dst []byte, to endpoint.Stream) (out []byte, done bool, err error) {
	before := len(dst)
	for {
		ev, err := r.events.Next()
		switch {
		case err == nil:
		case isEnd(err):
			r.ended = true
			if r.x.Framed() {
				to.Ended()
			}
			out, err = r.finish(dst, to)
			return out, true, err
		case errors.Is(err, http1.ErrNotYet) && r.clock.overdue(), to.Finished() && brokeOff(err):
			out, err = r.finish(dst, to) // all choices have finished
			return out, true, err
		default:
			return dst, false, err
		}
		blank := ev.Blank()
		if dst, err = r.append(dst, ev, to); err != nil {
			return r.undeliverable(dst, before, err)
		}
		if !blank { // a blank event does not prove that generation has started
			r.clock.begun = true
			r.count++
		}
		if to.Done() {
			if out, err = r.finish(dst, to); err != nil {
				return r.undeliverable(dst, before, err)
			}
			return out, true, nil
		}
		if to.Finished() {
			r.clock.complete()
		}
		if len(dst) > before && (len(dst) >= coalesce || !r.events.Ready()) {
			return dst, false, nil
		}
	}
}

// brokeOff reports whether the connection to the engine was lost or carried invalid HTTP.
func brokeOff(err error) bool {
	var f *http1.Failure
	return errors.As(err, &f) && (f.Kind == http1.BadResponse || f.Kind == http1.Unreachable)
}

// append translates an event and appends the result. It reserves memory for the event before the
// translation, and corrects the reservation afterwards.
func (r *Reply) append(dst []byte, ev sse.Event, to endpoint.Stream) ([]byte, error) {
	if err := r.memory.HoldOut(max(cap(dst), len(dst)+len(ev.Data))); err != nil {
		return dst, err
	}
	dst, err := to.Append(dst, ev)
	if err != nil {
		return dst, err
	}
	if err := r.memory.HoldOut(cap(dst)); err != nil {
		return dst, err
	}
	return dst, r.memory.holdState(to.Held())
}

// finish appends the end of a successful stream. In the Responses dialect, the end repeats the
// answer four times: in the text, its part, its item and the response. If no memory is left for
// these copies, finish appends nothing, so the caller can still end the stream with an error.
func (r *Reply) finish(dst []byte, to endpoint.Stream) ([]byte, error) {
	if err := r.memory.HoldOut(max(cap(dst), len(dst)+4*to.Held())); err != nil {
		return dst, err
	}
	dst, err := to.Finish(dst)
	if err == nil {
		_ = r.memory.HoldOut(cap(dst)) // the buffer is already allocated
	}
	return dst, err
}

// undeliverable returns the error of an event that cannot be delivered. If the same pull has
// appended earlier events, it delivers them first, and the next pull returns the error. The client
// therefore gets the same events no matter how the bytes are split across reads.
func (r *Reply) undeliverable(dst []byte, before int, err error) ([]byte, bool, error) {
	if len(dst) > before {
		r.bad = err
		return dst, false, nil
	}
	return dst, false, err
}

// pullBytes is pull for a binary response. A response that is delimited only by the closing of its
// connection never counts as complete.
func (r *Reply) pullBytes(dst []byte) (out []byte, done bool, err error) {
	dst = slices.Grow(dst, rawPiece)
	n, err := r.Read(dst[len(dst):cap(dst)])
	dst = dst[:len(dst)+n]
	switch {
	case err == nil:
		r.clock.begun = true
		return dst, false, nil
	case !errors.Is(err, io.EOF):
		return dst, false, err
	case r.clock.begun && r.x.Framed():
		r.ended = true
		return dst, true, nil
	case r.clock.begun:
		return dst, false, translate.ErrNoLength
	}
	return dst, false, endpoint.ErrNoAudio
}

// pullIntoEvents is pull for a binary response if the client requested events.
func pullIntoEvents(r *Reply, dst []byte, to endpoint.Stream) (out []byte, done bool, err error) {
	for before := len(dst); len(dst) == before; {
		if err := r.memory.HoldOut(max(cap(dst), len(dst)+2*rawPiece)); err != nil {
			return dst, false, err
		}
		r.whole.begin()
		piece, done, err := r.pullBytes((*r.whole.body)[:0])
		if *r.whole.body = piece; err != nil {
			return dst, false, err
		}
		if dst, err = to.AppendBody(dst, piece, r.x); err != nil {
			return dst, false, err
		}
		if len(piece) > 0 {
			r.count++
		}
		if done {
			to.Ended()
			out, err = r.finish(dst, to)
			return out, true, err
		}
	}
	return dst, false, r.memory.HoldOut(cap(dst))
}

// unsuited wraps the error of an engine that cannot answer in the requested format. The engine is
// not blamed, because otherwise one client's option could open its breaker for all clients.
type unsuited struct{ error }

// Unwrap returns the wrapped error.
func (e unsuited) Unwrap() error { return e.error }

// pullWhole is pull for a response that is not a stream even though the request asked for one. It
// creates the stream from the response.
func (r *Reply) pullWhole(dst []byte, to endpoint.Stream) (out []byte, done bool, err error) {
	r.whole.begin()
	if err := r.whole.read(r, nil); err != nil {
		return dst, false, err
	}
	body := *r.whole.body
	// The size counts twice, because the last event may repeat the text of the delta.
	if err := r.memory.HoldOut(len(dst) + 2*len(body)); err != nil {
		return dst, false, err
	}
	if dst, err = to.AppendBody(dst, body, r.x); err == nil {
		err = r.memory.HoldOut(cap(dst))
	}
	if err != nil {
		return dst, false, unsuited{err}
	}
	r.clock.begun = true
	r.count++
	out, err = to.Finish(dst)
	return out, true, err
}
