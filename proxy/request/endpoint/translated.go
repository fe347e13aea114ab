package endpoint

import (
	"bytes"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/running/snapshot"
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/seal"
)

// translatedRequest is the codec for the dialects translated to chat.
type translatedRequest struct {
	chatBase
	snapshot   *snapshot.Snapshot
	sealBox    seal.Box // box bound to the call's key
	dialect    translatedDialect
	countsOnly bool // whether an engine only counts the tokens of the client's body
	isDecoded  bool
}

// translatedDialect is a dialect that is translated to chat. A translatedDialect belongs to one
// call at a time.
type translatedDialect interface {
	translate.Stream
	AppendCompletion(dst []byte, c *answer.ChatCompletion) ([]byte, error)
	Release()
	// Decode appends the chat request for the client's body.
	Decode(dst, client []byte, into *chat.Request, o dialects.Options) ([]byte, error)
	// Dropped names the parts of the request that were dropped.
	Dropped() []string
	// RelocateError converts an error about the chat request into an error about the client's
	// request.
	RelocateError(err error) error
	// PrepareAnswer prepares the codec for the answer of one attempt. o receives the options for
	// assembling an engine's stream.
	PrepareAnswer(about *CallInfo, o *answer.WriteOptions)
	// Recycle returns the codec to the dialect's pool.
	Recycle(r *translatedRequest)
}

func (r *translatedRequest) Decode(in DecodeInput) error {
	s := in.Snapshot
	r.snapshot, r.sealBox = s, in.Seal
	o := dialects.Options{
		InPlace: s.AllowsSystemInPlace, Refuse: s.Refused.ByAll, Strict: s.Config.Strict, Count: r.countsOnly, Opener: r,
		Hosted:         s.HostedRefusedMembers,
		RedactThinking: wantsRedactedThinking(in.Header),
		MayCompact:     !s.Secrets.Seals.IsEphemeral(),
	}
	// Members that an engine's token counter would reject are later removed from the count request.
	if r.countsOnly {
		o.Refuse = nil
	}
	err := in.Body.Translate(func(dst []byte) ([]byte, error) {
		return r.dialect.Decode(dst, in.Body.ClientBytes(), &r.chat.Request, o)
	})
	r.wantsStream, r.isDecoded = r.chat.Stream, true
	// A hook may still need the client's bytes.
	if err == nil && !r.countsOnly && len(s.Config.Hooks) == 0 {
		in.Body.DropClientBytes()
	}
	return err
}

// wantsRedactedThinking reports whether a Messages client uses the beta feature that redacts
// thinking in answers.
func wantsRedactedThinking(h *fasthttp.RequestHeader) bool {
	for _, v := range h.PeekAll("Anthropic-Beta") {
		if bytes.Contains(v, []byte("redact-thinking-")) {
			return true
		}
	}
	return false
}

// OpenReasoning implements chat.Opener. If model is empty, the blob is bound only to the key.
func (r *translatedRequest) OpenReasoning(dst, model, blob []byte) ([]byte, bool) {
	box := r.sealBox
	if len(model) > 0 {
		m, ok := r.snapshot.LookupModel(model)
		if !ok {
			return dst, false
		}
		box = box.WithModel(m.Config.ID)
	}
	if r.isDecoded { // the blob is opened again for an engine's token counter
		box = box.WithoutCounter()
	}
	return box.Open(dst, blob)
}

func (r *translatedRequest) CheckModelRules(m *snapshot.Model, now time.Time) (CheckResult, error) {
	out, err := r.chatBase.CheckModelRules(m, now)
	if err != nil {
		err = r.dialect.RelocateError(err)
	}
	out.Dropped = append(out.Dropped, r.dialect.Dropped()...)
	return out, err
}

func (r *translatedRequest) NewUnaryAnswer(about CallInfo) UnaryAnswer {
	r.answer.setOptions(&about, &r.chat.Request)
	about.Seal = r.sealBox.WithModel(about.Model.ID)
	r.dialect.PrepareAnswer(&about, &r.answer.options)
	r.answer.writer = r.dialect
	return &r.answer
}

func (r *translatedRequest) NewStream(about CallInfo) Stream {
	r.answer.setOptions(&about, &r.chat.Request)
	about.Seal = r.sealBox.WithModel(about.Model.ID)
	r.dialect.PrepareAnswer(&about, &r.answer.options)
	return r.wrapStream(r.dialect)
}

func (r *translatedRequest) Recycle() {
	r.recycle()
	r.dialect.Release()
	r.countsOnly, r.snapshot, r.sealBox, r.isDecoded = false, nil, seal.Box{}, false
	r.dialect.Recycle(r)
}
