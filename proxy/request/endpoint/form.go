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

// imageEditsEndpoint is POST /v1/images/edits. It accepts a form and answers with JSON.
var imageEditsEndpoint = &Endpoint{
	Path:      "/v1/images/edits",
	Operation: config.OpImages,
	Traced:    traceOpGenerateContent,
	Dialect:   imagesEndpoint.Dialect,
	Form:      true,
	New: func() Request {
		r := new(imageEditRequest)
		r.initCodec(&r.parsed, engine.OpImageEdits, upstreams.PoolText)
		return r
	},
}

type imageEditRequest struct {
	formRequest
	parsed forward.ImageEdit
}

func (r *imageEditRequest) Decode(in DecodeInput) error {
	r.parsed.Refuse = in.Snapshot.Refused.BySome
	return r.formRequest.Decode(in)
}

func (r *imageEditRequest) NewUnaryAnswer(about CallInfo) UnaryAnswer {
	a := &imageEditAnswer{form: &r.form}
	a.initAnswer(&about)
	return a
}

// imageEditAnswer is the UnaryAnswer for an image edit. The engine's response may arrive before the
// client's form is complete.
type imageEditAnswer struct {
	forwardedAnswer
	form *body.Form
}

func (a *imageEditAnswer) CanPassThrough(ReplyHead) bool { return a.form.IsFullyRead() }

// formFields interprets the fields of a form. WantsStream reports whether the client requested a
// stream.
type formFields interface {
	body.FormFields
	WantsStream() bool
}

// formRequest is the common base of the codecs for forms. A form is checked while it is read, when
// its beginning may already have been sent to an engine.
type formRequest struct {
	form      body.Form
	fields    formFields
	operation string // name of the operation in engine profiles
	pool      upstreams.SlotPool
	engine    *engine.Profile
}

func (r *formRequest) initCodec(fields formFields, operation string, pool upstreams.SlotPool) {
	r.fields, r.operation, r.pool = fields, operation, pool
}

// Decode implements Request. It reads only the beginning of the form.
func (r *formRequest) Decode(in DecodeInput) error {
	r.form.Init(&in.From, formFinisher{r.fields, r}, in.Memory)
	return r.form.ReadWindow(in.Header.ContentType())
}

type formFinisher struct {
	formFields
	request *formRequest
}

// Finish implements body.FormFields. The field that requests a stream may follow the file. If the
// form is already being sent to an engine that does not support streams, Finish rejects the form.
func (e formFinisher) Finish() ([]forward.Field, error) {
	fields, err := e.formFields.Finish()
	if err != nil || !e.WantsStream() {
		return fields, err
	}
	if p := e.request.engine; p != nil && !p.HasQuirk(config.QuirkStreamsTranscriptions) {
		return nil, noStreamsError()
	}
	return fields, nil
}

func noStreamsError() *apierr.Error {
	return apierr.Invalid("stream", apierr.CodeUnsupportedParameter,
		"stream must be false or absent: the engines of this model give transcriptions as a whole.")
}

func (r *formRequest) Model() []byte           { return r.fields.Model() }
func (r *formRequest) ClientWantsStream() bool { return r.fields.WantsStream() }

// CheckModelRules implements Request. It does not check the fields, because they are checked as they
// arrive.
func (r *formRequest) CheckModelRules(*snapshot.Model, time.Time) (CheckResult, error) {
	return CheckResult{Pool: r.pool, PoolName: r.pool.String()}, nil
}

// EstimateTokens implements Request. The edge does not estimate the tokens of audio and images.
func (r *formRequest) EstimateTokens(float64) (prompt, output, answers int) { return 0, 0, 0 }

func (r *formRequest) AnswerTokenLimit() TokenLimit           { return noTokenLimit{} }
func (r *formRequest) PromptPrefix() (tools, messages []byte) { return nil, nil }
func (r *formRequest) SessionHashes() chat.SessionHashes      { return chat.SessionHashes{} }
func (r *formRequest) WantsStream(*engine.Profile) bool       { return r.fields.WantsStream() }

func (r *formRequest) EncodeRequest(to Target) (EngineRequest, error) {
	p := to.Upstream.Engine()
	path := p.Path(r.operation)
	if path == "" {
		return EngineRequest{}, ErrEngineLacksEndpoint
	}
	r.engine = p
	pieces, rest := r.form.EngineForm(to.Served)
	return EngineRequest{Path: path, ContentType: r.form.ContentType(), Accept: acceptAnyType, Body: pieces, Reader: rest}, nil
}

func (r *formRequest) DetectReplyForm(reply ReplyHead, streamed bool) ReplyForm {
	return detectTextReplyForm(reply, streamed)
}
func (r *formRequest) AnswersJSON() bool         { return r.form.IsFullyRead() }
func (r *formRequest) NewStream(CallInfo) Stream { panic("BUG: the endpoint has no streams") }
func (r *formRequest) Chat() *chat.Request       { return nil }
func (r *formRequest) IsFullyRead() bool         { return r.form.IsFullyRead() }
func (r *formRequest) IsConsumed() bool          { return r.form.IsConsumed() }
func (r *formRequest) BytesRead() int64          { return r.form.BytesRead() }
func (r *formRequest) Release()                  { r.form.Release() }
func (r *formRequest) Recycle()                  {}
