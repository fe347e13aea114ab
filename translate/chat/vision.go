package chat

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/image/webp"

	"penstock/translate/jsonx"
)

// Image is one image part.
type Image struct {
	// Message and Part are the indexes of the part: messages[Message].content[Part].
	Message, Part int
	// Type is the media type of a data URL, detected from its content. It is empty for an https
	// URL.
	Type string
	// Width and Height are in pixels. They are 0 for an https URL.
	Width, Height int
	// Host is the host of an https URL, without port, in the client's spelling. It is nil for a
	// data URL.
	Host []byte
	// Bytes is the length of the URL in JSON.
	Bytes int

	isObject    bool        // image_url is an object that contains the URL
	detail      jsonx.Value // set if engines do not recognize the client's detail
	knownDetail bool        // clients are known to send this detail
	start, end  int
}

// Param returns the path of the URL, for example messages[2].content[0].image_url.
func (m *Image) Param() string {
	s := "messages[" + strconv.Itoa(m.Message) + "].content[" + strconv.Itoa(m.Part) + "].image_url"
	if m.isObject {
		s += ".url"
	}
	return s
}

// Pixels returns the number of pixels, or 0 if unknown.
func (m *Image) Pixels() int64 { return int64(m.Width) * int64(m.Height) }

// Vision models use about one token per square of 28 by 28 pixels, and scale down very large
// images.
const (
	pixelsPerToken    = 28 * 28
	minImageTokens    = 64
	maxImageTokens    = 4096
	remoteImageTokens = 1024 // for an https URL, assuming 800,000 pixels
)

func (m *Image) estimateTokens() int {
	if m.Pixels() == 0 {
		return remoteImageTokens
	}
	return int(min(max(m.Pixels()/pixelsPerToken, minImageTokens), maxImageTokens))
}

// MaxImages limits the number of images in a request, because reading the sizes of many tiny images
// is expensive.
const MaxImages = 1000

var imageMemberNames = jsonx.NewNameIndex("url", "detail")

func (p *Prompt) decodeImage(i, j int, v jsonx.Value) *InvalidMember {
	m := Image{Message: i, Part: j}
	switch {
	case len(p.Images) == MaxImages:
		return WrongValueError("", "is one image too many: a request may hold "+strconv.Itoa(MaxImages)).MarkAboutImage()
	case !IsGiven(v):
		return MissingError("image_url")
	case v.IsString():
	case v.IsObject():
		m.isObject = true
		var o [2]jsonx.Value
		if e := ReadFields(v, imageMemberNames, o[:]); e != nil {
			return e.InObject("image_url")
		}
		if e := FirstInvalidMember(CheckOptionalString("detail", o[1]), CheckRequiredString("url", o[0])); e != nil {
			return e.InObject("image_url")
		}
		if IsGiven(o[1]) {
			word, known := detailHints.NearestWord(o[1])
			if m.knownDetail = known; !known || word == detailOriginal {
				m.detail = o[1]
			}
		}
		v = o[0]
	default:
		return WrongTypeError("image_url", "a URL in a string or an object with url", v)
	}
	m.Bytes, m.start, m.end = textLength(v), v.Start(), v.End()
	if e := m.readURL(textBytes(v)); e != nil {
		if m.isObject {
			e.InObject("url")
		}
		return e.InObject("image_url")
	}
	p.Images = append(p.Images, m)
	return nil
}

// Engines do not recognize detailOriginal, so the edge replaces it with high, the nearest word.
const detailOriginal = "original"

var detailHints = HintWordList{Words: []string{"auto", "low", "high", detailOriginal}, Other: "auto"}

func engineDetail(detail jsonx.Value) string {
	word, _ := detailHints.NearestWord(detail)
	if word == detailOriginal {
		return "high"
	}
	return word
}

func (p *Prompt) findUnknownDetail() *Image {
	for i := range p.Images {
		if m := &p.Images[i]; m.detail.Exists() && !m.knownDetail {
			return m
		}
	}
	return nil
}

const imageURLRequirement = "must be an https URL, or a data URL with a JPEG, PNG or WebP image in base64"

