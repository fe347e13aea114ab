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
// The first format is passed on, and the other formats are converted to it. Converted events retain
// their other members.

type transcriptState struct {
	plainText    bool   // segments may be plain text
	textSoFar    []byte // the text so far, from segments and deltas
	hasPieces    bool
	hasChunks    bool // chat-style chunks have arrived
	doneSent     bool
	bodyComplete bool // the body is complete
}

// addText adds a piece of text to the transcript. If apart is true and no space separates the piece
// from the text so far, addText inserts a space. It returns the resulting piece.
func (t *transcriptState) addText(piece []byte, apart bool) ([]byte, error) {
	if len(t.textSoFar)+len(piece) >= translate.MaxAnswerBytes {
		return nil, &translate.BadAnswerError{Reason: translate.ReasonTooLarge}
	}
	from := len(t.textSoFar)
	if n := len(t.textSoFar); apart && n > 0 && len(piece) > 0 && !isBlank(t.textSoFar[n-1]) && !isBlank(piece[0]) {
		t.textSoFar = append(t.textSoFar, ' ')
	}
	t.textSoFar = append(t.textSoFar, piece...)
	return t.textSoFar[from:], nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' }

// segmentText returns the text of a segment, which is an event without a type. It returns false if
// root is not a segment.
func segmentText(root jsonx.Value) (text []byte, ok bool) {
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

// convertEvent converts a segment or a chunk to a delta. Other members, such as times, are not
// changed.
func (t *transcriptState) convertEvent(edits *jsonx.Edits, root, kind jsonx.Value) error {
	if text, ok := segmentText(root); ok {
		piece, err := t.addText(text, true)
		if err != nil {
			return err
		}
		t.hasPieces = true
		edits.Insert(root.Start()+1, append(appendDelta(nil, piece), ','))
		return nil
	}
	if text, ok := chunkText(root); ok && !kind.Exists() {
		piece, err := t.addText(text, false)
		if err != nil {
			return err
		}
		t.hasChunks = true
		edits.Insert(root.Start()+1, append(appendDelta(nil, piece), ','))
		return nil
	}
	switch {
	case kind.EqualText(transcriptDone):
		t.doneSent = true
	case kind.EqualText(transcriptDelta):
		if v := root.Get("delta"); v.IsString() {
			_, err := t.addText(v.AppendText(nil), false)
			return err
		}
	}
	return nil
}

func (t *transcriptState) appendSegment(dst, text []byte) ([]byte, error) {
	piece, err := t.addText(text, true)
	if err != nil {
		return dst, err
	}
	t.hasPieces = true
	return appendDeltaEvent(dst, piece), nil
}

const (
	transcriptDelta = "transcript.text.delta"
	transcriptDone  = "transcript.text.done"

	reasonNoText = "no text"
)

func appendDelta(dst, text []byte) []byte {
	return jsonx.AppendString(append(dst, `"type":"`+transcriptDelta+`","delta":`...), text)
}

func appendDeltaEvent(dst, text []byte) []byte {
	return sse.AppendEvent(dst, "", append(appendDelta([]byte{'{'}, text), '}'))
}

func (t *transcriptState) appendDone(dst []byte) []byte {
	t.doneSent = true
	data := jsonx.AppendString([]byte(`{"type":"`+transcriptDone+`","text":`), t.textSoFar)
	if t.hasChunks { // clients of chunks read the first choice of each event
		data = append(data, `,"choices":[{"index":0,"delta":{}}]`...)
	}
	return sse.AppendEvent(dst, "", append(data, '}'))
}

// isComplete reports whether the transcript is complete if the engine's body ends now. mark is true
// if [DONE] has arrived.
func (t *transcriptState) isComplete(mark bool) bool {
	return t.doneSent || t.bodyComplete && t.hasPieces || mark && len(t.textSoFar) > 0
}

// SetPlainText records that the client requested plain text. An event that is not a JSON object
// then counts as a piece of the transcript.
func (s *Stream) SetPlainText() { s.transcript.plainText = true }

// MarkEnded records that the engine's body is complete. Segments and audio have no other end mark.
func (s *Stream) MarkEnded() { s.transcript.bodyComplete, s.speech.bodyComplete = true, true }

// AppendTranscript appends a whole transcript as a stream. If the answer is JSON, the last event also
// contains the answer's other members. The errors are the same as for Append.
func (s *Stream) AppendTranscript(dst, body []byte, isJSON bool) ([]byte, error) {
	if !isJSON {
		s.transcript.textSoFar = append(s.transcript.textSoFar[:0], body...)
		return s.transcript.appendDone(appendDeltaEvent(dst, body)), nil
	}
	if err := s.doc.Parse(body, jsonx.Options{Record: eventIndexDepth}); err != nil {
		return dst, &translate.BadAnswerError{Reason: translate.ReasonBadJSON}
	}
	root := s.doc.Root()
	if !root.IsObject() {
		return dst, &translate.BadAnswerError{Reason: translate.ReasonNotObject}
	}
	if chat.IsGiven(root.Get("error")) {
		e := engineerror.ParseErrorBody(0, "application/json", body)
		return dst, &e
	}
	text, ok := segmentText(root)
	if !ok {
		return dst, &translate.BadAnswerError{Reason: reasonNoText}
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
	removePrivateMembers(&s.edits, root)
	done := s.edits.Append(nil, body)
	sse.ReplaceLineEnds(done)
	s.transcript.doneSent = true
	return sse.AppendEvent(dst, "", done), nil
}
