package proxy

import (
	"errors"
	"io"
	"slices"

	"penstock/proxy/observe"
	"penstock/translate/audio"
	"penstock/translate/forward"
	"penstock/upstreams"
)

// This file is what an attempt does otherwise on endpoints that are not chat underneath.

// openOther sends the call's payload.
func (a *attempt) openOther() error {
	c, engine := a.call, a.lease.Upstream().Engine()
	clocks := &c.model.clocks
	r := upstreams.Request{
		Method: "POST", Path: engine.Path(c.ep.pathOp()),
		Accept: "*/*", RequestID: c.id, Traceparent: c.traceparent(),
		ConnectTimeout: clocks.Connect.D(), WriteTimeout: clocks.FirstEvent.D(),
		NoReplay: c.sends > c.refits,
	}
	if r.Path == "" { // an engine that is known not to have this endpoint
		return &failure{api: noHealthyRoute(jitter(retrySoon)), outcome: upstreams.OutcomeClientGone, result: observe.NoRoute, retry: true}
	}
	if p, ok := c.payload.(plain); ok && p.output != nil { // of the others no engine tells what it had cached
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

// awaitRaw is the end of awaitHead for an answer of bytes.
func (a *attempt) awaitRaw() error {
	if !audioType(a.x.Header("Content-Type")) {
		return badResponse(errWrongType)
	}
	a.headed = true
	return nil
}

const rawPiece = 16 << 10

var errNoAudio = errors.New("an answer without bytes, or of unknown length")

// pullRaw is pull for an answer of bytes. One whose end only the closing of the connection tells is never whole: half of an
// audio file sounds like one.
func (a *attempt) pullRaw(dst []byte) (out []byte, done bool, err error) {
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

// pullTranscript is pull for a transcript that the engine gives as a whole although a stream was asked for: the edge tells
// the stream itself. That an engine has none, or none in the asked format, is no sign of illness: an answer of which no stream
// can be made is told to the client and not counted, else one client's option would take the engine from all.
func (a *attempt) pullTranscript(dst []byte) (out []byte, done bool, err error) {
	structured := isJSON(a.x.Header("Content-Type"))
	c := a.call
	if a.whole == nil {
		a.whole = outPool.Get().(*[]byte)
		*a.whole = (*a.whole)[:0]
	}
	if err := a.readWhole(); err != nil {
		return dst, false, a.classify(err)
	}
	body := *a.whole
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
