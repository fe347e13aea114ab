package messages

import (
	"errors"
	"strings"

	"penstock/translate/apierr"
	"penstock/translate/chat"
)

// renamed are the members of a chat request that have another name, or another home, in Messages.
var renamed = map[string]string{
	"response_format":  "output_config.format",
	"reasoning_effort": "output_config.effort",
}

// Explain returns err, an error of the chat request's Decode or Check, under the name that its
// member has in the Messages request. It is for the request that was decoded last.
func (r *Request) Explain(err error) error {
	if err == nil {
		return nil
	}
	var e *apierr.Error
	if !errors.As(err, &e) || e.Param == "" {
		return err
	}
	name, ok := renamed[e.Param]
	for i := 0; i < len(r.images) && !ok; i++ {
		m := chat.Image{Message: r.images[i].message, Part: r.images[i].part}
		if ok = strings.HasPrefix(e.Param, strings.TrimSuffix(m.Param(), ".image_url")); ok {
			name = r.images[i].path()
		}
	}
	if !ok {
		return err
	}
	return e.Renamed(name)
}

// path names the image in the client's body.
func (p *place) path() string {
	s := chat.Element("messages", p.from) + "." + chat.Element("content", p.at)
	if p.item >= 0 {
		s += "." + chat.Element("content", p.item)
	}
	return s + "." + p.member
}