// readURL sets the fields that depend on the URL, or returns what is wrong with it.
func (m *Image) readURL(url []byte) *InvalidMember {
	switch {
	case hasFoldPrefix(url, "https://"):
		var text string
		if m.Host, text = urlHost(url[len("https://"):]); text != "" {
			return WrongValueError("", text)
		}
		return nil
	case hasFoldPrefix(url, "data:"):
		return m.readData(url[len("data:"):])
	}
	return imageError(imageURLRequirement)
}

func imageError(text string) *InvalidMember { return WrongValueError("", text).MarkAboutImage() }

type imageKind struct {
	mediaType string
	alias     string
	config    func(io.Reader) (image.Config, error)
}

var imageKinds = [...]imageKind{
	{"image/jpeg", "image/jpg", jpeg.DecodeConfig},
	{"image/png", "image/png", png.DecodeConfig},
	{"image/webp", "image/webp", webp.DecodeConfig},
}

func detectImageKind(b []byte) *imageKind {
	switch {
	case bytes.HasPrefix(b, []byte("\xff\xd8\xff")):
		return &imageKinds[0]
	case bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
		return &imageKinds[1]
	case len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		return &imageKinds[2]
	}
	return nil
}

// maxImageHeader limits the search for the image size. In a JPEG, previews and camera data of up to
// 64 KiB each may precede the size.
const maxImageHeader = 1 << 20

// readData decodes only the image's header. For the remaining bytes, it checks only the base64
// alphabet. It detects the format from the content, because clients often send the wrong media
// type.
func (m *Image) readData(s []byte) *InvalidMember {
	comma := bytes.IndexByte(s[:min(len(s), 64)], ',')
	if comma < 0 {
		return imageError(imageURLRequirement)
	}
	known := false
	for i := range imageKinds {
		k := &imageKinds[i]
		known = known || equalFold(s[:comma], k.mediaType+";base64") || equalFold(s[:comma], k.alias+";base64")
	}
	if !known {
		return imageError(imageURLRequirement)
	}
	data := s[comma+1:]
	if !IsBase64(data) {
		return WrongValueError("", "must hold valid base64 with its padding and without spaces or line ends: encode without wrapping")
	}
	var head [12]byte
	// The error is ignored, because detectImageKind rejects data that could not be decoded.
	n, _ := base64.StdEncoding.Decode(head[:], data[:min(len(data), 16)])
	kind := detectImageKind(head[:n])
	if kind == nil {
		return imageError("must hold a JPEG, PNG or WebP image; its content is none of these")
	}
	prefix := data[:min(len(data), base64.StdEncoding.EncodedLen(maxImageHeader))]
	c, err := kind.config(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(prefix)))
	if err != nil || c.Width <= 0 || c.Height <= 0 {
		return imageError("must hold an image with a readable header; its size could not be found")
	}
	m.Type, m.Width, m.Height = kind.mediaType, c.Width, c.Height
	return nil
}

func (p *Prompt) checkImages(rules *ModelRules) *InvalidMember {
	if len(p.Images) > 0 && rules.InputModalities != nil && !slices.Contains(rules.InputModalities, modalityImage) {
		return UnsupportedError(p.Images[0].Param(), "cannot be used: the model does not take images").MarkAboutImage()
	}
	if m := p.findUnknownDetail(); m != nil && rules.Strict {
		return UnsupportedError(strings.TrimSuffix(m.Param(), ".url")+".detail", "must be auto, low or high")
	}
	for i := range p.Images {
		m := &p.Images[i]
		if v := rules.Vision; v != nil && v.MaxPixels > 0 && m.Pixels() > int64(v.MaxPixels) {
			return WrongValueError(m.Param(), "has "+strconv.FormatInt(m.Pixels(), 10)+" pixels; the model takes at most "+
				strconv.Itoa(v.MaxPixels)+". Send a smaller image").MarkAboutImage()
		}
		if text := rules.hostRefusal(m.Host, "images"); text != "" {
			return WrongValueError(m.Param(), text)
		}
	}
	return nil
}
