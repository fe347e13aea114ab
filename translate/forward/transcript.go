package forward

import (
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// This file is what a Stream does for transcriptions alone. Engines have four forms of them: the
// events of OpenAI's API (transcript.text.delta, and .done at the end), chunks like those of a chat
// (vLLM), segments without an end mark, as JSON or as bare text (speaches), and no stream at all
// but the answer as a whole. The first two are passed on. The others become the first.

// transcript is what a Stream knows of a transcription.
type transcript struct {
	plain    bool   // segments may come as bare text
	said     []byte // so far, in segments and deltas
	pieces   bool   // segments came
	doneSent bool   // transcript.text.done has gone out
	framed   bool   // the body has come to its end, and was not cut
}

// say takes down a piece of the transcript. Pieces without a blank between them get one, which is
// returned with the piece.
func (t *transcript) say(piece []byte, apart bool) ([]byte, error) {
	if len(t.said)+len(piece) >= translate.MaxAnswer {
		return nil, &translate.BadAnswer{Reason: translate.TooLarge}
	}
	from := len(t.said)
	if n := len(t.said); apart && n > 0 && len(piece) > 0 && !isBlank(t.said[n-1]) && !isBlank(piece[0]) {
		t.said = append(t.said, ' ')
	}
	t.said = append(t.said, piece...)
	return t.said[from:], nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' }

// isSegment reports whether an event is a piece of a transcript that does not call itself a delta.
func isSegment(root jsonx.Value) (text []byte, ok bool) {
	v := root.Get("text")
	if !v.IsString() {
		return nil, false
	}
	for _, other := range []string{"type", "choices", "delta"} {
		if root.Get(other).Exists() {
			return nil, false
		}
	}
	return v.AppendText(nil), true
}

// note takes down what an event says of a transcript, and notes the changes that make a delta of a
// segment: other members beside the text, such as times, stay.
func (t *transcript) note(edits *jsonx.Edits, root, kind jsonx.Value) error {
	if text, ok := isSegment(root); ok {
		piece, err := t.say(text, true)
		if err != nil {
			return err
		}
		t.pieces = true
		edits.Insert(root.Start()+1, append(appendDelta(nil, piece), ','))
		return nil
	}
	switch {
	case kind.EqualText(transcriptDone):
		t.doneSent = true
	case kind.EqualText(transcriptDelta):
		if v := root.Get("delta"); v.IsString() {
			_, err := t.say(v.AppendText(nil), false)
			return err
		}
	}
	return nil
}

// appendSegment appends the delta for a segment that is bare text.
func (t *transcript) appendSegment(dst, text []byte) ([]byte, error) {
	piece, err := t.say(text, true)
	if err != nil {
		return dst, err
	}
	t.pieces = true
	return appendDeltaEvent(dst, piece), nil
}

const (
	transcriptDelta = "transcript.text.delta"
	transcriptDone  = "transcript.text.done"

	noText = "no text"
)

// appendDelta appends the members of a delta, without the object's braces.
func appendDelta(dst, text []byte) []byte {
	return jsonx.AppendString(append(dst, `"type":"`+transcriptDelta+`","delta":`...), text)
}

// appendDeltaEvent appends a delta as an event.
func appendDeltaEvent(dst, text []byte) []byte {
	return sse.AppendEvent(dst, "", append(appendDelta([]byte{'{'}, text), '}'))
}

// appendDone appends the event that ends a transcript.
func (t *transcript) appendDone(dst []byte) []byte {
	t.doneSent = true
	data := jsonx.AppendString([]byte(`{"type":"`+transcriptDone+`","text":`), t.said)
	return sse.AppendEvent(dst, "", append(data, '}'))
}

// mayEnd reports whether a transcription may end where the engine's body does, after [DONE] or not.
func (t *transcript) mayEnd(mark bool) bool {
	return t.doneSent || t.framed && t.pieces || mark && len(t.said) > 0
}

// PlainText says that the client asked for text, so that an event that is no JSON object is a piece
// of it.
func (s *Stream) PlainText() { s.transcript.plain = true }

// Ended notes that the engine's body came to the end of its framing. With it a stream of segments
// or of sound is whole: nothing else marks its end.
func (s *Stream) Ended() { s.transcript.framed, s.sound.framed = true, true }

// AppendWhole appends the stream that a whole transcript amounts to: one delta and the end. What a
// JSON answer has beside the text comes with the end. The errors are those of Append.
func (s *Stream) AppendWhole(dst, body []byte, isJSON bool) ([]byte, error) {
	if !isJSON {
		s.transcript.said = append(s.transcript.said[:0], body...)
		return s.transcript.appendDone(appendDeltaEvent(dst, body)), nil
	}
	if err := s.doc.Parse(body, jsonx.Options{Record: recordEvent}); err != nil {
		return dst, &translate.BadAnswer{Reason: translate.BadJSON}
	}
	root := s.doc.Root()
	if !root.IsObject() {
		return dst, &translate.BadAnswer{Reason: translate.NotObject}
	}
	if chat.Given(root.Get("error")) {
		e := engineerror.Parse(0, "application/json", body)
		return dst, &e
	}
	text, ok := isSegment(root)
	if !ok {
		return dst, &translate.BadAnswer{Reason: noText}
	}
	if u, ok := readUsage(root.Get("usage")); ok {
		s.usage.total = u
	}
	dst = appendDeltaEvent(dst, text)
	s.edits.Reset()
	s.edits.Insert(root.Start()+1, []byte(`"type":"`+transcriptDone+`",`))
	if v := root.Get("model"); v.IsString() {
		s.edits.Set(v, jsonx.AppendStringS(nil, s.model))
	}
	hidePrivate(&s.edits, root)
	done := s.edits.Append(nil, body)
	sse.Flatten(done)
	s.transcript.doneSent = true
	return sse.AppendEvent(dst, "", done), nil
}
