package proxy

// translate replaces the body by the chat request that write makes of it. The client's own bytes
// are kept only if an engine of the model may be sent them (c.native). write appends to dst and
// must not keep references to the body.
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
	c.shared.Bodies.Release(old)
	c.reserved -= old
	return nil
}

// translationMore is how much longer than the body a translation may be before more memory is
// reserved.
const translationMore = 1 << 10

// writeTranslation writes what write makes of the body into a buffer of its own. It reserves as
// much memory as the body has first, and then corrects that to the length of the translation.
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
			c.shared.Bodies.Release(-more)
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
