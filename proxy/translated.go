package proxy

import (
	"penstock/config"
)

// translate puts the chat request that write makes of the body in the body's place. The client's own bytes are kept only
// where an engine of the model may be sent them (c.native). write appends to dst; what it appends may not hold on to the body.
func (c *Call) translate(write func(dst []byte) ([]byte, error)) error {
	old := c.reserved
	buf, err := c.writeTranslation(write)
	if err != nil {
		return err
	}
	body := c.body
	c.body = buf
	if c.goesNative() {
		c.native = body
		return nil
	}
	recycleBody(body)
	c.edge.memory.Release(old)
	c.reserved -= old
	return nil
}

// translationMore is what a translation may have more than the body that it is made of before it is reserved for.
const translationMore = 1 << 10

// writeTranslation writes what write makes of the body into a buffer of its own. Its memory is reserved before, as much as the body
// has, and then what it came to.
func (c *Call) writeTranslation(write func(dst []byte) ([]byte, error)) (*[]byte, error) {
	var n int64
	if c.body != nil {
		n = int64(len(*c.body)) + translationMore
	}
	if !c.reserve(n) {
		return nil, bodyMemoryFull()
	}
	buf := bodyBuffer(n)
	out, err := write((*buf)[:0])
	*buf = out
	if err == nil {
		if more := int64(len(out)) - n; more < 0 {
			c.edge.memory.Release(-more)
			c.reserved += more
		} else if !c.reserve(more) {
			err = bodyMemoryFull()
		}
	}
	if err != nil {
		recycleBody(buf)
		return nil, err
	}
	return buf, nil
}

// inPlace reports whether the model takes system messages in the middle of a conversation. A model that does not exist
// is found out later.
func (s *Snapshot) inPlace(name []byte) bool {
	m, ok := s.lookup(name)
	if !ok {
		return false
	}
	switch m.config.SystemMessages {
	case config.SystemInPlace:
		return true
	case "":
		return m.route.Targets()[0].Upstream.Engine().SystemMessages() == config.SystemInPlace
	}
	return false
}
