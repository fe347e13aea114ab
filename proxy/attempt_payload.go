package proxy

import (
	"errors"
	"io"
	"slices"

	"penstock/translate/audio"
	"penstock/translate/forward"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// An attempt on endpoints that are not chat underneath: its request is a payload.

// openPayload sends the call's payload.
func (a *attempt) openPayload() error {
	c, engine := a.call, a.lease.Upstream().Engine()
	clocks := &c.model.Clocks
	r := http1.Request{
		Method: "POST", Path: engine.Path(c.ep.pathOp()),
		Accept: "*/*", RequestID: c.id, Traceparent: c.traceparent(),
		ConnectTimeout: clocks.Connect.D(), WriteTimeout: clocks.FirstEvent.D(),
		NoReplay: c.sends > c.refits,
	}
	if r.Path == "" { // an engine that is known not to have this endpoint
		f := noEndpoint(0)
		f.outcome = upstreams.OutcomeClientGone // it was not asked
		return f
	}
	if p, ok := c.payload.(jsonPayload); ok && p.output != nil { // engines report cached tokens for no others
		p.SetSalt(c.saltAt(a.lease.Upstream()))
	}
	c.payload.fill(&r, engine, a.target.Served)
	err := a.x.Send(&r)
	a.sent()
	if c.upload != nil && err == nil { // the last field of a form may have asked for events
		c.record.Stream = c.upload.form.Stream()
		a.streamed = c.record.Stream
	}
	return err
}

// awaitBinary is the end of awaitHead for an answer of bytes.
func (a *attempt) awaitBinary() error {
	if !audioType(a.x.Header("Content-Type")) {
		return badResponse(errWrongType)
	}
	a.headed = true
	return nil
}

const rawPiece = 16 << 10

var errNoAudio = errors.New("an answer without bytes, or of unknown length")

// pullBinary is pull for an answer of bytes. An answer that ends with its connection is never
// complete: half of an audio file cannot be told from a whole one.
func (a *attempt) pullBinary(dst []byte) (out []byte, done bool, err error) {
	dst = slices.Grow(dst, rawPiece)
	n, err := a.Read(dst[len(dst):cap(dst)])
	dst = dst[:len(dst)+n]
	switch {
	case errors.Is(err, io.EOF) && a.begun && a.x.Framed():
		a.ended = true
		return dst, true, nil
	case errors.Is(err, io.EOF):
		return dst, false, badResponse(errNoAudio)
	case err != nil:
		return dst, false, a.classify(err)
	}
	a.begun = true
	return dst, false, nil
}

// pullTranscript is pull for a transcript that the engine sends in one piece although a stream was
// asked for: the edge writes the stream itself. An engine without transcript streams, or without
// one in the requested format, is not faulty: the client gets the error and the breaker does not
// count it. Otherwise one client's option could take the engine from all others.
func (a *attempt) pullTranscript(dst []byte) (out []byte, done bool, err error) {
	structured := isJSON(a.x.Header("Content-Type"))
	c := a.call
	if a.unaryBody == nil {
		a.unaryBody = outPool.Get().(*[]byte)
		*a.unaryBody = (*a.unaryBody)[:0]
	}
	if err := a.readUnary(); err != nil {
		return dst, false, a.classify(err)
	}
	body := *a.unaryBody
	if err := c.holdOut(len(dst) + 2*len(body)); err != nil { // a delta and the end, which repeats it
		return dst, false, a.classify(err)
	}
	switch t := c.upload.form.(*audio.Transcription); {
	case !structured && (!c.upload.ended || t.JSON()):
		err = errWrongType
	case !structured && !a.x.Framed():
		err = errTextOfUnknownLength
	default:
		dst, err = c.stream.(*forward.Stream).AppendWhole(dst, body, structured)
	}
	if err == nil {
		err = c.holdOut(cap(dst))
	}
	if err != nil {
		f := a.failureOf(err)
		if f.outcome == upstreams.OutcomeBadResponse && f.status == 0 {
			f.outcome = upstreams.OutcomeRejected
		}
		return dst, false, f
	}
	a.begun = true
	a.count++
	out, err = c.stream.Finish(dst)
	return out, true, a.classify(err)
}
