package jsonx

// Cursor reads a document once, from start to end, without a tape, for a caller that knows which
// members it wants. It is designed for the documents that programs usually write. It rejects other
// documents, even valid ones, if they have non-ASCII or escaped names, escapes for half a surrogate
// pair, containers nested in more than 16 others, or more than MaxMembers members and elements in
// total. Doc.Parse, with Options.Paired, accepts every document that a Cursor accepts. Parse a
// rejected document with a Doc, which reports the errors.
//
// The source must not change while the cursor is in use. A Cursor does not allocate.
type Cursor struct {
	src     []byte
	at      int
	left    int // members and elements that may still follow
	refused bool
}

const cursorDepth = 16

// NewCursor returns a cursor at the start of src.
func NewCursor(src []byte) Cursor { return Cursor{src: src, left: MaxMembers} }

// At returns the offset after the last byte that was read.
func (c *Cursor) At() int { return c.at }

// Jump moves the cursor to the given offset. The caller must already have validated the text before
// the offset. Members before the offset do not count against MaxMembers.
func (c *Cursor) Jump(at int) { c.at = at }

// Refuse makes the cursor reject the document.
func (c *Cursor) Refuse() { c.at, c.refused = len(c.src), true }

// Done reports whether the whole document was read and accepted.
func (c *Cursor) Done() bool { return !c.refused && skipSpace(c.src, c.at) >= len(c.src) }

// Peek returns the next byte that is not whitespace, or 0 at the end.
func (c *Cursor) Peek() byte {
	if c.at = skipSpace(c.src, c.at); c.at < len(c.src) {
		return c.src[c.at]
	}
	return 0
}

// Skip reads the given bracket. It must be the next byte after whitespace.
func (c *Cursor) Skip(bracket byte) {
	if c.Peek() != bracket {
		c.Refuse()
		return
	}
	c.at++
}

// First enters an object, which must be the next value, and returns the name of its first member.
// It returns false if the object is empty or the document is rejected.
func (c *Cursor) First() (name []byte, ok bool) {
	c.Skip('{')
	if c.Peek() == '}' {
		c.at++
		return nil, false
	}
	return c.name()
}

// Next returns the name of the next member. The caller must have read the previous value. At the
// end of the object, Next leaves the object and returns false. It also returns false if the
// document is rejected.
func (c *Cursor) Next() (name []byte, ok bool) {
	if c.at < len(c.src) && c.src[c.at] == ',' {
		c.at++
		return c.name()
	}
	switch c.Peek() {
	case ',':
		c.at++
		return c.name()
	case '}':
		c.at++
	default:
		c.Refuse()
	}
	return nil, false
}

func (c *Cursor) name() (name []byte, ok bool) {
	if s := c.src[c.at:]; len(s) > 34 && s[0] == '"' && c.left > 0 {
		if n := plain32((*[32]byte)(s[1:])); s[n+1] == '"' && s[n+2] == ':' { // the name is short, and no spaces follow
			c.at += n + 3
			c.left--
			return s[1 : n+1], true
		}
	}
	if c.left--; c.left < 0 || c.Peek() != '"' {
		c.Refuse()
		return nil, false
	}
	from := c.at + 1
	end, flags, reason := scanString(c.src, from)
	if reason != "" || flags != 0 {
		c.Refuse()
		return nil, false
	}
	if c.at = end; c.Peek() != ':' {
		c.Refuse()
		return nil, false
	}
	c.at++
	return c.src[from : end-1], true
}

// Value reads the next value and returns its text, or nil if the document is rejected.
func (c *Cursor) Value() []byte {
	c.Peek()
	start := c.at
	if c.value(cursorDepth); c.refused {
		return nil
	}
	return c.src[start:c.at]
}

// Digits reads an unsigned whole number of at most 15 digits. If a fraction or an exponent follows,
// the next read rejects the document.
func (c *Cursor) Digits() (n int) {
	c.Peek()
	s, i := c.src, c.at
	for ; i < len(s) && s[i]-'0' <= 9; i++ {
		n = n*10 + int(s[i]-'0')
	}
	if i == c.at || i > c.at+15 || i > c.at+1 && s[c.at] == '0' {
		c.Refuse()
		return 0
	}
	c.at = i
	return n
}

// String reads the next string. It returns the string's text, quotes included, and whether the text
// contains escapes. It returns nil for any other value.
func (c *Cursor) String() (raw []byte, escaped bool) {
	if c.Peek() != '"' {
		c.Refuse()
		return nil, false
	}
	start := c.at
	end, flags, reason := scanString(c.src, start+1)
	if reason != "" || flags&flagLone != 0 {
		c.Refuse()
		return nil, false
	}
	c.at = end
	return c.src[start:end], flags&flagEscaped != 0
}

func (c *Cursor) value(depth int) {
	switch b := c.Peek(); b {
	case '"':
		c.String()
	case 'n':
		c.literal("null")
	case 't':
		c.literal("true")
	case 'f':
		c.literal("false")
	case '{':
		if depth == 0 {
			c.Refuse()
			return
		}
		for _, ok := c.First(); ok; _, ok = c.Next() {
			c.value(depth - 1)
		}
	case '[':
		if depth == 0 {
			c.Refuse()
			return
		}
		c.elements(depth - 1)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		end, _, ok := scanNumber(c.src, c.at)
		if c.at = end; !ok {
			c.Refuse()
		}
	default:
		c.Refuse()
	}
}

func (c *Cursor) elements(depth int) {
	c.at++
	if c.Peek() == ']' {
		c.at++
		return
	}
	for c.left--; c.left >= 0; c.left-- {
		c.value(depth)
		switch c.Peek() {
		case ',':
			c.at++
		case ']':
			c.at++
			return
		default:
			c.Refuse()
			return
		}
	}
	c.Refuse()
}

func (c *Cursor) literal(word string) {
	if end := c.at + len(word); end <= len(c.src) && string(c.src[c.at:end]) == word {
		c.at = end
		return
	}
	c.Refuse()
}
