package endpoint

import (
	"time"

	"penstock/config"
	"penstock/proxy/request/body"
	"penstock/proxy/running/snapshot"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/forward"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// imageEdits is POST /v1/images/edits. It accepts a form and answers with JSON.
var imageEdits = &Endpoint{
	Path:      "/v1/images/edits",
	Operation: config.OpImages,
	Traced:    tracedContent,
	Dialect:   images.Dialect,
	Form:      true,
	New: func() Request {
		r := new(editRequest)
		r.begin(&r.own, engine.OpImageEdits, upstreams.PoolText)
		return r
	},
}

type editRequest struct {
	formRequest
	own forward.Edit
}

func (r *editRequest) Decode(in Input) error {
	r.own.Refuse = in.Snapshot.Refused.BySome
	return r.formRequest.Decode(in)
}

func (r *editRequest) Unary(about CallInfo) Unary {
	a := &editAnswer{form: &r.form}
	a.begin(&about)
	return a
}

// editAnswer is the Unary of an image edit. The engine's response may arrive before the client's
// form is complete.
type editAnswer struct {
	forwarded
	form *body.Form
}

func (a *editAnswer) PassesOn(Reply) bool { return a.form.Ended() }

// formFields interprets the fields of a form. Stream reports whether the client requested a stream.
type formFields interface {
	body.Fields
	Stream() bool
}

// formRequest is the common base of the codecs for forms. A form is checked while it is read. Its
// beginning may already have been sent to an engine.
type formRequest struct {
	form      body.Form
	fields    formFields
	operation string // name of the operation in engine profiles
	pool      upstreams.Pool
	engine    *engine.Profile
}

func (r *formRequest) begin(fields formFields, operation string, pool upstreams.Pool) {
	r.fields, r.operation, r.pool = fields, operation, pool
}

// Decode implements Request. It reads only the beginning of the form.
func (r *formRequest) Decode(in Input) error {
	r.form.Begin(&in.From, formEnd{r.fields, r}, in.Memory)
	return r.form.ReadHead(in.Header.ContentType())
}

type formEnd struct {
	formFields
	request *formRequest
}

// End implements body.Fields. The field that requests a stream may follow the file. If the form is
// already being sent to an engine that does not support streams, End rejects the form.
func (e formEnd) End() ([]forward.Field, error) {
	fields, err := e.formFields.End()
	if err != nil || !e.Stream() {
		return fields, err
	}
	if p := e.request.engine; p != nil && !p.Has(config.QuirkStreamsTranscriptions) {
		return nil, noStreams()
	}
	return fields, nil
}

func noStreams() *apierr.Error {
	return apierr.Invalid("stream", apierr.CodeUnsupportedParameter,
		"stream must be false or absent: the engines of this model give transcriptions as a whole.")
}

func (r *formRequest) Model() []byte { return r.fields.Model() }
func (r *formRequest) Streams() bool { return r.fields.Stream() }

// Check implements Request. It does not check the fields, because they are checked as they arrive.
func (r *formRequest) Check(*snapshot.Model, time.Time) (Checked, error) {
	return Checked{Pool: r.pool, PoolName: r.pool.String()}, nil
}

// Estimate implements Request. The edge does not estimate the tokens of audio and images.
func (r *formRequest) Estimate(float64) (prompt, output int) { return 0, 0 }
func (r *formRequest) Limit() TokenLimit                     { return noLimit{} }
func (r *formRequest) Prefix() (tools, messages []byte)      { return nil, nil }
func (r *formRequest) Session() chat.Session                 { return chat.Session{} }
func (r *formRequest) WantsStream(*engine.Profile) bool      { return r.fields.Stream() }

func (r *formRequest) Fill(to Target) (Sending, error) {
	p := to.Upstream.Engine()
	path := p.Path(r.operation)
	if path == "" {
		return Sending{}, ErrNoPath
	}
	r.engine = p
	pieces, rest := r.form.ForEngine(to.Served)
	return Sending{Path: path, ContentType: r.form.ContentType(), Accept: anyType, Body: pieces, Reader: rest}, nil
}

func (r *formRequest) Reads(reply Reply, streamed bool) ReplyForm { return textReply(reply, streamed) }
func (r *formRequest) AnswersJSON() bool                          { return r.form.Ended() }
func (r *formRequest) Stream(CallInfo) Stream                     { panic("BUG: the endpoint has no streams") }
func (r *formRequest) Chat() *chat.Request                        { return nil }
func (r *formRequest) Ended() bool                                { return r.form.Ended() }
func (r *formRequest) Spent() bool                                { return r.form.Spent() }
func (r *formRequest) BytesRead() int64                           { return r.form.BytesRead() }
func (r *formRequest) Release()                                   { r.form.Release() }
func (r *formRequest) Recycle()                                   {}
