package endpoint

import (
	"errors"
	"time"

	"penstock/config"
	"penstock/proxy/running/snapshot"
	"penstock/translate"
	"penstock/translate/audio"
	"penstock/translate/forward"
	"penstock/upstreams"
)

// transcriptionsEndpoint is POST /v1/audio/transcriptions. It accepts a form and answers with JSON,
// text or events.
var transcriptionsEndpoint = &Endpoint{
	Path:      "/v1/audio/transcriptions",
	Operation: config.OpTranscriptions,
	Traced:    config.OpTranscriptions, // the GenAI conventions have no name for this operation yet
	Dialect:   newChatErrorDialect("transcription", "file"),
	Form:      true,
	New: func() Request {
		r := new(transcriptionRequest)
		r.initCodec(&r.parsed, config.OpTranscriptions, upstreams.PoolAudio)
		return r
	},
}

type transcriptionRequest struct {
	formRequest
	parsed audio.Transcription
}

func (r *transcriptionRequest) Decode(in DecodeInput) error {
	r.parsed.Refuse, r.parsed.Strict = in.Snapshot.Refused.BySome, in.Snapshot.Config.Strict
	return r.formRequest.Decode(in)
}

// CheckModelRules implements Request. If the client requested a stream, it excludes engines that do not
// support streams.
func (r *transcriptionRequest) CheckModelRules(m *snapshot.Model, now time.Time) (CheckResult, error) {
	out, err := r.formRequest.CheckModelRules(m, now)
	if err != nil || !r.parsed.WantsStream() {
		return out, err
	}
	targets := m.Route.Targets()
	for i := range targets {
		if up := targets[i].Upstream; !up.Engine().HasQuirk(config.QuirkStreamsTranscriptions) {
			out.Unfit = append(out.Unfit, up.ID())
		}
	}
	if len(out.Unfit) == len(targets) {
		return out, noStreamsError()
	}
	return out, nil
}

// DetectReplyForm implements Request. An engine may answer with a complete transcript even if a
// stream was requested.
func (r *transcriptionRequest) DetectReplyForm(reply ReplyHead, streamed bool) ReplyForm {
	form := detectTextReplyForm(reply, streamed)
	if form == ReplyMismatch {
		return ReplyWholeAsStream
	}
	return form
}

func (r *transcriptionRequest) AnswersJSON() bool { return r.form.IsFullyRead() && r.parsed.IsJSON() }

func (r *transcriptionRequest) NewUnaryAnswer(about CallInfo) UnaryAnswer {
	about.PromptTokens = noEstimate
	a := &transcriptAnswer{request: r}
	a.initAnswer(&about)
	a.needsText = true
	return a
}

// transcriptAnswer is the UnaryAnswer for a transcription as JSON or text.
type transcriptAnswer struct {
	forwardedAnswer
	request *transcriptionRequest
}

func (a *transcriptAnswer) MediaType() string { return a.request.parsed.ContentType() }

// AppendAnswer implements UnaryAnswer. It rejects text of unknown length, because such text may be
// truncated. If the client requested text, AppendAnswer also rejects JSON. Such JSON is an error,
// or the engine does not support the requested format.
func (a *transcriptAnswer) AppendAnswer(dst, body []byte, reply ReplyHead) ([]byte, error) {
	switch {
	case !a.request.form.IsFullyRead(): // the field with the requested format may not have arrived yet
		return dst, &translate.BadAnswerError{Reason: "an answer before the end of the request"}
	case a.request.parsed.IsJSON():
		return a.forwardedAnswer.AppendAnswer(dst, body, reply)
	case !reply.IsFramed():
		return dst, errTextOfUnknownLength
	case isJSONReply(reply):
		var other forward.Answer
		if err := other.Parse(body); err != nil {
			return dst, err
		}
		return dst, ErrWrongReplyMediaType
	}
	return append(dst, body...), nil
}

var errTextOfUnknownLength = &translate.BadAnswerError{Reason: "text of unknown length"}

// ErrWrongReplyMediaType is the error for a response whose Content-Type does not match the request.
var ErrWrongReplyMediaType = errors.New("the reply has another media type than requested")

// CanPassThrough implements UnaryAnswer. It returns true only if the requested format is known and the
// response has this format.
func (a *transcriptAnswer) CanPassThrough(reply ReplyHead) bool {
	r := a.request
	return r.form.IsFullyRead() && !r.parsed.WantsStream() && (r.parsed.IsJSON() || reply.IsFramed() && !isJSONReply(reply))
}

func (a *transcriptAnswer) NewPassthrough(ReplyHead) *ReplyPassthrough {
	return a.newPassthrough(a.request.parsed.IsJSON())
}

func (r *transcriptionRequest) NewStream(about CallInfo) Stream {
	s := &transcriptStream{request: r}
	s.Reset(about.Model.ID, 0)
	if r.parsed.IsPlainText() {
		s.SetPlainText()
	}
	return s
}

type transcriptStream struct {
	forwardedEvents
	request *transcriptionRequest
}

// AppendBody implements Stream. It converts a complete transcript to events.
func (s *transcriptStream) AppendBody(dst, body []byte, reply ReplyHead) ([]byte, error) {
	structured := isJSONReply(reply)
	switch {
	case !structured && (!s.request.form.IsFullyRead() || s.request.parsed.IsJSON()):
		return dst, ErrWrongReplyMediaType
	case !structured && !reply.IsFramed():
		return dst, errTextOfUnknownLength
	}
	return s.Stream.AppendTranscript(dst, body, structured)
}
