package realtime

import (
	"cmp"
	"strconv"

	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
)

// TranslatedEvent describes a translated engine event.
type TranslatedEvent struct {
	Client  [][]byte
	Text    bool // the event contains transcript text
	Counted bool // the event contains the engine's token counts
	Created bool
	Changed bool // the result of SessionState.MustHoldAudio may have changed

	Prompt, Completion int
}

// passedOnTypes lists the types of OpenAI events that the edge passes on unchanged.
var passedOnTypes = map[string]bool{
	"input_audio_buffer.committed":                          true,
	"input_audio_buffer.cleared":                            true,
	"input_audio_buffer.speech_started":                     true,
	"input_audio_buffer.speech_stopped":                     true,
	"input_audio_buffer.timeout_triggered":                  true,
	"conversation.item.created":                             true,
	"conversation.item.added":                               true,
	"conversation.item.done":                                true,
	"conversation.item.input_audio_transcription.delta":     true,
	"conversation.item.input_audio_transcription.segment":   true,
	"conversation.item.input_audio_transcription.completed": true,
	"conversation.item.input_audio_transcription.failed":    true,
}

var errBadEvent = &translate.BadAnswerError{Reason: "an event that is no JSON object with a type"}

// TranslateEngineEvent translates an engine's event. redact removes text that the client must not
// see from an error reported by the engine. If the engine violates the protocol,
// TranslateEngineEvent returns an error.
func (t *SessionState) TranslateEngineEvent(doc *jsonx.Doc, src []byte, redact func(*engineerror.Error)) (h TranslatedEvent, err error) {
	if doc.Parse(src, jsonx.Options{}) != nil || !doc.Root().IsObject() || !doc.Root().Get("type").IsString() {
		return h, errBadEvent
	}
	root := doc.Root()
	kind, _ := root.Get("type").Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch string(kind) {
	case "session.created", "transcription_session.created":
		h.Created = true
		return h, nil
	case "session.updated", "transcription_session.updated":
		t.ignoreUpdateErrors = false
		return h, nil
	case "error":
		t.handleEngineError(&h, src, root, redact)
		return h, nil
	}
	if t.protocol == ProtocolVLLM {
		return h, t.translateVLLM(&h, string(kind), root)
	}
	t.passOn(&h, string(kind), src, root)
	return h, nil
}

func (t *SessionState) translateVLLM(h *TranslatedEvent, kind string, root jsonx.Value) error {
	switch kind {
	case "transcription.delta":
		delta := root.Get("delta")
		if !delta.IsString() {
			return errBadEvent
		}
		if !t.hasAudio || t.itemCleared || !delta.HasText() {
			return nil
		}
		h.Text = true
		h.Client = append(h.Client, append(append(append(t.beginTranscriptionEvent("delta"), `,"delta":`...), delta.Raw()...), '}'))
	case "transcription.done":
		text := root.Get("text")
		if !text.IsString() {
			return errBadEvent
		}
		t.readUsage(h, root.Get("usage"), "prompt_tokens", "completion_tokens")
		if t.hasAudio && !t.itemCleared {
			if !t.finalCommitSent { // the engine ended the item before a commit
				h.Client = append(h.Client, t.committedEvent())
			}
			h.Text = true
			dst := append(append(append(t.beginTranscriptionEvent("completed"), `,"transcript":`...), text.Raw()...), `,"usage":{"type":"tokens","input_tokens":`...)
			dst = append(strconv.AppendInt(dst, int64(h.Prompt), 10), `,"output_tokens":`...)
			dst = append(strconv.AppendInt(dst, int64(h.Completion), 10), `,"total_tokens":`...)
			h.Client = append(h.Client, append(strconv.AppendInt(dst, int64(h.Prompt+h.Completion), 10), `}}`...))
		}
		t.endItem(h)
	}
	return nil
}

// endItem closes the item, so that the next audio starts another item.
func (t *SessionState) endItem(h *TranslatedEvent) {
	if t.hasAudio && !t.itemCleared {
		t.previous = t.item
	}
	t.hasAudio, t.finalCommitSent, t.itemCleared, h.Changed = false, false, false, true
}

func (t *SessionState) passOn(h *TranslatedEvent, kind string, src []byte, root jsonx.Value) {
	if !passedOnTypes[kind] {
		return
	}
	switch kind {
	case "input_audio_buffer.committed":
		t.owedTranscripts++
	case "conversation.item.input_audio_transcription.delta":
		h.Text = true
	case "conversation.item.input_audio_transcription.completed":
		h.Text = true
		t.readUsage(h, root.Get("usage"), "input_tokens", "output_tokens")
		t.owedTranscripts = max(0, t.owedTranscripts-1)
	case "conversation.item.input_audio_transcription.failed":
		t.owedTranscripts = max(0, t.owedTranscripts-1)
		h.Client = append(h.Client, t.failedEvent(root.Get("item_id")))
		return
	}
	h.Client = append(h.Client, append([]byte(nil), src...))
}

// failedEvent omits the engine's message, which may name the engine's files and hosts.
func (t *SessionState) failedEvent(item jsonx.Value) []byte {
	dst := append(t.beginEvent("conversation.item.input_audio_transcription.failed"), `,"item_id":`...)
	if item.IsString() {
		dst = append(dst, item.Raw()...)
	} else {
		dst = append(dst, `""`...)
	}
	return append(transcriptionError().AppendObject(append(dst, `,"content_index":0,"error":`...)), '}')
}

func transcriptionError() *apierr.Error {
	return apierr.New(502, apierr.CodeUpstreamFailed, "The engine failed to transcribe the audio.")
}

func (t *SessionState) readUsage(h *TranslatedEvent, usage jsonx.Value, prompt, completion string) {
	p, known := usage.Get(prompt).Int()
	c, also := usage.Get(completion).Int()
	const most = 1 << 40 // larger numbers are ignored
	if known && also && p >= 0 && c >= 0 && p < most && c < most {
		h.Counted, h.Prompt, h.Completion = true, int(p), int(c)
	}
}

// clientFaults lists vLLM's codes for errors that the client caused.
var clientFaults = map[string]bool{"invalid_audio": true, "invalid_json": true, "unknown_event": true}

func (t *SessionState) handleEngineError(h *TranslatedEvent, src []byte, root jsonx.Value, redact func(*engineerror.Error)) {
	// Speaches applies the settings, but reports an error about one of them.
	if t.ignoreUpdateErrors && t.protocol == ProtocolOpenAI {
		return
	}
	fault := root.Get("error").Get("type").EqualText("invalid_request_error")
	if code, ok := root.Get("code").Text(); ok {
		fault = fault || clientFaults[string(code)]
	}
	e := transcriptionError()
	if fault {
		why := engineerror.ParseErrorBody(400, "application/json", src)
		redact(&why)
		e = apierr.Invalid("", apierr.CodeRejectedByEngine, "%s", cmp.Or(why.Message, "The engine rejected the audio without saying why."))
	}
	object := e.AppendObject(nil)
	if t.protocol == ProtocolVLLM && t.hasAudio && !fault {
		if !t.itemCleared {
			if !t.finalCommitSent {
				h.Client = append(h.Client, t.committedEvent())
			}
			h.Client = append(h.Client, append(append(append(t.beginTranscriptionEvent("failed"), `,"error":`...), object...), '}'))
		}
		t.endItem(h)
		return
	}
	t.owedTranscripts = max(0, t.owedTranscripts-1)
	h.Client = append(h.Client, append(append(append(t.beginEvent("error"), `,"error":`...), object...), '}'))
}
