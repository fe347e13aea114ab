package realtime

import (
	"cmp"
	"strconv"

	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
)

// Heard describes a translated engine event.
type Heard struct {
	Client  [][]byte
	Text    bool // the event contains transcript text
	Counted bool // the event contains the engine's token counts
	Created bool
	Changed bool // the result of Talk.Waits may have changed

	Prompt, Completion int
}

// passing lists the types of OpenAI events that the edge passes on unchanged.
var passing = map[string]bool{
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

var errGarbage = &translate.BadAnswer{Reason: "an event that is no JSON object with a type"}

// Engine translates an engine's event. redact removes text that the client must not see from an
// error reported by the engine. If the engine violates the protocol, the method returns an error.
func (t *Talk) Engine(doc *jsonx.Doc, src []byte, redact func(*engineerror.Error)) (h Heard, err error) {
	if doc.Parse(src, jsonx.Options{}) != nil || !doc.Root().IsObject() || !doc.Root().Get("type").IsString() {
		return h, errGarbage
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
		t.quiet = false
		return h, nil
	case "error":
		t.complaint(&h, src, root, redact)
		return h, nil
	}
	if t.form == VLLM {
		return h, t.fromVLLM(&h, string(kind), root)
	}
	t.pass(&h, string(kind), src, root)
	return h, nil
}

func (t *Talk) fromVLLM(h *Heard, kind string, root jsonx.Value) error {
	switch kind {
	case "transcription.delta":
		delta := root.Get("delta")
		if !delta.IsString() {
			return errGarbage
		}
		if !t.open || t.dropped || !delta.HasText() {
			return nil
		}
		h.Text = true
		h.Client = append(h.Client, append(append(append(t.about("delta"), `,"delta":`...), delta.Raw()...), '}'))
	case "transcription.done":
		text := root.Get("text")
		if !text.IsString() {
			return errGarbage
		}
		t.count(h, root.Get("usage"), "prompt_tokens", "completion_tokens")
		if t.open && !t.dropped {
			if !t.ending { // the engine ended the item before a commit
				h.Client = append(h.Client, t.committed())
			}
			h.Text = true
			dst := append(append(append(t.about("completed"), `,"transcript":`...), text.Raw()...), `,"usage":{"type":"tokens","input_tokens":`...)
			dst = append(strconv.AppendInt(dst, int64(h.Prompt), 10), `,"output_tokens":`...)
			dst = append(strconv.AppendInt(dst, int64(h.Completion), 10), `,"total_tokens":`...)
			h.Client = append(h.Client, append(strconv.AppendInt(dst, int64(h.Prompt+h.Completion), 10), `}}`...))
		}
		t.ended(h)
	}
	return nil
}

// ended closes the item, so that the next audio starts another item.
func (t *Talk) ended(h *Heard) {
	if t.open && !t.dropped {
		t.previous = t.item
	}
	t.open, t.ending, t.dropped, h.Changed = false, false, false, true
}

func (t *Talk) pass(h *Heard, kind string, src []byte, root jsonx.Value) {
	if !passing[kind] {
		return
	}
	switch kind {
	case "input_audio_buffer.committed":
		t.owed++
	case "conversation.item.input_audio_transcription.delta":
		h.Text = true
	case "conversation.item.input_audio_transcription.completed":
		h.Text = true
		t.count(h, root.Get("usage"), "input_tokens", "output_tokens")
		t.owed = max(0, t.owed-1)
	case "conversation.item.input_audio_transcription.failed":
		t.owed = max(0, t.owed-1)
		h.Client = append(h.Client, t.failed(root.Get("item_id")))
		return
	}
	h.Client = append(h.Client, append([]byte(nil), src...))
}

// failed omits the engine's message, which may name the engine's files and hosts.
func (t *Talk) failed(item jsonx.Value) []byte {
	dst := append(t.event("conversation.item.input_audio_transcription.failed"), `,"item_id":`...)
	if item.IsString() {
		dst = append(dst, item.Raw()...)
	} else {
		dst = append(dst, `""`...)
	}
	return append(untranscribed().AppendObject(append(dst, `,"content_index":0,"error":`...)), '}')
}

func untranscribed() *apierr.Error {
	return apierr.New(502, apierr.CodeUpstreamFailed, "The engine failed to transcribe the audio.")
}

func (t *Talk) count(h *Heard, usage jsonx.Value, prompt, completion string) {
	p, known := usage.Get(prompt).Int()
	c, also := usage.Get(completion).Int()
	const most = 1 << 40 // larger numbers are ignored
	if known && also && p >= 0 && c >= 0 && p < most && c < most {
		h.Counted, h.Prompt, h.Completion = true, int(p), int(c)
	}
}

// clientFaults lists vLLM's codes for errors that the client caused.
var clientFaults = map[string]bool{"invalid_audio": true, "invalid_json": true, "unknown_event": true}

func (t *Talk) complaint(h *Heard, src []byte, root jsonx.Value, redact func(*engineerror.Error)) {
	if t.quiet && t.form == OpenAI { // speaches applies the settings, but reports an error about one of them
		return
	}
	fault := root.Get("error").Get("type").EqualText("invalid_request_error")
	if code, ok := root.Get("code").Text(); ok {
		fault = fault || clientFaults[string(code)]
	}
	e := untranscribed()
	if fault {
		why := engineerror.Parse(400, "application/json", src)
		redact(&why)
		e = apierr.Invalid("", apierr.CodeRejectedByEngine, "%s", cmp.Or(why.Message, "The engine rejected the audio without saying why."))
	}
	object := e.AppendObject(nil)
	if t.form == VLLM && t.open && !fault {
		if !t.dropped {
			if !t.ending {
				h.Client = append(h.Client, t.committed())
			}
			h.Client = append(h.Client, append(append(append(t.about("failed"), `,"error":`...), object...), '}'))
		}
		t.ended(h)
		return
	}
	t.owed = max(0, t.owed-1)
	h.Client = append(h.Client, append(append(append(t.event("error"), `,"error":`...), object...), '}'))
}
