package audio

import (
	"penstock/translate/chat"
	"penstock/translate/forward"
	"penstock/translate/jsonx"
)

// Speech is a POST /v1/audio/speech request. It refers to the body, which the caller must not
// modify. The zero value is ready for use.
type Speech struct {
	forward.Request
	format       string
	events       bool
	normalSpeed  bool // speed is 1 or absent
	streamFormat jsonx.Value
}

var speechTypes = map[string]string{
	"wav":  "audio/wav",
	"mp3":  "audio/mpeg",
	"flac": "audio/flac",
	"opus": "audio/ogg",
	"pcm":  "audio/pcm",
	"aac":  "audio/aac", // not in the contract, but some engines support it
}

const (
	speechInputIndex = iota
	speechVoiceIndex
	speechFormatIndex
	speechSpeedIndex
	speechStreamFormatIndex
	speechCount
)

var speechMembers = []string{"input", "voice", "response_format", "speed", "stream_format"}

// Decode reads and checks a body. Its error is an *apierr.Error.
func (s *Speech) Decode(body []byte) error {
	if err := s.Request.Decode(body); err != nil {
		return err
	}
	var m [speechCount]jsonx.Value
	if err := s.Fields(speechMembers, m[:]); err != nil {
		return err
	}
	for _, rule := range [...]error{
		checkInput(m[speechInputIndex]),
		checkString("voice", m[speechVoiceIndex]),
		checkFormat(m[speechFormatIndex]),
		checkSpeed(m[speechSpeedIndex]),
		checkStreamFormat(m[speechStreamFormatIndex]),
	} {
		if rule != nil {
			return rule
		}
	}
	s.format = "wav"
	if chat.IsGiven(m[speechFormatIndex]) {
		s.format = string(m[speechFormatIndex].AppendText(nil))
	}
	s.events, s.streamFormat = m[speechStreamFormatIndex].EqualText("sse"), m[speechStreamFormatIndex]
	speed, ok := m[speechSpeedIndex].Float()
	s.normalSpeed = !ok || speed == 1
	s.SetDefault("response_format", m[speechFormatIndex], []byte(`"wav"`))
	return nil
}

// CheckRules applies the model's rules. A strict edge rejects members and values that the contract
// does not list.
func (s *Speech) CheckRules(rules *chat.ModelRules) error {
	switch {
	case rules.Strict && s.events:
		return chat.UnsupportedError("stream_format", "must be audio or absent").Err()
	case rules.Strict && s.format == "aac":
		return chat.WrongValueError("response_format", "must be wav, mp3, flac, opus or pcm").Err()
	}
	return s.Request.CheckRules(rules)
}

// WantsEvents reports whether the client wants events.
func (s *Speech) WantsEvents() bool { return s.events }

// CanRequestEvents reports whether an engine can send events for this request. If the audio is
// encoded or the speed is not 1, engines reject a request for events. For wav, engines send events
// without the file header, so the edge requests a wav file instead.
func (s *Speech) CanRequestEvents() bool {
	return s.events && s.normalSpeed && s.format == "pcm"
}

// SetRequestsEvents sets whether the edge requests events from the next engine. It has no effect if
// the client does not want events.
func (s *Speech) SetRequestsEvents(on bool) {
	if !s.events || on {
		s.Omit(jsonx.Value{})
		return
	}
	s.Omit(s.streamFormat)
}

// ContentType returns the media type of the response.
func (s *Speech) ContentType() string { return speechTypes[s.format] }

func checkInput(v jsonx.Value) error {
	switch {
	case !chat.IsGiven(v):
		return chat.MissingError("input").Err()
	case !v.IsString():
		return chat.InvalidTypeError("input", "must be a string").Err()
	case v.EqualText(""):
		return chat.WrongValueError("input", "must not be empty").Err()
	}
	return nil
}

func checkString(name string, v jsonx.Value) error {
	if chat.IsGiven(v) && !v.IsString() {
		return chat.InvalidTypeError(name, "must be a string").Err()
	}
	return nil
}

func checkFormat(v jsonx.Value) error {
	if err := checkString("response_format", v); err != nil || !chat.IsGiven(v) {
		return err
	}
	if _, ok := speechTypes[string(v.AppendText(nil))]; !ok {
		return chat.WrongValueError("response_format", "must be wav, mp3, flac, opus, pcm or aac").Err()
	}
	return nil
}

func checkSpeed(v jsonx.Value) error {
	if !chat.IsGiven(v) {
		return nil
	}
	if !v.IsNumber() {
		return chat.InvalidTypeError("speed", "must be a number").Err()
	}
	if f, ok := v.Float(); !ok || f < 0.25 || f > 4 {
		return chat.WrongValueError("speed", "must be between 0.25 and 4").Err()
	}
	return nil
}

func checkStreamFormat(v jsonx.Value) error {
	if !chat.IsGiven(v) || v.EqualText("audio") || v.EqualText("sse") {
		return nil
	}
	return chat.WrongValueError("stream_format", "must be audio or sse").Err()
}
