package endpoint

import (
	"bytes"
	"errors"
	"time"

	"penstock/config"
	"penstock/proxy/running/snapshot"
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/audio"
	"penstock/translate/sse"
	"penstock/upstreams"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1/httptoken"
)

// speechEndpoint is POST /v1/audio/speech. It accepts JSON and returns audio, or events that
// contain audio. The edge relays the audio while it is generated. An HTTP/1.0 client could not
// detect truncated audio, so the edge reads all audio first and sends it with a Content-Length.
// This is not needed for events, because a stream of events marks its end.
var speechEndpoint = &Endpoint{
	Path:      "/v1/audio/speech",
	Operation: config.OpSpeech,
	Traced:    traceOpGenerateContent,
	Dialect:   newChatErrorDialect("speech", "input"),
	New: func() Request {
		r := new(speechRequest)
		r.initCodec(&r.parsed.Request, config.OpSpeech, upstreams.PoolAudio)
		return r
	},
}

type speechRequest struct {
	jsonRequest
	parsed   audio.Speech
	isHTTP11 bool
}

func (r *speechRequest) Decode(in DecodeInput) error {
	r.isHTTP11 = in.Header.IsHTTP11()
	return r.parsed.Decode(in.Body.Bytes())
}

func (r *speechRequest) ClientWantsStream() bool { return r.isHTTP11 || r.parsed.WantsEvents() }

func (r *speechRequest) CheckModelRules(m *snapshot.Model, now time.Time) (CheckResult, error) {
	out := CheckResult{Pool: r.pool, PoolName: r.pool.String()}
	return out, r.parsed.CheckRules(m.ChatRules(now, false, &r.rules))
}

// WantsStream implements Request. If the client requested plain audio, it returns false, because
// plain audio is not a stream of events.
func (r *speechRequest) WantsStream(p *engine.Profile) bool {
	return r.parsed.CanRequestEvents() && p.HasQuirk(config.QuirkStreamsSpeech)
}

func (r *speechRequest) EncodeRequest(to Target) (EngineRequest, error) {
	r.parsed.SetRequestsEvents(to.Stream)
	return r.jsonRequest.EncodeRequest(to)
}

// DetectReplyForm implements Request. An engine may answer with plain audio even if events were
// requested.
func (r *speechRequest) DetectReplyForm(reply ReplyHead, streamed bool) ReplyForm {
	switch isAudio := mayBeAudio(reply.Header("Content-Type")); {
	case streamed && isEventStream(reply):
		return ReplyEvents
	case isAudio && r.parsed.WantsEvents():
		return ReplyBytesAsEvents
	case isAudio:
		return ReplyBytes
	case streamed:
		return ReplyUnexpected
	}
	return ReplyWrongType
}

func (r *speechRequest) AnswersJSON() bool { return false }

func (r *speechRequest) NewUnaryAnswer(about CallInfo) UnaryAnswer {
	r.jsonRequest.NewUnaryAnswer(about)
	return &speechAnswer{forwardedAnswer: &r.answer, mediaType: r.parsed.ContentType()}
}

func (r *speechRequest) NewStream(about CallInfo) Stream {
	r.answer.initAnswer(&about)
	if !r.parsed.WantsEvents() {
		return audioStream{mediaType: r.parsed.ContentType(), answer: &r.answer}
	}
	s := &speechEvents{answer: &r.answer}
	s.Reset(about.Model.ID, 0)
	s.MarkSpeech()
	return s
}

type speechEvents struct {
	forwardedEvents
	answer *forwardedAnswer
}

func (s *speechEvents) Usage() translate.Usage { return s.answer.usageOrEstimate(s.Stream.Usage()) }

// AppendBody implements Stream for plain audio.
func (s *speechEvents) AppendBody(dst, piece []byte, _ ReplyHead) ([]byte, error) {
	return s.AppendAudio(dst, piece), nil
}

// ErrNoAudio is the error for an empty audio response.
var ErrNoAudio = errors.New("an answer without bytes")

type speechAnswer struct {
	*forwardedAnswer
	mediaType string
}

func (a *speechAnswer) AppendAnswer(dst, body []byte, reply ReplyHead) ([]byte, error) {
	switch {
	case len(body) == 0:
		return dst, ErrNoAudio
	case !reply.IsFramed():
		return dst, translate.ErrNoAnswerLength
	}
	a.usage = a.usageOrEstimate(translate.Usage{})
	return append(dst, body...), nil
}

func (a *speechAnswer) CanPassThrough(ReplyHead) bool { return false }
func (a *speechAnswer) MediaType() string             { return a.mediaType }

// audioStream is the Stream for plain audio. It has no events, because the attempt relays the audio
// bytes.
type audioStream struct {
	mediaType string
	answer    *forwardedAnswer
}

func (audioStream) Append(dst []byte, _ sse.Event) ([]byte, error)        { return dst, nil }
func (audioStream) AppendBody(dst, _ []byte, _ ReplyHead) ([]byte, error) { return dst, nil }
func (audioStream) Finish(dst []byte) ([]byte, error)                     { return dst, nil }
func (audioStream) AppendFailure(dst []byte, _ *apierr.Error) []byte      { return dst }
func (audioStream) AppendKeepalive(dst []byte) []byte                     { return dst }

// HasStarted returns true, because even the first byte is audio.
func (audioStream) HasStarted() bool                 { return true }
func (audioStream) PrepareForNextEngine()            {}
func (audioStream) IsFinished() bool                 { return false }
func (audioStream) IsDone() bool                     { return false }
func (audioStream) BufferedBytes() int               { return 0 }
func (audioStream) UnparsedMarkup() translate.Markup { return 0 }
func (audioStream) MarkEnded()                       {}

// Usage returns an estimate, because audio contains no counts.
func (s audioStream) Usage() translate.Usage { return s.answer.usageOrEstimate(translate.Usage{}) }

func (audioStream) HasInBandErrors() bool { return false }
func (s audioStream) MediaType() string   { return s.mediaType }

// Translator implements Stream.
func (s audioStream) Translator() translate.Stream { return s }

// mayBeAudio reports whether a response with this Content-Type may be audio. It excludes only types
// that cannot be audio, because engines use many different types for audio or send no type.
func mayBeAudio(contentType []byte) bool {
	for _, other := range [...]string{"text/", jsonType, "application/problem+json", "application/xml"} {
		if len(contentType) >= len(other) && httptoken.EqualFold(contentType[:len(other)], other) {
			return false
		}
	}
	return !bytes.HasSuffix(contentType, []byte("+json"))
}
