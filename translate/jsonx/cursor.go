package jsonx

// Cursor reads a document once, from start to end, without a tape, for a caller that knows which
// members it wants. It is designed for the documents that programs usually write. It rejects
// other documents, even valid ones, if they contain:
//   - non-ASCII or escaped names,
//   - escapes for half a surrogate pair,
//   - containers nested in more than 16 others, or
//   - more than MaxMembers members and elements in total.
//
// Doc.Parse, with Options.Paired, accepts every document that a Cursor accepts. If a Cursor
// rejects a document, parse the document with a Doc, which reports the errors.
//
// The source must not change while the cursor is in use. A Cursor does not allocate.
type Cursor struct {
	src          []byte
	pos          int
	childrenLeft int // members and elements that may still follow
	rejected     bool
}

const maxCursorDepth = 16

// NewCursor returns a cursor at the start of src.
func NewCursor(src []byte) Cursor { return Cursor{src: src, childrenLeft: MaxMembers} }

// Offset returns the offset after the last byte that was read.
func (c *Cursor) Offset() int { return c.pos }

// Jump moves the cursor to the given offset. The caller must already have validated the text before
// the offset. Members before the offset do not count against MaxMembers.
func (c *Cursor) Jump(at int) { c.pos = at }

// Reject makes the cursor reject the document.
func (c *Cursor) Reject() { c.pos, c.rejected = len(c.src), true }

// IsAccepted reports whether the whole document was read and accepted.
func (c *Cursor) IsAccepted() bool { return !c.rejected && skipSpace(c.src, c.pos) >= len(c.src) }

// Peek returns the next byte that is not whitespace, or 0 at the end.
func (c *Cursor) Peek() byte {
	if c.pos = skipSpace(c.src, c.pos); c.pos < len(c.src) {
		return c.src[c.pos]
	}
	return 0
}

// ReadBracket reads the given bracket, which must be the next byte that is not whitespace.
func (c *Cursor) ReadBracket(bracket byte) {
	if c.Peek() != bracket {
		c.Reject()
		return
	}
	c.pos++
}

// FirstMember enters an object, which must be the next value, and returns the name of its first
// member. It returns false if the object is empty or the document is rejected.
func (c *Cursor) FirstMember() (name []byte, ok bool) {
	c.ReadBracket('{')
	if c.Peek() == '}' {
		c.pos++
		return nil, false
	}
	return c.readName()
}

// NextMember returns the name of the next member. The caller must have read the previous value. At
// the end of the object, NextMember leaves the object and returns false. It also returns false if
// the document is rejected.
func (c *Cursor) NextMember() (name []byte, ok bool) {
	if c.pos < len(c.src) && c.src[c.pos] == ',' {
		c.pos++
		return c.readName()
	}
	switch c.Peek() {
	case ',':
		c.pos++
		return c.readName()
	case '}':
		c.pos++
	default:
		c.Reject()
	}
	return nil, false
}

func (c *Cursor) readName() (name []byte, ok bool) {
	if s := c.src[c.pos:]; len(s) > 34 && s[0] == '"' && c.childrenLeft > 0 {
		// The name is short, and no spaces follow.
		if n := findSpecial32((*[32]byte)(s[1:])); s[n+1] == '"' && s[n+2] == ':' {
			c.pos += n + 3
			c.childrenLeft--
			return s[1 : n+1], true
		}
	}
	if c.childrenLeft--; c.childrenLeft < 0 || c.Peek() != '"' {
		c.Reject()
		return nil, false
	}
	from := c.pos + 1
	end, flags, reason := scanString(c.src, from)
	if reason != "" || flags != 0 {
		c.Reject()
		return nil, false
	}
	if c.pos = end; c.Peek() != ':' {
		c.Reject()
		return nil, false
	}
	c.pos++
	return c.src[from : end-1], true
}

// ReadValue reads the next value and returns its text, or nil if the document is rejected.
func (c *Cursor) ReadValue() []byte {
	c.Peek()
	start := c.pos
	if c.skipValue(maxCursorDepth); c.rejected {
		return nil
	}
	return c.src[start:c.pos]
}

// ReadUint reads an unsigned whole number of at most 15 digits. If a fraction or an exponent
// follows, the next read rejects the document.
func (c *Cursor) ReadUint() (n int) {
	c.Peek()
	s, i := c.src, c.pos
	for ; i < len(s) && s[i]-'0' <= 9; i++ {
		n = n*10 + int(s[i]-'0')
	}
	if i == c.pos || i > c.pos+15 || i > c.pos+1 && s[c.pos] == '0' {
		c.Reject()
		return 0
	}
	c.pos = i
	return n
}

// ReadString reads the next string. It returns the string's text, quotes included, and whether the text
// contains escapes. It returns nil for any other value.
func (c *Cursor) ReadString() (raw []byte, escaped bool) {
	if c.Peek() != '"' {
		c.Reject()
		return nil, false
	}
	start := c.pos
	end, flags, reason := scanString(c.src, start+1)
	if reason != "" || flags&flagLoneSurrogate != 0 {
		c.Reject()
		return nil, false
	}
	c.pos = end
	return c.src[start:end], flags&flagEscaped != 0
}

func (c *Cursor) skipValue(depth int) {
	switch b := c.Peek(); b {
	case '"':
		c.ReadString()
	case 'n':
		c.readLiteral("null")
	case 't':
		c.readLiteral("true")
	case 'f':
		c.readLiteral("false")
	case '{':
		if depth == 0 {
			c.Reject()
			return
		}
		for _, ok := c.FirstMember(); ok; _, ok = c.NextMember() {
			c.skipValue(depth - 1)
		}
	case '[':
		if depth == 0 {
			c.Reject()
			return
		}
		c.skipElements(depth - 1)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		end, _, ok := scanNumber(c.src, c.pos)
		if c.pos = end; !ok {
			c.Reject()
		}
	default:
		c.Reject()
	}
}

func (c *Cursor) skipElements(depth int) {
	c.pos++
	if c.Peek() == ']' {
		c.pos++
		return
	}
	for c.childrenLeft--; c.childrenLeft >= 0; c.childrenLeft-- {
		c.skipValue(depth)
		switch c.Peek() {
		case ',':
			c.pos++
		case ']':
			c.pos++
			return
		default:
			c.Reject()
			return
		}
	}
	c.Reject()
}

func (c *Cursor) readLiteral(word string) {
	if end := c.pos + len(word); end <= len(c.src) && string(c.src[c.pos:end]) == word {
		c.pos = end
		return
	}
	c.Reject()
}
