package endpoint

import (
	"penstock/proxy/body"
	"penstock/proxy/snapshot"
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
)

// translatedRequest is what the codecs of the dialects that are translated to chat and back have in
// common.
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
	writer  dialectWriter
	dialect *nativeDialect
}

// dialectWriter writes the answers of a dialect.
type dialectWriter interface {
	translate.Stream
	Reset(i *dialects.Identity)
	AppendWhole(dst []byte, c *answer.Completion) ([]byte, error)
	Release()
}

// nativeDialect is how a dialect is spoken with an engine itself.
type nativeDialect struct {
	operation string
	// segments appends the pieces of the request; see chat.NativeRequest.
	segments func(segs [][]byte, body []byte, n *chat.NativeRequest) [][]byte
	reader   func() translate.NativeReader
}

func (r *translatedRequest) beginTranslated(writer dialectWriter, d *nativeDialect) {
	r.begin()
	r.writer, r.dialect = writer, d
}

// translate makes the chat request of the client's body. decode appends it.
func (r *translatedRequest) translate(b *body.Body, decode func(dst []byte) ([]byte, error)) error {
	r.body = b
	err := b.Translate(decode)
	r.wantsStream = r.chat.Stream
	return err
}

// keepForNative lets the client's bytes go unless an engine of the model may be sent them. The model
// is not resolved yet; one that does not exist is found out then.
func (r *translatedRequest) keepForNative(s *snapshot.Snapshot) {
	if m, ok := s.Lookup(r.chat.Model); ok {
		targets := m.Route.Targets()
		for i := range targets {
			if targets[i].Upstream.Native(r.dialect.operation) {
				return
			}
		}
	}
	r.body.DropClient()
}

// optionsOf are the options of a request's translation.
func optionsOf(s *snapshot.Snapshot) dialects.Options {
	return dialects.Options{InPlace: s.InPlace, Refuse: s.Refused, Strict: s.Config.Strict}
}

// Fill implements Request.
func (r *translatedRequest) Fill(to Target) (Sending, error) {
	path := to.Upstream.Engine().Path(r.dialect.operation)
	if !r.isNative(&to) || path == "" {
		return r.chatBase.Fill(to)
	}
	segments := r.dialect.segments(nil, r.body.Client(), &chat.NativeRequest{
		Served: to.Served, Stream: to.Stream && !r.wantsStream,
		MaxTokens: r.chat.Tokens.TokenLimit(), Bound: r.chat.Tokens.Bound(), Effort: r.chat.Reasoning.Effort, Refuse: to.Model.Rules.Refuse,
	})
	s := jsonSending(path, to.Stream, segments)
	s.Native = r.dialect.reader()
	return s, nil
}

// isNative reports whether an engine is sent the client's own bytes. They are not there if the call
// began before a reload let the engine speak the dialect. A salt is read from chat requests; not
// all engines read it from those of other dialects.
func (r *translatedRequest) isNative(to *Target) bool {
	return to.Upstream.Native(r.dialect.operation) && r.body.Client() != nil && !to.Salt.Wanted()
}

// Append implements Unary.
func (r *translatedRequest) Append(dst, completion []byte, _ Reply) ([]byte, error) {
	whole, err := r.parse(completion)
	if err != nil {
		return dst, err
	}
	return r.writer.AppendWhole(dst, whole)
}

// recycle gives everything back.
func (r *translatedRequest) recycle() {
	r.chatBase.recycle()
	r.writer.Release()
	r.body = nil
}
