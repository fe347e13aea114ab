package forward

import (
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// This file holds what is specific to transcriptions in Stream. Engines answer in four formats: the
// events of OpenAI's API (transcript.text.delta, and .done at the end); chunks like those of a chat
// (vLLM); segments without an end mark, as JSON or as bare text (speaches); and a whole answer
// instead of a stream. The first format is passed on. The others are turned into the first and also
// keep their own members, so a vLLM chunk can also be read as a delta.

// transcript is the state of a Stream for a transcription.
type transcript struct {
	plain    bool   // segments may be bare text
	said     []byte // the text so far, from segments and deltas
	pieces   bool   // segments have been received
	chunks   bool   // chunks like those of a chat have been received
	doneSent bool   // transcript.text.done has been sent
	framed   bool   // the body ended properly and was not cut off
}

// say records a piece of the transcript. If apart is true and no blank separates the piece from the
// last one, say puts a blank before the piece. It returns the resulting piece.
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

// isSegment reports whether an event is a piece of a transcript that is not marked as a delta.
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

// chunkText returns the text of a chunk like those of a chat, and whether root is such a chunk.
func chunkText(root jsonx.Value) (text []byte, ok bool) {
	choices := root.Get("choices")
	if !choices.IsArray() {
		return nil, false
	}
	for it := choices.Iter(); it.Next(); {
		if v := it.Value().Get("delta").Get("content"); v.IsString() {
			text = v.AppendText(text)
		}
	}
	return text, true
}

// note records the facts about a transcript in an event, and the changes that turn a segment or a
// chunk into a delta. Members other than the text, such as times, are kept.
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
	if text, ok := chunkText(root); ok && !kind.Exists() {
		piece, err := t.say(text, false)
		if err != nil {
			return err
		}
		t.chunks = true
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

// appendSegment appends the delta for a segment of bare text.
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
	if t.chunks { // clients of chunks read the first choice of each event
		data = append(data, `,"choices":[{"index":0,"delta":{}}]`...)
	}
	return sse.AppendEvent(dst, "", append(data, '}'))
}

// mayEnd reports whether a transcription may end at the end of the engine's body. mark is true if
// [DONE] has been received.
func (t *transcript) mayEnd(mark bool) bool {
	return t.doneSent || t.framed && t.pieces || mark && len(t.said) > 0
}

// PlainText records that the client asked for text. An event that is not a JSON object is then a
// piece of the transcript.
func (s *Stream) PlainText() { s.transcript.plain = true }

// Ended records that the engine's body ended properly. A stream of segments or of audio is then
// complete, because nothing else marks its end.
func (s *Stream) Ended() { s.transcript.framed, s.sound.framed = true, true }

// AppendWhole appends a whole transcript as a stream: one delta and the end. The last event has the
// other members of a JSON answer. The errors are the same as those of Append.
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
