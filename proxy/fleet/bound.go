package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
)

// The bounds of one reply. The largest that we ask for are all keys of the store and the rows of a
// day: for 130,000 keys with entries of 500 bytes each they fit.
const (
	maxBulk     = 8 << 20  // bytes of one string
	maxLine     = 64 << 10 // bytes of a line
	maxElements = 1 << 18  // of all arrays of a reply; a pair of a map counts as two
	maxReply    = 64 << 20 // bytes
	maxNesting  = 16
)

var (
	errReplyForm    = errors.New("what the store sends is no reply")
	errReplyBulk    = errors.New("a string of the store's reply is too long")
	errReplyLine    = errors.New("a line of the store's reply is too long")
	errReplyCount   = errors.New("the store's reply has too many elements")
	errReplyNesting = errors.New("the store's reply is nested too deep")
	errReplySize    = errors.New("the store's reply is too long")
)

// dialBounded opens a connection whose replies are bounded.
func dialBounded(ctx context.Context, address string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
	var c net.Conn
	var err error
	if t == nil {
		c, err = d.DialContext(ctx, "tcp", address)
	} else {
		c, err = (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, err
	}
	return &boundedConn{Conn: c}, nil
}

// boundedConn is a connection to the store. The client makes room for what a reply announces before
// it has come. So a reply above a bound ends the connection before the client sees its number.
type boundedConn struct {
	net.Conn
	form replyForm
	err  error
}

// Read reads what the store sends. The client calls it from one goroutine at a time.
func (c *boundedConn) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.Conn.Read(p)
	if good, bad := c.form.scan(p[:n]); bad != nil {
		c.err = bad
		return good, bad
	}
	return n, err
}

// replyForm follows the form of replies (RESP2 and RESP3) byte by byte. It holds no byte of them.
type replyForm struct {
	next     replyPart
	kind     byte // of the value that is being read
	line     int  // bytes of the line so far
	number   int  // that the line announces
	negative bool
	streamed bool // the line announces '?': parts follow until one that ends them
	cr       bool // the last byte of the line was one
	left     int  // bytes of the string
	parents  [maxNesting]parent
	depth    int
	elements int // of the whole reply
	bytes    int
}

// replyPart is what the next byte belongs to.
type replyPart uint8

const (
	partKind    replyPart = iota
	partText              // a line up to its end
	partNumber            // a line that announces a length
	partLineEnd           // its \n
	partString            // left bytes
	partCR
	partLF
	partChunk // the kind of a part of a streamed string
)

// parent is an array, a map or the like whose elements are being read.
type parent struct {
	left      int  // elements that have to come; streaming: until one that ends it
	attribute bool // it says something of the value that follows, and is none itself
}

const streaming = -1

// scan follows some bytes. It returns how many of them are good, and why the next one is not.
func (f *replyForm) scan(p []byte) (int, error) {
	for i := 0; i < len(p); {
		if f.next == partString { // the bound of the reply was looked at with its length
			n := min(f.left, len(p)-i)
			f.left -= n
			f.bytes += n
			i += n
			if f.left == 0 {
				f.next = partCR
			}
			continue
		}
		f.bytes++
		if f.bytes > maxReply {
			return i, errReplySize
		}
		if err := f.step(p[i]); err != nil {
			return i, err
		}
		i++
	}
	return len(p), nil
}

func (f *replyForm) step(b byte) error {
	switch f.next {
	case partText:
		return f.text(b)
	case partNumber:
		return f.digit(b)
	case partLineEnd:
		if b != '\n' {
			return errReplyForm
		}
		return f.announced()
	case partCR:
		if b != '\r' {
			return errReplyForm
		}
		f.next = partLF
	case partLF:
		if b != '\n' {
			return errReplyForm
		}
		return f.stringEnd()
	case partChunk:
		if b != ';' {
			return errReplyForm
		}
		f.begin(b)
	default:
		return f.begins(b)
	}
	return nil
}

// begin begins a line that announces a length.
func (f *replyForm) begin(kind byte) {
	f.kind, f.next = kind, partNumber
	f.line, f.number, f.negative, f.streamed = 0, 0, false, false
}

