package messages

import "penstock/translate/dialects"

// contentWriter writes the blocks of a message as the content of a chat message: a string, or parts
// if there are images. If w is nil, the contentWriter only counts the blocks. The first pass, which
// finds errors, leaves w nil.
type contentWriter struct {
	w       *dialects.ChatWriter
	images  *dialects.ImagePositions
	start   int  // offset of the message's start in w
	isParts bool // the content is an array of parts rather than a string
	n       int

	dropped *dialects.DroppedParts // the omitted parts of the request; nil if no part may be omitted

	skipText, skipImages bool

	textsSeen, imagesSeen int // includes texts, images and PDFs that were not written
	omittedCount          int
	// Current position in the client's body (see dialects.ImagePosition).
	messageIndex, blockIndex, nestedIndex int
}

func (c *contentWriter) beginContent() {
	c.nestedIndex = -1
	c.w.WriteString(`,"content":"`)
}

func (c *contentWriter) endContent() {
	switch {
	case !c.isParts:
		c.w.WriteString(`"}`)
	case c.n == 0:
		panic("BUG: an array of parts without a part")
	default:
		c.w.WriteString(`]}`)
	}
}

// endOrDrop is like endContent, but removes the message if it has no text.
func (c *contentWriter) endOrDrop() {
	if c.n > 0 {
		c.endContent()
		return
	}
	c.w.Out = c.w.Out[:c.start]
	c.w.Messages--
}

// writeText writes a text. It omits empty texts, because some templates fail on them. Claude Code
// sends empty texts.
func (c *contentWriter) writeText(contents []byte) {
	if len(contents) == 0 {
		return
	}
	c.textsSeen++
	switch {
	case c.w == nil || c.skipText:
		return
	case c.isParts:
		c.beginPart()
		c.w.WriteTextPart(contents)
		return
	case c.n > 0:
		c.w.WriteString(`\n`)
	}
	c.w.Out = append(c.w.Out, contents...)
	c.n++
}

// beginPart prepares for another part. The first part replaces the opening quote of the content
// with a bracket.
func (c *contentWriter) beginPart() {
	if c.n == 0 {
		c.w.Out[len(c.w.Out)-1] = '['
	}
	c.w.WriteCommaUnlessFirst(c.n)
	c.n++
}

// writeImage writes an image or a PDF.
func (c *contentWriter) writeImage(b *contentBlock) {
	c.imagesSeen++
	if c.w == nil || c.skipImages {
		return
	}
	place := dialects.ImagePosition{
		Message: c.w.Messages - 1, Part: c.n,
		List: "messages", Parts: "content", Item: c.messageIndex, At: c.blockIndex, Nested: c.nestedIndex,
	}
	c.beginPart()
	switch {
	case b.kind == blockDocument:
		place.Member = "source.data"
		c.w.WriteString(`{"type":"file","file":{"filename":"document.pdf","file_data":`)
		c.writeDataURL(b)
	case b.source[sourceTypeIndex].EqualText("url"):
		place.Member = "source.url"
		c.w.WriteRaw(`{"type":"image_url","image_url":{"url":`, b.source[sourceURLIndex])
	default:
		place.Member = "source.data"
		c.w.WriteString(`{"type":"image_url","image_url":{"url":`)
		c.writeDataURL(b)
	}
	c.w.WriteString(`}}`)
	if b.nested {
		place.Member = "source.content"
	}
	*c.images = append(*c.images, place)
}

func (c *contentWriter) writeDataURL(b *contentBlock) {
	c.w.Out = append(append(c.w.Out, `"data:`...), b.source[sourceMediaTypeIndex].RawContents()...)
	c.w.Out = append(append(c.w.Out, `;base64,`...), b.source[sourceDataIndex].RawContents()...)
	c.w.WriteString(`"`)
}
