package dialects

import (
	"errors"
	"strings"

	"penstock/translate/apierr"
	"penstock/translate/chat"
)

// RelocateError replaces the parameter of an *apierr.Error, which names a member of the chat
// request, with the member's name in the client's request. It returns other errors unchanged.
func RelocateError(err error, nameOf func(param string) string) error {
	var e *apierr.Error
	if !errors.As(err, &e) || e.Param == "" {
		return err
	}
	if name := nameOf(e.Param); name != e.Param {
		return e.WithParam(name)
	}
	return err
}

// ImagePositions lists the positions of a chat request's images in the client's body.
type ImagePositions []ImagePosition

// ImagePosition is the position of one image.
type ImagePosition struct {
	Message, Part int // messages[Message].content[Part] in the chat request

	// In the client's body, the image is in the object List[Item].Parts[At] or, unless Nested is
	// negative, in List[Item].Parts[At].Parts[Nested].
	List, Parts      string
	Item, At, Nested int
	Member           string
}

// Find returns the image that contains the member param of the chat request, and the member's path
// within the part. It returns nil if param is not part of an image.
func (s ImagePositions) Find(param string) (*ImagePosition, string) {
	for i := range s {
		m := &s[i]
		if rest, ok := strings.CutPrefix(param, chat.ElementPath("messages", m.Message)+"."+chat.ElementPath("content", m.Part)); ok {
			return m, rest
		}
	}
	return nil, ""
}

// Path returns the full path of one of the image's members in the client's body.
func (m *ImagePosition) Path(member string) string {
	s := chat.ElementPath(m.List, m.Item) + "." + chat.ElementPath(m.Parts, m.At)
	if m.Nested >= 0 {
		s += "." + chat.ElementPath(m.Parts, m.Nested)
	}
	return s + "." + member
}

// Reset removes the images.
func (s *ImagePositions) Reset() {
	if cap(*s) > maxReusedImageCapacity {
		*s = nil
	}
	*s = (*s)[:0]
}

const maxReusedImageCapacity = 64
