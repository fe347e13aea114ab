package proxy

import (
	"penstock/config"
)

// translate puts the chat request that write makes of the body in the body's place. The client's own bytes are kept only
// where an engine of the model may be sent them (c.native). write appends to dst; what it appends may not hold on to the body.
func (c *Call) translate(write func(dst []byte) ([]byte, error)) error {
	buf := bodyPool.Get().(*[]byte)
	out, err := write((*buf)[:0])
	*buf = out
	if err != nil {
		recycleBody(buf)
		return err
	}
	old, reserved := c.body, c.reserved
	c.body = buf
	if c.goesNative() {
		c.native, reserved = old, 0
	} else {
		defer recycleBody(old)
		c.reserved = 0
	}
	fits := c.reserve(int64(len(out)))
	c.edge.memory.Release(reserved)
	if !fits {
		return bodyMemoryFull()
	}
	return nil
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
