package dialects

import (
	"errors"
	"strings"

	"penstock/translate/apierr"
	"penstock/translate/chat"
)

// Locate puts an *apierr.Error about the chat request, from chat.Request.Decode or Check, under the
// name that its member has in the client's request. Other errors pass.
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

// Images are where the images of a chat request stand in the client's body.
type Images []Image

// Image is where one of them stands.
type Image struct {
	Message, Part int // messages[Message].content[Part] in the chat request

	// In the client's body: List[Item].Parts[At], and .Parts[Nested] below it unless that is
	// negative; Member holds the image.
	List, Parts      string
	Item, At, Nested int
	Member           string
}

// Find returns the image that a member of the chat request is in, and the rest of the member's name
// behind the part; nil for a member that is in no image.
func (s Images) Find(param string) (*Image, string) {
	for i := range s {
		m := &s[i]
		if rest, ok := strings.CutPrefix(param, chat.Element("messages", m.Message)+"."+chat.Element("content", m.Part)); ok {
			return m, rest
		}
	}
	return nil, ""
}

// Path names a member of the image in the client's body.
func (m *Image) Path(member string) string {
	s := chat.Element(m.List, m.Item) + "." + chat.Element(m.Parts, m.At)
	if m.Nested >= 0 {
		s += "." + chat.Element(m.Parts, m.Nested)
	}
	return s + "." + member
}

// Reset forgets the images and keeps the memory of a usual number of them.
func (s *Images) Reset() {
	if cap(*s) > keepImages {
		*s = nil
	}
	*s = (*s)[:0]
}

const keepImages = 64
