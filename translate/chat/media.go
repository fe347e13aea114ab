package chat

import (
	"bytes"
	"strconv"
	"strings"

	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// Engines fetch media from content parts. At any depth of a request, they also fetch media from
// members with certain names.

// mediaMemberNames lists the members and part types from which engines read media. Speech engines
// fetch a voice sample or read it from a file on their disk.
var mediaMemberNames = [...]string{
	"image", "images", "image_url", "image_urls", "input_image", "input_images", "ref_image", "reference_image",
	"reference_images", "image_file", "image_path", "init_image", "init_images", "control_image", "end_image",
	"mask", "mask_image", "mask_url", "input_reference",
	"video", "videos", "video_url", "video_urls", "input_video", "ref_video", "video_file", "video_path",
	"audio", "audios", "audio_url", "audio_urls", "input_audio", "audio_file", "audio_path",
	// GPT-SoVITS, vLLM-Omni.
	"ref_audio", "ref_audio_path", "aux_ref_audio_paths", "ref_wav_path", "refer_wav_path", "inp_refs",
	"reference_audio", "reference_audio_path", "reference_wav", // F5-TTS, MeloTTS
	// CosyVoice, VoxCPM.
	"prompt_audio", "prompt_audio_path", "prompt_wav", "prompt_wav_path", "prompt_speech_path",
	"audio_prompt", "audio_prompt_path", "spk_audio_prompt", "emo_audio_prompt", // Chatterbox, IndexTTS
	// XTTS.
	"speaker_wav", "speaker_audio", "speaker_file", "voice_file", "voice_path", "voice_url", "sample_audio",
	"document_url", "file_url", "media", "media_url",
}

// mediumLocationNames lists the members of a medium that contain its location or its data.
var mediumLocationNames = [...]string{"url", "uri", "href", "src", "path", "data", "file", "base64"}

// CheckMedia rejects media that an engine would read from its own disk, or fetch from a location
// that chat does not allow for images. A value with a scheme must be a data URL, or an https URL
// with a host name allowed by ModelRules.ImageHosts. Paths are rejected. The error is an
// *apierr.Error.
func CheckMedia(root jsonx.Value, rules *ModelRules) error {
	return (&mediaChecker{rules: rules}).checkValue(root).Err()
}

var listNames = [...]string{"documents", "references"}

// checkTopMedia does the same as CheckMedia for all members except the messages. It is needed only
// for requests with members that the edge does not read, which are rare.
func (r *Request) checkTopMedia(rules *ModelRules) *InvalidMember {
	if r.onlyKnown {
		return nil
	}
	m := mediaChecker{rules: rules}
	for it := r.doc.Root().Iter(); it.Next(); {
		var e *InvalidMember
		switch {
		case isAmong(mediaMemberNames[:], it.Key()):
			e = m.checkMedium(it.Value())
		case isAmong(listNames[:], it.Key()):
			e = m.checkValue(it.Value())
		}
		if e != nil {
			return e.prependName(knownSpelling(it.Key().Raw(), "*"))
		}
	}
	return nil
}

// CheckMediaField rejects a form field that refers to a medium by a URL or a path.
func CheckMediaField(name string, value []byte) error {
	field := []byte(strings.TrimSuffix(name, "[]"))
	if !containsFold(mediaMemberNames[:], field) && !containsFold(mediumLocationNames[:], field) || !hasScheme(value) && !isUnsafePath(value) {
		return nil
	}
	return WrongValueError(knownSpelling(field, "*"), "must not be a URL or a path; send the medium as a file").Err()
}

type mediaChecker struct{ rules *ModelRules } // if rules is nil, no URL is allowed

func withChildren(v jsonx.Value) (jsonx.Value, *InvalidMember) {
	if v.HasRecordedChildren() {
		return v, nil
	}
	var d jsonx.Doc
	if err := d.Parse(v.Raw(), jsonx.Options{Paired: true}); err != nil {
		return v, &InvalidMember{Code: apierr.CodeJSONLimit, Text: "holds more than can be looked at"}
	}
	return d.Root(), nil
}

// checkValue checks all media within v. It skips arrays of numbers or texts, which are frequent in
// embeddings.
func (m *mediaChecker) checkValue(v jsonx.Value) *InvalidMember {
	if !v.IsArray() && !v.IsObject() || bytes.IndexByte(v.Raw(), '{') < 0 {
		return nil
	}
	v, e := withChildren(v)
	if e != nil {
		return e
	}
	if v.IsArray() {
		return checkElements(v, m.checkValue)
	}
	if t := v.Get("type"); t.IsString() && containsFold(mediaMemberNames[:], t.AppendText(nil)) {
		return m.checkMedium(v)
	}
	for it := v.Iter(); it.Next(); {
		look := m.checkValue
		if isAmong(mediaMemberNames[:], it.Key()) {
			look = m.checkMedium
		}
		if e := look(it.Value()); e != nil {
			return e.prependName(knownSpelling(it.Key().Raw(), "*"))
		}
	}
	return nil
}

func (m *mediaChecker) checkMedium(v jsonx.Value) *InvalidMember {
	if v.IsString() {
		return m.checkURL(v)
	}
	v, e := withChildren(v)
	if e != nil {
		return e
	}
	if v.IsArray() {
		return checkElements(v, m.checkMedium)
	}
	for it := v.Iter(); it.Next(); {
		v := it.Value()
		if v.IsString() && !isAmong(mediaMemberNames[:], it.Key()) && !isAmong(mediumLocationNames[:], it.Key()) {
			continue
		}
		if e := m.checkMedium(v); e != nil {
			return e.prependName(knownSpelling(it.Key().Raw(), "*"))
		}
	}
	return nil
}

func checkElements(v jsonx.Value, look func(jsonx.Value) *InvalidMember) *InvalidMember {
	for it := v.Iter(); it.Next(); {
		if e := look(it.Value()); e != nil {
			e.Param = joinIndex(it.Index(), e.Param)
			return e
		}
	}
	return nil
}

func joinIndex(i int, rest string) string {
	at := "[" + strconv.Itoa(i) + "]"
	if rest != "" && rest[0] != '[' {
		at += "."
	}
	return at + rest
}

const mediumURLRequirement = "must be an https URL, or a data URL in base64"

// checkURL checks a value that may be a URL or a path. Any other value is accepted. Engines read
// such a value as base64 or as an id, or reject it.
func (m *mediaChecker) checkURL(v jsonx.Value) *InvalidMember {
	url := v.AppendText(nil)
	switch scheme := hasScheme(url); {
	case !scheme && !isUnsafePath(url):
		return nil
	case !scheme:
		return WrongValueError("", mediumURLRequirement+"; a path is not accepted")
	case m.rules == nil:
		return WrongValueError("", "must not be a URL: media are parts of the content")
	}
	var image Image
	switch {
	case hasFoldPrefix(url, "data:audio/"), hasFoldPrefix(url, "data:video/"):
		comma := bytes.IndexByte(url, ',')
		if comma < 0 || !bytes.HasSuffix(url[:comma], []byte(";base64")) || !IsBase64(url[comma+1:]) {
			return WrongValueError("", mediumURLRequirement)
		}
		return nil
	case hasFoldPrefix(url, "https://"), hasFoldPrefix(url, "data:image/"):
		if e := image.readURL(url); e != nil {
			return e
		}
	default:
		return WrongValueError("", mediumURLRequirement)
	}
	if text := m.rules.hostRefusal(image.Host, "media"); text != "" {
		return WrongValueError("", text)
	}
	if v := m.rules.Vision; v != nil && v.MaxPixels > 0 && image.Pixels() > int64(v.MaxPixels) {
		return WrongValueError("", "has more pixels than the model takes, "+strconv.Itoa(v.MaxPixels)+". Send a smaller image")
	}
	return nil
}

// hasScheme reports whether any reader could find a URL scheme in s. It also finds a scheme that
// follows spaces or contains control characters, because some readers strip them.
func hasScheme(s []byte) bool {
	letters := 0
	for i, c := range s[:min(len(s), 256)] {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			letters++
		case c < ' ', letters == 0 && (c == ' ' || c >= 0x80):
		case letters > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return c == ':' && letters > 0 && i > 0
		}
	}
	return false
}

