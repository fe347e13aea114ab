package forward

import (
	"bytes"

	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Stream passes on an engine's events with the public model and a few corrections. It belongs to
// one call. Call Reset, then Append for each event, and finally either Finish or AppendFailure.
type Stream struct {
	model   string
	choices int // number of choices that must finish, or 0 for a transcription or speech

	doc        jsonx.Doc
	edits      jsonx.Edits
	choiceEnds choiceEndTracker
	doneSeen   bool // [DONE] has arrived
	closed     bool
	eventCount int
	texts      completionTexts
	usage      usageTotal
	transcript transcriptState
	speech     speechAudio
}

var _ translate.Stream = (*Stream)(nil)

// Reset prepares the Stream for a call. choices is the number of choices that the client requested,
// or 0 for a transcription or speech.
func (s *Stream) Reset(model string, choices int) {
	s.doc.Reset()
	*s = Stream{model: model, choices: choices, doc: s.doc}
}

// SetPrompts sets the number of prompts. All prompts have the same number of choices.
func (s *Stream) SetPrompts(n int) { s.usage.prompts = n }

var doneData = []byte("[DONE]")

// Append appends the client's event for one engine event. If the event is not a JSON object, the
// error is a *translate.BadAnswerError. If the engine reports a failure, it is an
// *engineerror.Error.
func (s *Stream) Append(dst []byte, ev sse.Event) ([]byte, error) {
	if bytes.Equal(bytes.TrimSpace(ev.Data), doneData) {
		s.doneSeen = true
		return dst, nil
	}
	// Gateways in front of engines send pings to keep connections alive.
	if len(ev.Data) == 0 || ev.IsBlank() && !s.transcript.plainText || string(ev.Name) == "ping" {
		return dst, nil
	}
	depth := eventIndexDepth
	if s.choices == 0 {
		depth = transcriptIndexDepth
	}
	err := s.doc.Parse(ev.Data, jsonx.Options{Record: depth})
	if s.transcript.plainText && (err != nil || !s.doc.Root().IsObject()) {
		return s.transcript.appendSegment(dst, ev.Data)
	}
	if err != nil {
		return dst, &translate.BadAnswerError{Reason: translate.ReasonBadJSON}
	}
	root := s.doc.Root()
	if !root.IsObject() {
		return dst, &translate.BadAnswerError{Reason: translate.ReasonNotObject}
	}
	var out [7]jsonx.Value
	err = root.Fields([]string{"model", "choices", "usage", "type", "error", "object", "created"}, out[:])
	if err != nil {
		return dst, &translate.BadAnswerError{Reason: translate.ReasonDuplicateMember}
	}
	if chat.IsGiven(out[4]) || out[3].EqualText("error") || out[5].EqualText("error") || out[3].EqualText(speechError) {
		e := engineerror.ParseErrorBody(0, "application/json", ev.Data)
		return dst, &e
	}
	s.edits.Reset()
	usage := out[2]
	switch {
	case s.speech.isSpeech:
		if err := s.speech.checkEvent(&s.edits, root, out[3], &usage); err != nil {
			return dst, err
		}
	case s.choices == 0:
		if err := s.transcript.convertEvent(&s.edits, root, out[3]); err != nil {
			return dst, err
		}
	}
	if failed := s.choiceEnds.recordEnds(&s.edits, out[1]); failed {
		return dst, answer.AbortedError()
	}
	s.eventCount++
	for it := out[1].Iter(); it.Next(); {
		if text := it.Value().Get("text"); text.IsString() {
			s.texts.bytes += len(text.RawContents())
		}
	}
	if u, ok := readUsage(out[2]); ok {
		s.usage.recordUsage(u, out[1], s.choices)
	}
	data := ev.Data
	if v := out[0]; v.IsString() {
		s.edits.Set(v, jsonx.AppendStringS(nil, s.model))
	}
	boundNumbers(&s.edits, usage, out[6])
	if removePrivateMembers(&s.edits, root); s.edits.Len() > 0 {
		data = s.edits.Append(make([]byte, 0, len(data)+len(s.model)), data)
	}
	if bytes.ContainsAny(data, "\r\n") { // the event has more than one data line
		data = bytes.Clone(data)
		sse.ReplaceLineEnds(data)
	}
	return sse.AppendEvent(dst, string(ev.Name), data), nil
}

// HasStarted reports whether the client has been sent an event.
func (s *Stream) HasStarted() bool { return s.eventCount > 0 || s.closed }

// PrepareForNextEngine prepares for another engine, which starts the answer again.
func (s *Stream) PrepareForNextEngine() { s.doneSeen, s.speech.unsentBytes = false, nil }

// IsFinished reports whether the stream may now end successfully.
func (s *Stream) IsFinished() bool {
	if s.choices == 0 { // in a long recording, each part may end with a finish_reason
		return s.transcript.doneSent || s.speech.doneSent
	}
	// Some engines ignore n and return one choice.
	return s.choiceEnds.allEnded() && (len(s.choiceEnds.seen) >= s.choices || s.doneSeen)
}

// BufferedBytes returns roughly how many bytes the Stream buffers.
func (s *Stream) BufferedBytes() int { return cap(s.transcript.textSoFar) }

// IsDone reports whether the stream needs no more events from the engine.
func (s *Stream) IsDone() bool { return s.doneSeen }

// Finish appends the end of a successful stream: [DONE] for completions, and transcript.text.done
// or speech.audio.done if the engine did not send it.
func (s *Stream) Finish(dst []byte) ([]byte, error) {
	switch {
	case s.speech.isSpeech:
		dst, err := s.speech.appendEnd(dst, s.doneSeen)
		if err == nil && s.doneSeen && !s.closed {
			dst = sse.AppendEvent(dst, "", doneData)
		}
		s.closed = s.closed || err == nil
		return dst, err
	case !s.IsFinished() && (s.choices > 0 || !s.transcript.isComplete(s.doneSeen) && !s.choiceEnds.allEnded()):
		return dst, translate.ErrNoFinish
	case s.closed:
		return dst, nil
	}
	s.closed = true
	if s.choices == 0 && !s.transcript.doneSent {
		dst = s.transcript.appendDone(dst)
	}
	if s.doneSeen || s.choices > 0 {
		dst = sse.AppendEvent(dst, "", doneData)
	}
	return dst, nil
}

// AppendFailure appends the event that reports a failure, without [DONE].
func (s *Stream) AppendFailure(dst []byte, e *apierr.Error) []byte {
	if s.closed {
		return dst
	}
	s.closed = true
	return sse.AppendEvent(dst, "", e.AppendBody(nil))
}

// AppendKeepalive appends a comment, which clients ignore.
func (s *Stream) AppendKeepalive(dst []byte) []byte { return sse.AppendComment(dst, "keep-alive") }

// UnparsedMarkup returns 0. Engines never parse the markup in these answers, so visible markup is
// not an error.
func (s *Stream) UnparsedMarkup() translate.Markup { return 0 }

// Usage returns the engine's token counts or, for a completion, an estimate.
func (s *Stream) Usage() translate.Usage {
	switch {
	case s.choices == 0:
		return s.usage.total
	case s.usage.total.Known:
		return s.texts.usageOrEstimate(s.usage.total)
	case len(s.usage.byChoice) > 0:
		return s.texts.usageOrEstimate(s.usage.sum(s.choices))
	}
	return translate.EstimateUsage(max(s.eventCount, translate.TokensInBytes(s.texts.bytes)))
}

type choiceEndTracker struct {
	seen      map[int64]bool // the choices that have arrived; true if the choice has ended
	openCount int
}

// recordEnds replaces finish reasons, and reports whether the engine aborted a choice.
func (e *choiceEndTracker) recordEnds(edits *jsonx.Edits, choices jsonx.Value) (failed bool) {
	for it := choices.Iter(); it.Next(); {
		c := it.Value()
		index, ok := c.Get("index").Int()
		if !ok {
			index = int64(it.Index())
		}
		ended, known := e.seen[index]
		if !known && len(e.seen) == maxChoices { // no request has more choices
			continue
		}
		if !known {
			if e.seen == nil {
				e.seen = map[int64]bool{}
			}
			e.seen[index] = false
			e.openCount++
		}
		f := c.Get("finish_reason")
		if replaceFinish(edits, f) {
			return true
		}
		if !ended && f.HasText() {
			e.seen[index] = true
			e.openCount--
		}
	}
	return false
}

func (e *choiceEndTracker) allEnded() bool { return e.openCount == 0 && len(e.seen) > 0 }
