package realtime

import (
	"cmp"
	"strconv"

	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// The sample rates of audio.
const (
	openAIRate = 24000
	vllmRate   = 16000
)

// Settings contains a session's settings.
type Settings struct {
	Model    string // in the client's spelling; empty if absent
	Language string // empty if the engine should detect it
	rate     int
	vad      voiceDetection
}

// voiceDetection contains the voice detection settings. Only some engines support them.
type voiceDetection struct {
	given              bool
	threshold, silence string // JSON numbers; empty if absent
}

// ApplyUpdate applies a client's message of KindUpdate. If it returns an error, the settings are
// unchanged.
func (s *Settings) ApplyUpdate(m *ClientMessage, rates ...int) *apierr.Error {
	next := *s
	in := m.session
	if kind := in.Get("type"); kind.Exists() && !kind.EqualText("transcription") {
		return apierr.Invalid("session.type", apierr.CodeInvalidValue, "session.type must be transcription: the edge has no other realtime sessions.")
	}
	input := in.Get("audio").Get("input")
	if err := next.readFormat(input.Get("format"), in.Get("input_audio_format"), rates); err != nil {
		return err
	}
	at, transcription := "session.audio.input.transcription", input.Get("transcription")
	if flat := in.Get("input_audio_transcription"); flat.Exists() {
		at, transcription = "session.input_audio_transcription", flat
	}
	if err := next.readTranscription(at, transcription); err != nil {
		return err
	}
	turns := input.Get("turn_detection")
	if flat := in.Get("turn_detection"); flat.Exists() {
		turns = flat
	}
	if turns.IsObject() {
		next.vad = voiceDetection{given: true, threshold: numberText(turns.Get("threshold")), silence: numberText(turns.Get("silence_duration_ms"))}
	}
	*s = next
	return nil
}

func (s *Settings) readTranscription(at string, v jsonx.Value) *apierr.Error {
	if !v.Exists() || v.IsNull() {
		return nil
	}
	if !v.IsObject() {
		return apierr.Invalid(at, apierr.CodeInvalidType, "The transcription of a session must be an object.")
	}
	for _, one := range [...]struct {
		name string
		into *string
	}{{"model", &s.Model}, {"language", &s.Language}} {
		value := v.Get(one.name)
		switch {
		case !value.Exists(), value.IsNull():
		case !value.IsString() || len(value.Raw()) > maxEventID:
			return apierr.Invalid(at+"."+one.name, apierr.CodeInvalidType, "%s must be a short string.", one.name)
		default:
			*one.into = string(value.AppendText(nil))
		}
	}
	return nil
}

// readFormat reads the audio format, which is an object in the current protocol and a name in the
// beta.
func (s *Settings) readFormat(v, flat jsonx.Value, rates []int) *apierr.Error {
	if s.rate == 0 {
		s.rate = openAIRate
	}
	switch {
	case flat.Exists() && !flat.IsNull() && !flat.EqualText("pcm16"):
		return apierr.Invalid("session.input_audio_format", apierr.CodeUnsupportedParameter, "input_audio_format must be pcm16.")
	case !v.Exists(), v.IsNull():
		return nil
	case !v.IsObject(), v.Get("type").Exists() && !v.Get("type").EqualText("audio/pcm"):
		return apierr.Invalid("session.audio.input.format", apierr.CodeUnsupportedParameter, "The format must be audio/pcm.")
	}
	rate := v.Get("rate")
	if !rate.Exists() || rate.IsNull() {
		return nil
	}
	n, _ := rate.Int()
	for _, known := range rates {
		if n == int64(known) {
			s.rate = known
			return nil
		}
	}
	return apierr.Invalid("session.audio.input.format.rate", apierr.CodeUnsupportedParameter, "The rate must be 24000.")
}

// maxNumberBytes is the maximum length of a JSON number that a session stores.
const maxNumberBytes = 32

// numberText returns the JSON text of v, or "" if v is not a number or is too long.
func numberText(v jsonx.Value) string {
	if !v.IsNumber() || len(v.Raw()) > maxNumberBytes {
		return ""
	}
	return string(v.Raw())
}

// appendSession writes a session object with the members of both the current protocol and the beta.
func (t *SessionState) appendSession(dst []byte) []byte {
	s := &t.settings
	transcription := []byte("null")
	if s.Model != "" {
		transcription = append(jsonx.AppendStringS([]byte(`{"model":`), s.Model), `,"language":`...)
		if s.Language == "" {
			transcription = append(transcription, `null}`...)
		} else {
			transcription = append(jsonx.AppendStringS(transcription, s.Language), '}')
		}
	}
	turns := "null"
	if t.protocol == ProtocolOpenAI {
		turns = `{"type":"server_vad"`
		if s.vad.threshold != "" {
			turns += `,"threshold":` + s.vad.threshold
		}
		if s.vad.silence != "" {
			turns += `,"silence_duration_ms":` + s.vad.silence
		}
		turns += "}"
	}
	dst = append(append(append(dst, `{"id":"sess_`...), t.id...), `","object":"realtime.transcription_session","type":"transcription","audio":{"input":{"format":{"type":"audio/pcm","rate":`...)
	dst = strconv.AppendInt(dst, int64(cmp.Or(s.rate, openAIRate)), 10)
	dst = append(append(dst, `},"noise_reduction":null,"transcription":`...), transcription...)
	dst = append(append(append(dst, `,"turn_detection":`...), turns...), `}},"include":null,"input_audio_format":"pcm16","input_audio_transcription":`...)
	dst = append(append(append(dst, transcription...), `,"turn_detection":`...), turns...)
	return append(dst, '}')
}
