package proxy

import (
	"penstock/translate/chat"
	"penstock/upstreams"
)

// engineFormat returns how an engine wants a chat request, without the served name. It is computed
// once for each profile.
func (e *Edge) engineFormat(p *upstreams.Profile) chat.EngineFormat {
	if t, ok := e.engineFormats.Load(p); ok {
		return *t.(*chat.EngineFormat)
	}
	effort, words, off, on := p.ReasoningForm()
	t := &chat.EngineFormat{
		TokenMember:     p.TokenLimitMember(),
		ContinuousUsage: p.ContinuousUsage(),
		Reasoning:       &chat.Reasoning{Effort: effort, Words: words, Off: members(off), On: members(on)},
		Prefill:         members(p.Prefill()),

		DeveloperAsSystem: p.DeveloperAsSystem(),
	}
	e.engineFormats.Store(p, t)
	return *t
}

func members(in []upstreams.Member) []chat.Member {
	out := make([]chat.Member, len(in))
	for i, m := range in {
		out[i] = chat.Member(m)
	}
	return out
}

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
	c.edge.memory.Release(old)
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
