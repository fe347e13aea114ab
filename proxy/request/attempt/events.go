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
	coalesceBytes   = 16 << 10 // maximum total size of events that are written together
	binaryChunkSize = 16 << 10
)

func (r *Reply) pullStream(dst []byte, to endpoint.Stream) (out []byte, done bool, err error) {
	if r.pendingErr != nil {
		return dst, false, r.pendingErr
	}
	switch r.form { //nolint:exhaustive // the others are no streams
	case endpoint.ReplyBytes:
		return r.pullBinary(dst)
	case endpoint.ReplyBytesAsEvents:
		return pullBinaryAsEvents(r, dst, to)
	case endpoint.ReplyWholeAsStream:
		return r.pullFullAsStream(dst, to)
	}
	return r.pullEvents(dst, to)
}

func (r *Reply) pullEvents(dst []byte, to endpoint.Stream) (out []byte, done bool, err error) {
	before, events := len(dst), to.Translator()
	for {
		ev, err := r.eventReader.NextEvent()
		switch {
		case err == nil:
		case isEOF(err):
			r.hasEnded = true
			if r.x.IsFramed() {
				to.MarkEnded()
			}
			out, err = r.appendStreamEnd(dst, to)
			return out, true, err
		case errors.Is(err, http1.ErrNoBytesYet) && r.timeouts.isTailOverdue(), to.IsFinished() && isConnectionLost(err):
			out, err = r.appendStreamEnd(dst, to) // only the end of the stream is missing
			return out, true, err
		default:
			return dst, false, err
		}
		blank := ev.IsBlank()
		if dst, err = r.appendEvent(dst, ev, events); err != nil {
			return r.deferError(dst, before, err)
		}
		if !blank { // a blank event does not prove that generation has started
			r.timeouts.answerBegun = true
			r.eventCount++
		}
		if events.IsDone() {
			if out, err = r.appendStreamEnd(dst, to); err != nil {
				return r.deferError(dst, before, err)
			}
			return out, true, nil
		}
		if events.IsFinished() {
			r.timeouts.markAnswerComplete()
		}
		if len(dst) > before && (len(dst) >= coalesceBytes || !r.eventReader.HasEvent()) {
			return dst, false, nil
		}
	}
}

// isConnectionLost reports whether the connection to the engine was lost or carried invalid HTTP.
func isConnectionLost(err error) bool {
	var f *http1.Failure
	return errors.As(err, &f) && (f.Kind == http1.KindBadResponse || f.Kind == http1.KindUnreachable)
}

// appendEvent translates an event and appends the result. It reserves memory for the event before
// the translation, and corrects the reservation afterwards.
func (r *Reply) appendEvent(dst []byte, ev sse.Event, to translate.Stream) ([]byte, error) {
	if err := r.memory.SetOutSize(max(cap(dst), len(dst)+len(ev.Data))); err != nil {
		return dst, err
	}
	dst, err := to.Append(dst, ev)
	if err != nil {
		return dst, err
	}
	if err := r.memory.SetOutSize(cap(dst)); err != nil {
		return dst, err
	}
	return dst, r.memory.setStateSize(to.BufferedBytes())
}

// appendStreamEnd appends the end of a successful stream. In the Responses dialect, the end repeats
// the answer four times: in the text, its part, its item and the response. If no memory is left for
// these copies, appendStreamEnd appends nothing, so the caller can still end the stream with an
// error.
func (r *Reply) appendStreamEnd(dst []byte, to endpoint.Stream) ([]byte, error) {
	if err := r.memory.SetOutSize(max(cap(dst), len(dst)+4*to.BufferedBytes())); err != nil {
		return dst, err
	}
	dst, err := to.Finish(dst)
	if err == nil {
		_ = r.memory.SetOutSize(cap(dst)) // the buffer is already allocated
	}
	return dst, err
}

// deferError returns the error of an event that cannot be delivered. If the same pullStream call
// has appended earlier events, deferError delivers them first, and the next call returns the error.
// The client therefore gets the same events no matter how the bytes are split across reads.
func (r *Reply) deferError(dst []byte, before int, err error) ([]byte, bool, error) {
	if len(dst) > before {
		r.pendingErr = err
		return dst, false, nil
	}
	return dst, false, err
}

// pullBinary is pullStream for a binary response. If only the end of the connection delimits the
// response, it never counts as complete.
func (r *Reply) pullBinary(dst []byte) (out []byte, done bool, err error) {
	dst = slices.Grow(dst, binaryChunkSize)
	n, err := r.Read(dst[len(dst):cap(dst)])
	dst = dst[:len(dst)+n]
	switch {
	case err == nil:
		r.timeouts.answerBegun = true
		return dst, false, nil
	case !errors.Is(err, io.EOF):
		return dst, false, err
	case r.timeouts.answerBegun && r.x.IsFramed():
		r.hasEnded = true
		return dst, true, nil
	case r.timeouts.answerBegun:
		return dst, false, translate.ErrNoAnswerLength
	}
	return dst, false, endpoint.ErrNoAudio
}

// pullBinaryAsEvents is pullStream for a binary response if the client requested events.
func pullBinaryAsEvents(r *Reply, dst []byte, to endpoint.Stream) (out []byte, done bool, err error) {
	for before := len(dst); len(dst) == before; {
		if err := r.memory.SetOutSize(max(cap(dst), len(dst)+2*binaryChunkSize)); err != nil {
			return dst, false, err
		}
		r.full.ensureBuffer()
		piece, done, err := r.pullBinary((*r.full.body)[:0])
		if *r.full.body = piece; err != nil {
			return dst, false, err
		}
		if dst, err = to.AppendBody(dst, piece, r.x); err != nil {
			return dst, false, err
		}
		if len(piece) > 0 {
			r.eventCount++
		}
		if done {
			to.MarkEnded()
			out, err = r.appendStreamEnd(dst, to)
			return out, true, err
		}
	}
	return dst, false, r.memory.SetOutSize(cap(dst))
}

// unsupportedFormatError wraps the error of an engine that cannot answer in the requested format.
// The engine is not blamed, because otherwise an option set by one client could open the engine's
// breaker for all clients.
type unsupportedFormatError struct{ error }

// Unwrap returns the wrapped error.
func (e unsupportedFormatError) Unwrap() error { return e.error }

// pullFullAsStream is pullStream for a response that is not a stream even though the request asked
// for one. It creates the stream from the response.
func (r *Reply) pullFullAsStream(dst []byte, to endpoint.Stream) (out []byte, done bool, err error) {
	r.full.ensureBuffer()
	if err := r.full.readBody(r, nil); err != nil {
		return dst, false, err
	}
	body := *r.full.body
	// The size of the body is reserved twice, because the last event may repeat the text of the
	// delta.
	if err := r.memory.SetOutSize(len(dst) + 2*len(body)); err != nil {
		return dst, false, err
	}
	if dst, err = to.AppendBody(dst, body, r.x); err == nil {
		err = r.memory.SetOutSize(cap(dst))
	}
	if err != nil {
		return dst, false, unsupportedFormatError{err}
	}
	r.timeouts.answerBegun = true
	r.eventCount++
	out, err = to.Finish(dst)
	return out, true, err
}