// maxPathBytes is Linux's PATH_MAX. A longer text cannot be a path.
const maxPathBytes = 4096

// jpegBase64Prefix is the start of a JPEG in base64. No other base64 medium that starts with a
// slash can be as short as a path.
const jpegBase64Prefix = "/9j/"

// isUnsafePath reports whether an engine could read s as a path outside its own folder. A text
// without slashes is a voice id, not a path. A text with slashes may also be base64.
func isUnsafePath(s []byte) bool {
	if len(s) > maxPathBytes {
		return false
	}
	s = bytes.TrimLeft(s, " \t\r\n")
	if len(s) == 0 {
		return false
	}
	switch s[0] {
	case '/':
		return !bytes.HasPrefix(s, []byte(jpegBase64Prefix)) || !isBase64Text(s)
	case '~', '.':
		return true
	}
	return bytes.IndexByte(s, '\\') >= 0 || bytes.IndexByte(s, '/') >= 0 && !isBase64Text(s)
}

// isBase64Text reports whether s contains only line ends and characters of either base64 alphabet.
func isBase64Text(s []byte) bool {
	for _, c := range s {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9':
		case c == '+', c == '/', c == '=', c == '-', c == '_', c == '\r', c == '\n':
		default:
			return false
		}
	}
	return true
}

func containsFold(names []string, name []byte) bool {
	for _, n := range names {
		if equalFold(name, n) {
			return true
		}
	}
	return false
}

func isAmong(names []string, k jsonx.Key) bool {
	for _, n := range names {
		if k.EqualFold(n) {
			return true
		}
	}
	return false
}

// knownNames lists further names that an error may contain. Some are members that may contain
// media. The others are members that steer an engine and share a prefix.
var knownNames = [...]string{
	"messages", "content", "input", "inputs", "documents", "query", "prompt", "references",
	"bootstrap_host", "bootstrap_port", "bootstrap_room",
}

// knownSpelling returns the edge's spelling of a known name. Errors use it because they never
// repeat client text.
func knownSpelling(name []byte, otherwise string) string {
	for _, names := range [...][]string{mediaMemberNames[:], mediumLocationNames[:], knownNames[:]} {
		for _, n := range names {
			if equalFold(name, n) {
				return n
			}
		}
	}
	return otherwise
}
