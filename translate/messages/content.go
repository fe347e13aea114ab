package messages

import "penstock/translate/dialects"

// content writes the blocks of a message as the content of a chat message: a string, or parts if
// there are images. If w is nil, content only counts the blocks. The first pass, which finds
// errors, leaves w nil.
type content struct {
	w      *dialects.ChatWriter
	images *dialects.Images
	start  int  // offset of the message's start in w
	parts  bool // the content is an array of parts rather than a string
	n      int

	dropped *dialects.Dropped // the omitted parts of the request; nil if no part may be omitted

	skipText, skipImages bool

	textsSeen, imagesSeen int // includes texts and images that were not written
	leftOut               int
	from, at, item        int // current position in the client's body (see dialects.Image)
}

func (c *content) begin() {
	c.item = -1
	c.w.String(`,"content":"`)
}

func (c *content) end() {
	switch {
	case !c.parts:
		c.w.String(`"}`)
	case c.n == 0:
		panic("BUG: an array of parts without a part")
	default:
		c.w.String(`]}`)
	}
}

// endOrDrop is like end, but removes the message if it has no text.
func (c *content) endOrDrop() {
	if c.n > 0 {
		c.end()
		return
	}
	c.w.Out = c.w.Out[:c.start]
	c.w.Messages--
}

// text writes a text. It omits empty texts, because some templates fail on them. Claude Code sends
// empty texts.
func (c *content) text(contents []byte) {
	if len(contents) == 0 {
		return
	}
	c.textsSeen++
	switch {
	case c.w == nil || c.skipText:
		return
	case c.parts:
		c.part()
		c.w.TextPart(contents)
		return
	case c.n > 0:
		c.w.String(`\n`)
	}
	c.w.Out = append(c.w.Out, contents...)
	c.n++
}

// part prepares for another part. The first part replaces the opening quote of the content with a
// bracket.
func (c *content) part() {
	if c.n == 0 {
		c.w.Out[len(c.w.Out)-1] = '['
	}
	c.w.Comma(c.n)
	c.n++
}

func (c *content) image(b *block) {
	c.imagesSeen++
	if c.w == nil || c.skipImages {
		return
	}
	place := dialects.Image{
		Message: c.w.Messages - 1, Part: c.n,
		List: "messages", Parts: "content", Item: c.from, At: c.at, Nested: c.item,
	}
	c.part()
	if b.source[sourceType].EqualText("url") {
		place.Member = "source.url"
		c.w.Raw(`{"type":"image_url","image_url":{"url":`, b.source[sourceURL])
	} else {
		place.Member = "source.data"
		c.w.String(`{"type":"image_url","image_url":{"url":"data:`)
		c.w.Out = append(c.w.Out, b.source[sourceMediaType].Inside()...)
		c.w.String(`;base64,`)
		c.w.Out = append(append(c.w.Out, b.source[sourceData].Inside()...), '"')
	}
	c.w.String(`}}`)
	if b.nested {
		place.Member = "source.content"
	}
	*c.images = append(*c.images, place)
}
