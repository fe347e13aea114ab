package chat

import (
	"bytes"
	"strconv"

	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// Media that engines fetch, in requests of other shapes than chat's parts. What an engine takes for
// a medium goes by the name of the member, at whatever depth; a text is none, even if it looks like
// a URL.

// mediaNames are the members, and the types of parts, that engines take media from.
var mediaNames = [...]string{
	"image", "images", "image_url", "image_urls", "input_image", "ref_image", "reference_image", "image_file",
	"mask", "mask_image", "input_reference",
	"video", "videos", "video_url", "video_urls", "input_video", "ref_video",
	"audio", "audios", "audio_url", "audio_urls", "input_audio", "ref_audio", "reference_audio",
	"prompt_audio", "audio_prompt", "speaker_wav",
	"file_url", "media", "media_url",
}

// placeNames say inside of a medium where it is.
var placeNames = [...]string{"url", "uri", "href", "src", "path", "data", "file", "base64"}

// CheckMedia refuses media that an engine would fetch from where chat takes no images from:
// whatever has a scheme must be https with the name of a host (ModelRules.ImageHosts), or hold the
// medium in base64. The error is an *apierr.Error.
func CheckMedia(root jsonx.Value, rules *ModelRules) error {
	return (&media{rules: rules}).walk(root).Err()
}

// RefuseMediaText refuses a field of a form that names a medium by a URL. Media in forms are files.
func RefuseMediaText(name string, value []byte) error {
	if !among(mediaNames[:], []byte(name)) && !among(placeNames[:], []byte(name)) || !hasScheme(value) {
		return nil
	}
	return WrongValue(spelt([]byte(name), "*"), "must not be a URL; send the medium as a file").Err()
}

// media walks through a request.
type media struct{ rules *ModelRules } // nil rules: no URL at all

// open returns v with its children indexed, however deep it lies.
func open(v jsonx.Value) (jsonx.Value, *Invalid) {
	if v.Recorded() {
		return v, nil
	}
	var d jsonx.Doc
	if err := d.Parse(v.Raw(), jsonx.Options{Paired: true}); err != nil {
		return v, &Invalid{Code: apierr.CodeJSONLimit, Text: "holds more than can be looked at"}
	}
	return d.Root(), nil
}

// walk looks for media in a value that is none. Arrays of numbers or texts, of which embeddings
// have many, are passed by.
func (m *media) walk(v jsonx.Value) *Invalid {
	if !v.IsArray() && !v.IsObject() || bytes.IndexByte(v.Raw(), '{') < 0 {
		return nil
	}
	v, e := open(v)
	if e != nil {
		return e
	}
	if v.IsArray() {
		return each(v, m.walk)
	}
	if t := v.Get("type"); t.IsString() && among(mediaNames[:], t.AppendText(nil)) {
		return m.medium(v)
	}
	for it := v.Iter(); it.Next(); {
		look := m.walk
		if isAmong(mediaNames[:], it.Key()) {
			look = m.medium
		}
		if e := look(it.Value()); e != nil {
			return e.under(spelt(it.Key().Raw(), "*"))
		}
	}
	return nil
}

// medium checks a medium: a URL, or an object or an array with some.
func (m *media) medium(v jsonx.Value) *Invalid {
	if v.IsString() {
		return m.url(v)
	}
	v, e := open(v)
	if e != nil {
		return e
	}
	if v.IsArray() {
		return each(v, m.medium)
	}
	for it := v.Iter(); it.Next(); {
		v := it.Value()
		if v.IsString() && !isAmong(mediaNames[:], it.Key()) && !isAmong(placeNames[:], it.Key()) {
			continue
		}
		if e := m.medium(v); e != nil {
			return e.under(spelt(it.Key().Raw(), "*"))
		}
	}
	return nil
}

// each applies look to the elements of an array.
func each(v jsonx.Value, look func(jsonx.Value) *Invalid) *Invalid {
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

const wantMedium = "must be an https URL, or a data URL in base64"

// url checks the place of a medium. What has no scheme is no URL: engines take it for base64, for
// an id, or not at all.
func (m *media) url(v jsonx.Value) *Invalid {
	url := v.AppendText(nil)
	if !hasScheme(url) {
		return nil
	}
	if m.rules == nil {
		return WrongValue("", "must not be a URL: media are parts of the content")
	}
	var image Image
	switch {
	case hasFoldPrefix(url, "data:audio/"), hasFoldPrefix(url, "data:video/"):
		comma := bytes.IndexByte(url, ',')
		if comma < 0 || !bytes.HasSuffix(url[:comma], []byte(";base64")) || !IsBase64(url[comma+1:]) {
			return WrongValue("", wantMedium)
		}
		return nil
	case hasFoldPrefix(url, "https://"), hasFoldPrefix(url, "data:image/"):
		if e := image.read(url); e != nil {
			return e
		}
	default:
		return WrongValue("", wantMedium)
	}
	if image.Host != nil && len(m.rules.ImageHosts) > 0 && !hostAllowed(m.rules.ImageHosts, image.Host) {
		return WrongValue("", "names a host that media are not taken from; send it as a data URL")
	}
	if v := m.rules.Vision; v != nil && v.MaxPixels > 0 && image.Pixels() > int64(v.MaxPixels) {
		return WrongValue("", "has more pixels than the model takes, "+strconv.Itoa(v.MaxPixels)+". Send a smaller image")
	}
	return nil
}

// hasScheme reports whether some reader may find the scheme of a URL in s. Readers strip blanks
// before it and control characters in it.
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

func among(names []string, name []byte) bool {
	for _, n := range names {
		if equalFold(name, n) {
			return true
		}
	}
	return false
}

func isAmong(names []string, k jsonx.Key) bool {
	for _, n := range names {
		if k.Fold(n) {
			return true
		}
	}
	return false
}

// knownNames are further members that an error may name: where media stand, and the members of
// families that steer an engine.
var knownNames = [...]string{
	"messages", "content", "input", "inputs", "documents", "query", "prompt", "references",
	"bootstrap_host", "bootstrap_port", "bootstrap_room",
}

// spelt returns a name as far as it is one of ours, since errors repeat no word of a client's, or
// otherwise.
func spelt(name []byte, otherwise string) string {
	for _, names := range [...][]string{mediaNames[:], placeNames[:], knownNames[:]} {
		for _, n := range names {
			if equalFold(name, n) {
				return n
			}
		}
	}
	return otherwise
}
