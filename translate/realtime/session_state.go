package realtime

import (
	"cmp"
	"strconv"
	"sync"

	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// EngineProtocol is the protocol of an engine.
type EngineProtocol uint8

// The protocols.
const (
	ProtocolUnknown EngineProtocol = iota // no engine has been chosen yet
	ProtocolOpenAI                        // the beta version of OpenAI's protocol
	ProtocolVLLM
)

// SessionState is the state of a transcription session. Its methods are safe for concurrent use and
// never block.
type SessionState struct {
	mu       sync.Mutex
	id       string // a random id
	protocol EngineProtocol
	served   string
	settings Settings

	eventCount         int
	itemCount          int
	item               string // id of the current item, for vLLM
	previous           string // id of the previous item, or empty
	hasAudio           bool   // the current item contains audio
	finalCommitSent    bool   // the edge has sent the engine the final commit of the item
	itemCleared        bool   // the client has cleared the item
	owedTranscripts    int    // number of transcripts that an engine with OpenAI's protocol still has to send
	ignoreUpdateErrors bool   // the engine may report errors about the edge's session.update
}

// NewSessionState returns the state of a session. id must be random.
func NewSessionState(id string) *SessionState { return &SessionState{id: id} }

// Settings returns the current settings.
func (t *SessionState) Settings() Settings {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settings
}

// SetModel sets the model from the client's query.
func (t *SessionState) SetModel(model string) {
	t.mu.Lock()
	t.settings.Model = model
	t.mu.Unlock()
}

// ConnectEngine starts the conversation with an engine and returns the first messages for the
// engine. served is the engine's name for the model. ConnectEngine may be called again for another
// engine as long as no engine has received audio.
func (t *SessionState) ConnectEngine(form EngineProtocol, served string) (messages [][]byte, refused *apierr.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if form == ProtocolOpenAI && t.settings.rate == vllmRate {
		return nil, apierr.Invalid("session.audio.input.format.rate", apierr.CodeUnsupportedParameter, "The rate must be 24000 for this model.")
	}
	t.protocol, t.served = form, served
	return [][]byte{t.updateMessage()}, nil
}

// AudioConverter returns the converter for the session's audio.
func (t *SessionState) AudioConverter() *AudioConverter {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &AudioConverter{resample: t.protocol == ProtocolVLLM && t.settings.rate != vllmRate}
}

func (t *SessionState) updateMessage() []byte {
	s := &t.settings
	if t.protocol == ProtocolVLLM {
		return append(jsonx.AppendStringS([]byte(`{"type":"session.update","model":`), t.served), '}')
	}
	dst := jsonx.AppendStringS([]byte(`{"type":"session.update","session":{"input_audio_transcription":{"model":`), t.served)
	if s.Language != "" {
		dst = jsonx.AppendStringS(append(dst, `,"language":`...), s.Language)
	}
	dst = append(dst, '}')
	if s.vad.threshold != "" || s.vad.silence != "" { // speaches requires all members of turn_detection
		dst = append(append(append(dst, `,"turn_detection":{"type":"server_vad","threshold":`...), cmp.Or(s.vad.threshold, "0.5")...), `,"silence_duration_ms":`...)
		dst = append(append(dst, cmp.Or(s.vad.silence, "500")...), `,"prefix_padding_ms":0,"create_response":false}`...)
	}
	t.ignoreUpdateErrors = true
	return append(dst, `}}`...)
}

// CreatedEvent returns the first event of a session.
func (t *SessionState) CreatedEvent() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(t.appendSession(append(t.beginEvent("session.created"), `,"session":`...)), '}')
}

// UpdateSettings applies a message of KindUpdate. It returns the event for the client and the
// message for the engine. If there is nothing to send to the engine, the message is nil. Once an
// engine has been chosen, the model cannot be changed.
func (t *SessionState) UpdateSettings(m *ClientMessage) (client, engine []byte, refused *apierr.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next, rates := t.settings, []int{openAIRate, vllmRate}
	switch t.protocol {
	case ProtocolUnknown:
	case ProtocolOpenAI:
		rates = rates[:1]
	case ProtocolVLLM: // the audio converter is already in use
		rates = []int{cmp.Or(next.rate, openAIRate)}
	}
	if refused := next.ApplyUpdate(m, rates...); refused != nil {
		return nil, nil, refused
	}
	if t.protocol != ProtocolUnknown && t.settings.Model != "" && next.Model != t.settings.Model {
		return nil, nil, apierr.Invalid("session.audio.input.transcription.model", apierr.CodeInvalidValue,
			"The model of a session cannot be changed. Open another session.")
	}
	t.settings = next
	if t.protocol == ProtocolOpenAI {
		engine = t.updateMessage()
	}
	kind := "session.updated"
	if m.Beta {
		kind = "transcription_session.updated"
	}
	return append(t.appendSession(append(t.beginEvent(kind), `,"session":`...)), '}'), engine, nil
}

