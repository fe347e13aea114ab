package forward

import (
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Engines answer transcriptions in four formats:
//   - the events of OpenAI's API (transcript.text.delta, and transcript.text.done at the end),
//   - chat-style chunks (vLLM),
//   - segments without an end mark, as JSON or as plain text (speaches),
//   - a whole answer instead of a stream.
//
// The first format is passed on, and the others are converted to it. Converted events retain their
// other members.

type transcript struct {
	plain    bool   // segments may be plain text
	said     []byte // the text so far, from segments and deltas
	pieces   bool
	chunks   bool // chat-style chunks have arrived
	doneSent bool
	framed   bool // the body is complete
}

// say adds a piece of text to the transcript. If apart is true and no space separates the piece
// from the text so far, say inserts a space. It returns the resulting piece.
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

// isSegment returns the text of a segment, which is an event without a type. It returns false if
// root is not a segment.
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

// chunkText returns the text of a chat-style chunk. It returns false if root is not such a chunk.
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

// note converts a segment or a chunk to a delta. Other members, such as times, are not changed.
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

func appendDelta(dst, text []byte) []byte {
	return jsonx.AppendString(append(dst, `"type":"`+transcriptDelta+`","delta":`...), text)
}

func appendDeltaEvent(dst, text []byte) []byte {
	return sse.AppendEvent(dst, "", append(appendDelta([]byte{'{'}, text), '}'))
}

func (t *transcript) appendDone(dst []byte) []byte {
	t.doneSent = true
	data := jsonx.AppendString([]byte(`{"type":"`+transcriptDone+`","text":`), t.said)
	if t.chunks { // clients of chunks read the first choice of each event
		data = append(data, `,"choices":[{"index":0,"delta":{}}]`...)
	}
	return sse.AppendEvent(dst, "", append(data, '}'))
}

// mayEnd reports whether the transcript is complete if the engine's body ends now. mark is true if
// [DONE] has arrived.
func (t *transcript) mayEnd(mark bool) bool {
	return t.doneSent || t.framed && t.pieces || mark && len(t.said) > 0
}

// PlainText records that the client requested plain text. An event that is not a JSON object then
// counts as a piece of the transcript.
func (s *Stream) PlainText() { s.transcript.plain = true }

// Ended records that the engine's body is complete. Segments and audio have no other end mark.
func (s *Stream) Ended() { s.transcript.framed, s.sound.framed = true, true }

// AppendWhole appends a whole transcript as a stream. If the answer is JSON, the last event
// contains its other members. The errors are the same as for Append.
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
