package messages

import "penstock/translate/dialects"

// content reads the blocks of a message and turns them into the content of a chat message: a
// string, or parts if there are images. Without a writer it only counts. It is used like this in
// the first pass over the blocks, which finds errors.
type content struct {
	w      *dialects.ChatWriter
	images *dialects.Images // the chat request's images
	start  int              // offset in w at which the message starts
	parts  bool             // an array of parts, not a string
	n      int              // number of texts or parts written

	dropped *dialects.Dropped // what the request loses; nil: nothing may be dropped

	skipText, skipImages bool

	textsSeen, imagesSeen int // including texts and images that were not written
	leftOut               int // number of omitted blocks
	from, at, item        int // position of the pass in the client's body: see dialects.Image
}

// begin starts the content. It is a string until a part is written.
func (c *content) begin() {
	c.item = -1
	c.w.String(`,"content":"`)
}

// end writes the end of the content and of its message.
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

// endOrDrop is end, but removes a message without text.
func (c *content) endOrDrop() {
	if c.n > 0 {
		c.end()
		return
	}
	c.w.Out = c.w.Out[:c.start]
	c.w.Messages--
}

// text adds a text, given as the contents of a JSON string. Empty texts, which Claude Code writes,
// are omitted because some templates fail on them.
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

// part prepares for another part. The first one replaces the opening quote of the content.
func (c *content) part() {
	if c.n == 0 {
		c.w.Out[len(c.w.Out)-1] = '['
	}
	c.w.Comma(c.n)
	c.n++
}

// image adds an image that has been read.
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