// MustHoldAudio reports whether the edge must hold back audio, commits and clears until the engine
// has sent its text.
func (t *SessionState) MustHoldAudio() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.finalCommitSent
}

// HasPendingText reports whether the engine still has to send text.
func (t *SessionState) HasPendingText() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.finalCommitSent || t.owedTranscripts > 0
}

var (
	startAudioMessage  = []byte(`{"type":"input_audio_buffer.commit","final":false}`)
	endAudioMessage    = []byte(`{"type":"input_audio_buffer.commit","final":true}`)
	commitAudioMessage = []byte(`{"type":"input_audio_buffer.commit"}`)
	clearAudioMessage  = []byte(`{"type":"input_audio_buffer.clear"}`)
)

// PrepareAppend is called before audio is sent. It returns the message that must precede the audio,
// or nil, and whether the audio starts an item.
func (t *SessionState) PrepareAppend() (engine []byte, begins bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	begins = !t.hasAudio
	t.hasAudio = true
	if !begins || t.protocol != ProtocolVLLM {
		return nil, begins
	}
	t.beginItem()
	return startAudioMessage, true
}

func (t *SessionState) beginItem() {
	t.itemCount++
	t.item = "item_" + t.id + strconv.Itoa(t.itemCount)
}

// CommitAudio ends the item. It returns the message for the engine and the event for the client.
// If the engine speaks OpenAI's protocol, the event is nil, because the engine itself sends an
// event.
func (t *SessionState) CommitAudio() (engine, client []byte, refused *apierr.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.protocol != ProtocolVLLM {
		t.hasAudio = false
		return commitAudioMessage, nil, nil
	}
	if !t.hasAudio {
		return nil, nil, apierr.Invalid("", codeEmptyAudioBuffer, "The input audio buffer is empty: append audio before a commit.")
	}
	t.finalCommitSent = true
	return endAudioMessage, t.committedEvent(), nil
}

// codeEmptyAudioBuffer is OpenAI's code for a commit without audio.
const codeEmptyAudioBuffer = "input_audio_buffer_commit_empty"

// ClearAudio drops the item. It returns the message for the engine and the event for the client, either
// of which may be nil.
func (t *SessionState) ClearAudio() (engine, client []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.protocol != ProtocolVLLM {
		t.hasAudio = false
		return clearAudioMessage, nil
	}
	client = append(t.beginEvent("input_audio_buffer.cleared"), '}')
	if t.hasAudio {
		t.finalCommitSent, t.itemCleared = true, true
		return endAudioMessage, client
	}
	return nil, client
}

// ErrorEvent returns the event for an error. about is the message that caused the error, or nil.
func (t *SessionState) ErrorEvent(e *apierr.Error, about *ClientMessage) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	dst := append(t.beginEvent("error"), `,"error":`...)
	dst = e.AppendObject(dst)
	if about != nil && about.EventID != nil {
		dst = append(append(append(dst[:len(dst)-1], `,"event_id":`...), about.EventID...), '}')
	}
	return append(dst, '}')
}

func (t *SessionState) beginEvent(kind string) []byte {
	t.eventCount++
	dst := append(append(append(make([]byte, 0, 256), `{"type":"`...), kind...), `","event_id":"event_`...)
	return append(strconv.AppendInt(append(dst, t.id...), int64(t.eventCount), 10), '"')
}

func (t *SessionState) committedEvent() []byte {
	dst := append(t.beginEvent("input_audio_buffer.committed"), `,"previous_item_id":`...)
	if t.previous == "" {
		dst = append(dst, `null`...)
	} else {
		dst = append(append(append(dst, '"'), t.previous...), '"')
	}
	return append(append(append(dst, `,"item_id":"`...), t.item...), `"}`...)
}

func (t *SessionState) beginTranscriptionEvent(what string) []byte {
	dst := t.beginEvent("conversation.item.input_audio_transcription." + what)
	return append(append(append(dst, `,"item_id":"`...), t.item...), `","content_index":0`...)
}

// RejectionEvent returns the event for a rejected session. body is the body of the HTTP response
// that rejects the session.
func (t *SessionState) RejectionEvent(body []byte) []byte {
	var doc jsonx.Doc
	t.mu.Lock()
	defer t.mu.Unlock()
	dst := append(t.beginEvent("error"), `,"error":`...)
	if doc.Parse(body, jsonx.Options{Record: 1}) != nil || !doc.Root().Get("error").IsObject() {
		return append(apierr.New(500, apierr.CodeInternal, "The session was refused.").AppendObject(dst), '}')
	}
	return append(append(dst, doc.Root().Get("error").Raw()...), '}')
}
