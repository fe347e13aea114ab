package chat

import (
	"bytes"
	"slices"
	"strconv"

	"penstock/translate/jsonx"
)

// Only a few models accept parts with audio, video or a file. The edge rejects these parts unless
// the model's entry lists their kind (ModelRules.InputModalities).

// MediaPart is a part with audio, video or a file.
type MediaPart struct {
	// Message and Part are the indexes of the part: messages[Message].content[Part].
	Message, Part int
	// Kind is audio, video or file.
	Kind string
	// Host is the host of an https URL, or nil if the request itself contains the medium.
	Host []byte

	member string
}

// Param returns the path of the member that contains the medium, for example
// messages[2].content[0].input_audio.
func (m *MediaPart) Param() string {
	return "messages[" + strconv.Itoa(m.Message) + "].content[" + strconv.Itoa(m.Part) + "]." + m.member
}

// MaxMedia is the maximum number of parts with media in a request.
const MaxMedia = 256

// estimatedMediumTokens is the estimate for one medium: half a minute of audio or a few seconds of
// video.
const estimatedMediumTokens = 1024

// mediumPart is a type of part that contains a medium. The member with the medium has the same name
// as the type.
type mediumPart struct {
	member, kind string
	read         func(v jsonx.Value, kind string) (host []byte, e *InvalidMember)
}

var mediumParts = [...]mediumPart{
	{"input_audio", "audio", readInputAudio},
	{"audio_url", "audio", readMediumURL},
	{"video_url", "video", readMediumURL},
	{"file", "file", readFile},
}

func findMediumPart(partType jsonx.Value) *mediumPart {
	for i := range mediumParts {
		if partType.EqualText(mediumParts[i].member) {
			return &mediumParts[i]
		}
	}
	return nil
}

func (p *Prompt) decodeMedium(i, j int, kind *mediumPart, v jsonx.Value) *InvalidMember {
	switch {
	case len(p.Media) == MaxMedia:
		return WrongValueError("", "is one medium too many: a request may hold "+strconv.Itoa(MaxMedia))
	case !IsGiven(v):
		return MissingError(kind.member)
	case !v.IsObject():
		return WrongTypeError(kind.member, "an object", v)
	}
	host, e := kind.read(v, kind.kind)
	if e != nil {
		return e.InObject(kind.member)
	}
	p.Media = append(p.Media, MediaPart{Message: i, Part: j, Kind: kind.kind, Host: host, member: kind.member})
	return nil
}

var (
	inputAudioMemberNames = jsonx.NewNameIndex("data", "format")
	mediumURLMemberNames  = jsonx.NewNameIndex("url")
	fileMemberNames       = jsonx.NewNameIndex("file_data", "file_id")
)

func readInputAudio(v jsonx.Value, _ string) ([]byte, *InvalidMember) {
	var m [2]jsonx.Value
	if e := ReadFields(v, inputAudioMemberNames, m[:]); e != nil {
		return nil, e
	}
	if e := CheckRequiredString("data", m[0]); e != nil {
		return nil, e
	}
	if e := CheckRequiredString("format", m[1]); e != nil {
		return nil, e
	}
	if !IsBase64(textBytes(m[0])) {
		return nil, WrongValueError("data", "must hold the audio in base64 with its padding and without spaces or line ends: encode without wrapping")
	}
	if !isFormatName(textBytes(m[1])) { // engines write the format into a data URL
		return nil, WrongValueError("format", "must be a word such as wav or mp3")
	}
	return nil, nil
}

func isFormatName(s []byte) bool {
	return len(s) > 0 && len(s) <= 32 && !slices.ContainsFunc(s, func(c byte) bool {
		return !('0' <= c && c <= '9') && !('a' <= c|0x20 && c|0x20 <= 'z') && c != '-' && c != '.' && c != '+'
	})
}

// readMediumURL checks a URL by the same rules as image URLs, and returns its host.
func readMediumURL(v jsonx.Value, kind string) ([]byte, *InvalidMember) {
	var m [1]jsonx.Value
	if e := ReadFields(v, mediumURLMemberNames, m[:]); e != nil {
		return nil, e
	}
	if e := CheckRequiredString("url", m[0]); e != nil {
		return nil, e
	}
	url := textBytes(m[0])
	if hasFoldPrefix(url, "https://") {
		host, text := urlHost(url[len("https://"):])
		if text != "" {
			return nil, WrongValueError("url", text)
		}
		return host, nil
	}
	if !isDataURL(url, kind+"/") {
		return nil, WrongValueError("url", "must be an https URL, or a data URL with "+kind+" in base64")
	}
	return nil, nil
}

func readFile(v jsonx.Value, _ string) ([]byte, *InvalidMember) {
	var m [2]jsonx.Value
	if e := ReadFields(v, fileMemberNames, m[:]); e != nil {
		return nil, e
	}
	if IsGiven(m[1]) {
		return nil, UnsupportedError("file_id", "cannot be used: nothing is stored here. Send the file in file_data")
	}
	if e := CheckRequiredString("file_data", m[0]); e != nil {
		return nil, e
	}
	if data := textBytes(m[0]); !IsBase64(data) && !isDataURL(data, "") {
		return nil, WrongValueError("file_data", "must hold the file in base64, or be a data URL with it")
	}
	return nil, nil
}

func isDataURL(s []byte, mediaType string) bool {
	const scheme, encoding = "data:", ";base64"
	if !hasFoldPrefix(s, scheme) || !hasFoldPrefix(s[len(scheme):], mediaType) {
		return false
	}
	comma := bytes.IndexByte(s[:min(len(s), 128)], ',')
	return comma >= len(scheme)+len(mediaType)+len(encoding) &&
		equalFold(s[comma-len(encoding):comma], encoding) && IsBase64(s[comma+1:])
}

// textBytes returns a string's text. If it has no escapes, the result is a slice of the body.
func textBytes(v jsonx.Value) []byte {
	if text, ok := v.Text(); ok {
		return text
	}
	return v.AppendText(nil) // some encoders escape every slash
}

// HasVideo reports whether the request has a video. Engines split videos into images.
func (p *Prompt) HasVideo() bool {
	return slices.ContainsFunc(p.Media, func(m MediaPart) bool { return m.Kind == "video" })
}

func (p *Prompt) checkMedia(rules *ModelRules) *InvalidMember {
	for i := range p.Media {
		m := &p.Media[i]
		switch {
		case rules.Strict:
			return UnsupportedError(m.Param(), "cannot be used: a content part must be text or image_url")
		case !slices.Contains(rules.InputModalities, m.Kind):
			return UnsupportedError(m.Param(), "cannot be used: the model does not take "+mediumWords[m.Kind])
		}
		if text := rules.hostRefusal(m.Host, "media"); text != "" {
			return WrongValueError(m.Param()+".url", text)
		}
	}
	return nil
}

var mediumWords = map[string]string{"audio": "audio", "video": "video", "file": "files"}

// refusalPart is a part of an assistant message that contains a refusal. Only a few engines accept
// refusal parts, so the edge sends a text part.
type refusalPart struct{ part, text jsonx.Value }
