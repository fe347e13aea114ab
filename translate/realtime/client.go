package realtime

import (
	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// MessageKind is the kind of a client's message.
type MessageKind uint8

// The kinds of messages.
const (
	KindUnknown MessageKind = iota
	KindUpdate              // session.update or transcription_session.update
	KindAppend
	KindCommit
	KindClear
)

// The types of client messages.
const (
	messageTypeUpdate     = "session.update"
	messageTypeUpdateBeta = "transcription_session.update"
	messageTypeAppend     = "input_audio_buffer.append"
	messageTypeCommit     = "input_audio_buffer.commit"
	messageTypeClear      = "input_audio_buffer.clear"
)

// maxEventID is the maximum length of an event_id that an error repeats.
const maxEventID = 512

// ClientMessage is a message received from a client. Its slices refer to the message's bytes.
type ClientMessage struct {
	Kind    MessageKind
	EventID []byte // JSON of the client's event_id; may be nil
	Audio   []byte // for KindAppend: the audio as base64
	Beta    bool   // for KindUpdate: the type is transcription_session.update

	session jsonx.Value
}

var clientMembers = []string{"type", "event_id", "audio", "session"}

// ParseClient parses a client's message. The result is valid until the next use of doc. If refused
// is not nil, only EventID may be set.
func ParseClient(doc *jsonx.Doc, src []byte) (m ClientMessage, refused *apierr.Error) {
	if err := doc.Parse(src, jsonx.Options{Paired: true}); err != nil {
		return m, apierr.FromJSONError(err, "")
	}
	root := doc.Root()
	if !root.IsObject() {
		return m, apierr.Invalid("", apierr.CodeInvalidType, "A message must be a JSON object.")
	}
	var v [4]jsonx.Value
	if err := root.Fields(clientMembers, v[:]); err != nil {
		return m, apierr.FromJSONError(err, "")
	}
	if id := v[1]; id.IsString() && len(id.Raw()) <= maxEventID {
		m.EventID = id.Raw()
	}
	switch kind := v[0]; {
	case kind.EqualText(messageTypeAppend):
		text, plain := v[2].Text()
		if !plain || len(text) == 0 {
			return m, apierr.Invalid("audio", apierr.CodeInvalidType, "audio must be a string: PCM in base64.")
		}
		m.Kind, m.Audio = KindAppend, text
	case kind.EqualText(messageTypeCommit):
		m.Kind = KindCommit
	case kind.EqualText(messageTypeClear):
		m.Kind = KindClear
	case kind.EqualText(messageTypeUpdate), kind.EqualText(messageTypeUpdateBeta):
		if !v[3].IsObject() {
			return m, apierr.Invalid("session", apierr.CodeMissingParameter, "session must be an object.")
		}
		m.Kind, m.session, m.Beta = KindUpdate, v[3], kind.EqualText(messageTypeUpdateBeta)
	default:
		return m, apierr.Invalid("type", apierr.CodeInvalidValue,
			"type must be session.update, transcription_session.update, input_audio_buffer.append, input_audio_buffer.commit or input_audio_buffer.clear.")
	}
	return m, nil
}
