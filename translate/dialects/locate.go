package dialects

import (
	"errors"
	"strings"

	"penstock/translate/apierr"
	"penstock/translate/chat"
)

// Locate changes an *apierr.Error from chat.Request.Decode or Check so that it names the member as
// in the client's request. Other errors are returned unchanged.
func Locate(err error, nameOf func(param string) string) error {
	var e *apierr.Error
	if !errors.As(err, &e) || e.Param == "" {
		return err
	}
	if name := nameOf(e.Param); name != e.Param {
		return e.Renamed(name)
	}
	return err
}

// Images holds the positions of a chat request's images in the client's body.
type Images []Image

// Image is the position of one image.
type Image struct {
	Message, Part int // messages[Message].content[Part] in the chat request

	// In the client's body the image is at List[Item].Parts[At] or, unless Nested is negative, at
	// List[Item].Parts[At].Parts[Nested]. It is in the member Member of that object.
	List, Parts      string
	Item, At, Nested int
	Member           string
}

// Find returns the image to which a member of the chat request belongs, and the rest of the
// member's name after the part. It returns nil if the member does not belong to an image.
func (s Images) Find(param string) (*Image, string) {
	for i := range s {
		m := &s[i]
		if rest, ok := strings.CutPrefix(param, chat.Element("messages", m.Message)+"."+chat.Element("content", m.Part)); ok {
			return m, rest
		}
	}
	return nil, ""
}

// Path returns the name, in the client's body, of one of the image's members.
func (m *Image) Path(member string) string {
	s := chat.Element(m.List, m.Item) + "." + chat.Element(m.Parts, m.At)
	if m.Nested >= 0 {
		s += "." + chat.Element(m.Parts, m.Nested)
	}
	return s + "." + member
}

// Reset clears the images and keeps the memory for a usual number of images.
func (s *Images) Reset() {
	if cap(*s) > keepImages {
		*s = nil
	}
	*s = (*s)[:0]
}

const keepImages = 64