// begins takes the first byte of a value.
func (f *replyForm) begins(kind byte) error {
	switch kind {
	case '+', '-', ':', ',', '(':
		f.kind, f.next, f.line, f.cr = kind, partText, 0, false
	case '$', '!', '=', '*', '~', '>', '%', '|':
		f.begin(kind)
	case '#':
		f.kind, f.next, f.left = kind, partString, 1
	case '_':
		f.kind, f.next = kind, partCR
	case '.':
		if f.depth == 0 || f.parents[f.depth-1].left != streaming {
			return errReplyForm
		}
		f.kind, f.next = kind, partCR
	default:
		return errReplyForm
	}
	return nil
}

func (f *replyForm) text(b byte) error {
	if b == '\n' {
		if !f.cr {
			return errReplyForm
		}
		return f.end(false)
	}
	f.cr = b == '\r'
	if f.line++; f.line > maxLine {
		return errReplyLine
	}
	return nil
}

// digit takes a byte of a length: digits, -1 or ?.
func (f *replyForm) digit(b byte) error {
	f.line++
	switch {
	case b == '\r' && (f.line > 2 || f.line == 2 && !f.negative):
		f.next = partLineEnd
	case f.line == 1 && b == '-':
		f.negative = true
	case f.line == 1 && b == '?':
		f.streamed = true
	case b >= '0' && b <= '9' && !f.streamed && f.line < 20:
		f.number = 10*f.number + int(b-'0')
		return f.fits()
	default:
		return errReplyForm
	}
	return nil
}

// fits looks at a length as far as it is known.
func (f *replyForm) fits() error {
	switch f.kind {
	case '$', '!', '=', ';':
		if f.number > maxBulk {
			return errReplyBulk
		}
	default:
		if f.number > maxElements {
			return errReplyCount
		}
	}
	return nil
}

// announced is called at the end of a line with a length.
func (f *replyForm) announced() error {
	null := f.negative
	if null && (f.number != 1 || f.kind == '%' || f.kind == '|' || f.kind == ';') {
		return errReplyForm
	}
	switch f.kind {
	case '$', '!', '=':
		switch {
		case null:
			return f.end(false)
		case f.streamed:
			f.next = partChunk
			return nil
		}
		return f.string()
	case ';':
		switch {
		case f.streamed:
			return errReplyForm
		case f.number == 0:
			return f.end(false)
		}
		return f.string()
	}
	if null {
		return f.end(false)
	}
	return f.open()
}

// string begins the bytes of a string.
func (f *replyForm) string() error {
	if f.bytes+f.number > maxReply {
		return errReplySize
	}
	if f.left, f.next = f.number, partString; f.left == 0 {
		f.next = partCR
	}
	return nil
}

// stringEnd is called after the \r\n of a string, or of a value of fixed length.
func (f *replyForm) stringEnd() error {
	switch f.kind {
	case ';':
		f.next = partChunk
		return nil
	case '.':
		f.depth--
		return f.end(f.parents[f.depth].attribute)
	}
	return f.end(false)
}

// open begins the elements of an array or the like.
func (f *replyForm) open() error {
	p := parent{left: f.number, attribute: f.kind == '|'}
	if f.kind == '%' || p.attribute {
		p.left *= 2
	}
	if f.streamed {
		p.left = streaming
	}
	if p.left == 0 {
		return f.end(p.attribute)
	}
	if f.elements += max(p.left, 0); f.elements > maxElements {
		return errReplyCount
	}
	if f.depth == maxNesting {
		return errReplyNesting
	}
	f.parents[f.depth] = p
	f.depth++
	f.next = partKind
	return nil
}

// end is called after each value, and after an attribute.
func (f *replyForm) end(attribute bool) error {
	f.next = partKind
	for !attribute {
		if f.depth == 0 {
			f.elements, f.bytes = 0, 0
			return nil
		}
		p := &f.parents[f.depth-1]
		if p.left == streaming {
			if f.elements++; f.elements > maxElements {
				return errReplyCount
			}
			return nil
		}
		if p.left--; p.left > 0 {
			return nil
		}
		f.depth--
		attribute = p.attribute
	}
	return nil
}
