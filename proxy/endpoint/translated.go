package endpoint

import (
	"bytes"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/body"
	"penstock/proxy/snapshot"
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/seal"
)

// translatedRequest is the codec of the dialects that are translated to chat and back.
//
// Such a dialect can also be spoken with an engine whose operator lists it under `native`: the
// client's own request goes to the engine's own endpoint. Everything else about the call stays as
// it is. Its chat form is made all the same: the rules, the limits and the pick are those of every
// call, and a retry may meet an engine that is not let.
//
// What such an engine answers is read for what it says, and written by the endpoint's own stream.
// To pass events on as they come would be less work, but no engine that was tried keeps the
// dialect's grammar: blocks overlap, numbers and members are missing, a cut answer is called
// complete, and reasoning, which a client may not see, is in the midst of it.
type translatedRequest struct {
	chatBase
	body    *body.Body // of the call
	config  *snapshot.Snapshot
	box     seal.Box // of the call's key
	dialect translatedDialect
	counts  bool // the prompt is only counted, by an engine that reads the client's own body
	decoded bool
}

// translatedDialect is a dialect as its codec needs it. It belongs to one call at a time.
type translatedDialect interface {
	translate.Stream
	AppendWhole(dst []byte, c *answer.Completion) ([]byte, error)
	Release()
	// Decode appends the chat request that a client's body amounts to.
	Decode(dst, client []byte, into *chat.Request, o dialects.Options) ([]byte, error)
	// Dropped are the names of what was left out of the request.
	Dropped() []string
	// Locate puts an error about the chat request in the words of the dialect.
	Locate(err error) error
	// Describe prepares for the answer of one attempt. The options are for a stream of the engine
	// that is put together before it is translated.
	Describe(about *Answer, o *answer.Options)
	// Native is how the dialect is spoken with an engine itself.
	Native() *nativeDialect
	// Recycle gives the codec back to the pool of its dialect.
	Recycle(r *translatedRequest)
}

// nativeDialect is how a dialect is spoken with an engine itself.
type nativeDialect struct {
	operation string
	// segments appends the pieces of the request; see chat.NativeRequest.
	segments func(segs [][]byte, body []byte, n *chat.NativeRequest) [][]byte
	reader   func() translate.NativeReader
	// unordered: engines read no priority from its requests, so that one which is told of priorities
	// is sent the chat request.
	unordered bool
}

func (r *translatedRequest) Decode(in Input) error {
	s := in.Snapshot
	r.config, r.box = s, in.Seal
	o := dialects.Options{
		InPlace: s.InPlace, Refuse: s.Refused.ByAll, Strict: s.Config.Strict, Count: r.counts, Opener: r,
		Hosted:         s.RefusedAtHosted,
		RedactThinking: redactsThinking(in.Header),
	}
	if r.counts { // a count goes to engines without the members that they refuse
		o.Refuse = nil
	}
	r.body = in.Body
	err := in.Body.Translate(func(dst []byte) ([]byte, error) {
		return r.dialect.Decode(dst, in.Body.Client(), r.chat, o)
	})
	r.wantsStream, r.decoded = r.chat.Stream, true
	if err == nil && !r.counts && !speaksNative(s, r.chat.Model, r.dialect.Native().operation) {
		in.Body.DropClient()
	}
	return err
}

// redactsThinking reports whether a client has the beta by which answers of Messages have their
// thinking redacted.
func redactsThinking(h *fasthttp.RequestHeader) bool {
	for _, v := range h.PeekAll("Anthropic-Beta") {
		if bytes.Contains(v, []byte("redact-thinking-")) {
			return true
		}
	}
	return false
}

// Open implements chat.Opener.
func (r *translatedRequest) Open(dst, model, blob []byte) ([]byte, bool) {
	m, ok := r.config.Lookup(model)
	if !ok {
		return dst, false
	}
	box := r.box.For(m.Config.ID)
	if r.decoded { // for an engine that speaks the dialect, from the same body
		box = box.Uncounted()
	}
	return box.Open(dst, blob)
}

// speaksNative reports whether an engine of a model may be sent the client's own bytes. The model
// is not resolved yet; one that does not exist is found out then.
func speaksNative(s *snapshot.Snapshot, model []byte, operation string) bool {
	m, ok := s.Lookup(model)
	if !ok {
		return false
	}
	targets := m.Route.Targets()
	for i := range targets {
		if targets[i].Upstream.Native(operation) {
			return true
		}
	}
	return false
}

func (r *translatedRequest) Check(m *snapshot.Model, now time.Time) (Checked, error) {
	out, err := r.chatBase.Check(m, now)
	if err != nil {
		err = r.dialect.Locate(err)
	}
	out.Dropped = append(out.Dropped, r.dialect.Dropped()...)
	return out, err
}

// Fill implements Request. The client's own bytes are not there if the call began before a reload
// let the engine speak the dialect. An answer that another engine has begun goes on in chat. A salt
// is read from chat requests; not all engines read it from those of other dialects.
func (r *translatedRequest) Fill(to Target) (Sending, error) {
	if !r.goesNative(&to) {
		return r.chatBase.Fill(to)
	}
	native, limit := r.dialect.Native(), &r.chat.Tokens
	path := to.Upstream.Engine().Path(native.operation)
	s := jsonSending(path, to.Stream, native.segments(nil, r.body.Client(), &chat.NativeRequest{
		Served: to.Served, Stream: to.Stream && !r.wantsStream, Refuse: to.Model.Rules.Refuse,
		Priority: to.Priority, MaxTokens: limit.TokenLimit(), Bound: limit.Bound(), Effort: r.chat.Reasoning.Effort,
		Model: r.chat.Model, ReasoningHistory: to.Model.Rules.ReasoningHistory, Opener: r,
	}))
	s.Native = native.reader()
	return s, nil
}

// goesNative reports whether a target is sent the client's own request. One that was found to refuse
// something in it is sent the chat request, in which that has another form.
func (r *translatedRequest) goesNative(to *Target) bool {
	native := r.dialect.Native()
	if r.body.Client() == nil || to.Upstream.Engine().Path(native.operation) == "" || chat.GoesOn(r.chat) ||
		!to.Upstream.Native(native.operation) || to.Salt.Wanted() || to.Priority.Told && native.unordered {
		return false
	}
	if to.Refused == (Refused{}) {
		return true
	}
	unmet := *to
	unmet.Refused = Refused{}
	asked, sent := formatOf(&unmet), formatOf(to)
	return chat.EffortWord(r.chat, &asked) == chat.EffortWord(r.chat, &sent) &&
		!(to.Refused.AdjacentTurns && chat.HasAdjacentTurns(r.chat))
}

func (r *translatedRequest) Unary(about Answer) Unary {
	r.answer.begin(&about, r.chat)
	about.Seal = r.box.For(about.Model.ID)
	r.dialect.Describe(&about, &r.answer.options)
	r.answer.writer = r.dialect
	return &r.answer
}

func (r *translatedRequest) Stream(about Answer) Stream {
	r.answer.begin(&about, r.chat)
	about.Seal = r.box.For(about.Model.ID)
	r.dialect.Describe(&about, &r.answer.options)
	return r.stream(r.dialect)
}

func (r *translatedRequest) Recycle() {
	r.recycle()
	r.dialect.Release()
	r.body, r.counts, r.config, r.box, r.decoded = nil, false, nil, seal.Box{}, false
	r.dialect.Recycle(r)
}
