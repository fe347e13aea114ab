package fleet

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
)

// These constants limit the size of a reply. The largest replies contain all keys in the store, or
// the usage rows of one day. The limits allow 130,000 keys with entries of 500 bytes.
const (
	maxBulk = 8 << 20  // bytes of one string
	maxLine = 64 << 10 // bytes of one line
	// Maximum number of elements in all arrays of a reply; a map entry counts as two.
	maxElements = 1 << 18
	maxReply    = 64 << 20 // bytes of one reply
	maxNesting  = 16
)

var (
	errReplyForm    = errors.New("the store sent something that is not a reply")
	errReplyBulk    = errors.New("a string of the store's reply is too long")
	errReplyLine    = errors.New("a line of the store's reply is too long")
	errReplyCount   = errors.New("the store's reply has too many elements")
	errReplyNesting = errors.New("the store's reply is nested too deep")
	errReplySize    = errors.New("the store's reply is too long")
)

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
	return bound(c), nil
}

// boundedConn is a connection to the store. It validates replies before the client reads them.
//
// The client allocates memory for the length that a reply announces, before the data has arrived.
// boundedConn therefore closes the connection when an announced length exceeds a limit. An
// unsolicited reply would make the client panic, so boundedConn closes the connection before the
// client has the complete reply.
type boundedConn struct {
	net.Conn
	form  replyForm
	err   error
	sent  replyForm // checks commands, which have the same format as replies
	asked asked
}

func bound(c net.Conn) *boundedConn {
	b := &boundedConn{Conn: c}
	b.form.ended, b.form.kept = b.asked.hear, 3
	b.sent.ended, b.sent.kept = b.asked.ask, 2
	return b
}

// Write counts the commands, and then sends them. This order is needed because a reply may arrive
// immediately. The client calls Write from only one goroutine at a time.
func (c *boundedConn) Write(p []byte) (int, error) {
	if _, err := c.sent.scan(p); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Read reads and validates replies. The client calls Read from only one goroutine at a time.
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

// replyForm parses replies in RESP2 and RESP3 byte by byte. It stores only the first few bytes of
// their content.
type replyForm struct {
	next     replyPart
	kind     byte
	line     int
	number   int // number that the current line announces
	negative bool
	streamed bool // whether the line announces '?', so that elements follow until an end marker
	cr       bool
	left     int
	parents  [maxNesting]parent
	depth    int
	elements int
	bytes    int

	// Called when a reply is complete, before the client gets the last byte of the reply.
	ended   func(*replyForm) error
	top     byte
	members int
	kept    int      // number of elements whose first bytes are stored in word
	word    [48]byte // first bytes of a string, or of the first elements of an array
	letters int
	ends    [3]int
	spaces  int // number of spaces in a string, or in the last stored element
}

// member returns the first bytes of a stored element. If the reply is a string, member 0 is that
// string.
func (f *replyForm) member(n int) string {
	switch {
	case f.members == 0 && n == 0:
		return string(f.word[:f.letters])
	case n >= min(f.members, f.kept):
		return ""
	case n == 0:
		return string(f.word[:f.ends[0]])
	}
	return string(f.word[f.ends[n-1]:f.ends[n]])
}

// replyPart is the part of a reply to which the next byte belongs.
type replyPart uint8

const (
	partKind replyPart = iota
	partText
	partNumber
	partLineEnd
	partString
	partCR
	partLF
	partChunk // the type byte of a chunk of a streamed string
)

type parent struct {
	left  int  // number of elements that remain, or streaming
	pairs bool // whether the aggregate is a map or an attribute
	// Whether it is an attribute, which describes the value after it and is not itself a value.
	attribute bool
	odd       bool // whether the number of elements so far is odd; used only if streaming
}

const streaming = -1

// scan parses p, and returns how many of its bytes are valid. The error describes the first invalid
// byte.
func (f *replyForm) scan(p []byte) (int, error) {
	for i := 0; i < len(p); {
		if f.next == partString { // string has checked that the length does not exceed maxReply
			n := min(f.left, len(p)-i)
			f.keep(p[i : i+n])
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

func (f *replyForm) begin(kind byte) {
	f.kind, f.next = kind, partNumber
	f.line, f.number, f.negative, f.streamed = 0, 0, false, false
}

func (f *replyForm) begins(kind byte) error {
	if f.depth == 0 {
		f.top, f.members, f.letters, f.spaces = kind, 0, 0, 0
	}
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
	if f.cr { // the previous CR was not followed by LF
		f.keep([]byte{'\r'})
	}
	if f.cr = b == '\r'; !f.cr {
		f.keep([]byte{b})
	}
	if f.line++; f.line > maxLine {
		return errReplyLine
	}
	return nil
}

// keep stores bytes of a string in word. A string longer than word cannot match a known name.
func (f *replyForm) keep(p []byte) {
	if f.depth > 1 || f.members >= f.kept {
		return
	}
	f.letters += copy(f.word[f.letters:], p)
	f.spaces += bytes.Count(p, []byte{' '})
}

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

// fits checks an announced length digit by digit, even before the line is complete.
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

func (f *replyForm) announced() error {
	null := f.negative
	if null && (f.number != 1 || f.kind == '%' || f.kind == '|' || f.kind == ';') {
		return errReplyForm
	}
	if null && f.depth == 0 {
		f.top = '_' // the client does not distinguish the types of null
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

func (f *replyForm) string() error {
	if f.bytes+f.number > maxReply {
		return errReplySize
	}
	if f.left, f.next = f.number, partString; f.left == 0 {
		f.next = partCR
	}
	return nil
}

func (f *replyForm) stringEnd() error {
	switch f.kind {
	case ';':
		f.next = partChunk
		return nil
	case '.':
		f.depth--
		p := f.parents[f.depth]
		if p.pairs && p.odd {
			return errReplyForm
		}
		return f.end(p.attribute)
	}
	return f.end(false)
}

func (f *replyForm) open() error {
	p := parent{left: f.number, attribute: f.kind == '|'}
	if p.pairs = f.kind == '%' || p.attribute; p.pairs {
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

func (f *replyForm) end(attribute bool) error {
	f.next = partKind
	for !attribute {
		if f.depth == 0 {
			f.elements, f.bytes = 0, 0
			return f.ended(f)
		}
		if f.depth == 1 {
			if f.members < f.kept {
				f.ends[f.members] = f.letters
			}
			if f.members++; f.members < f.kept {
				f.spaces = 0
			}
		}
		p := &f.parents[f.depth-1]
		if p.left == streaming {
			p.odd = !p.odd
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
