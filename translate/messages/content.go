package messages

import "penstock/translate/dialects"

// content takes what is in the blocks of a message and writes the content of a chat message with
// it: a string, or parts where there are images. A silent one only counts; it is for the first walk
// over blocks, which finds their faults.
type content struct {
	r     *Request
	start int  // where the message began in r.out
	parts bool // an array of parts, not a string
	n     int  // texts or parts written

	silent, skipText, skipImages bool

	texts, images  int // seen, written or not
	from, at, item int // where in the client's body the walk is, for dialects.Image
}

// open begins a message of a role, up to its content.
func (r *Request) open(role string) content {
	start := len(r.out)
	r.separate()
	r.out = append(append(append(r.out, `{"role":"`...), role...), '"')
	w := r.openContent()
	w.start = start
	return w
}

// separate stands in front of every message.
func (r *Request) separate() {
	if r.count > 0 {
		r.out = append(r.out, ',')
	}
	r.count++
}

// openContent begins the content. It is a string until something else is said.
func (r *Request) openContent() content {
	r.out = append(r.out, `,"content":"`...)
	return content{r: r, item: -1}
}

// close ends the content and its message.
func (r *Request) close(w *content) {
	switch {
	case !w.parts:
		r.out = append(r.out, '"')
	case w.n == 0:
		panic("BUG: an array of parts without a part")
	default:
		r.out = append(r.out, ']')
	}
	r.out = append(r.out, '}')
}

// closeOrDrop is close, but takes a message without text back.
func (r *Request) closeOrDrop(w *content) {
	if w.n > 0 {
		r.close(w)
		return
	}
	r.out = r.out[:w.start]
	r.count--
}

// text takes a text, the contents of a JSON string. An empty one is left out: Claude Code writes
// them, and templates stumble over them.
func (w *content) text(contents []byte) {
	if len(contents) == 0 {
		return
	}
	w.texts++
	if w.silent || w.skipText {
		return
	}
	r := w.r
	if w.parts {
		w.part()
		r.out = append(append(r.out, `{"type":"text","text":"`...), contents...)
		r.out = append(r.out, `"}`...)
		return
	}
	if w.n > 0 {
		r.out = append(r.out, `\n`...)
	}
	r.out = append(r.out, contents...)
	w.n++
}

// part stands in front of every part. The first one takes the place of the quote that the content
// began with.
func (w *content) part() {
	r := w.r
	if w.n == 0 {
		r.out[len(r.out)-1] = '['
	} else {
		r.out = append(r.out, ',')
	}
	w.n++
}

// image takes an image that has been read.
func (w *content) image(b *block) {
	w.images++
	if w.silent || w.skipImages {
		return
	}
	r := w.r
	p := dialects.Image{
		Message: r.count - 1, Part: w.n,
		List: "messages", Parts: "content", Item: w.from, At: w.at, Nested: w.item,
	}
	w.part()
	r.out = append(r.out, `{"type":"image_url","image_url":{"url":`...)
	if b.source[sourceType].EqualText("url") {
		p.Member = "source.url"
		r.out = append(r.out, b.source[sourceURL].Raw()...)
	} else {
		p.Member = "source.data"
		r.out = append(append(r.out, `"data:`...), b.source[sourceMediaType].Inside()...)
		r.out = append(append(r.out, `;base64,`...), b.source[sourceData].Inside()...)
		r.out = append(r.out, '"')
	}
	r.out = append(r.out, `}}`...)
	if b.nested {
		p.Member = "source.content"
	}
	r.info.images = append(r.info.images, p)
}
