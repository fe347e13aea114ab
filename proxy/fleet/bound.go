package fleet

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
)

// The limits on one reply. The largest replies hold all keys of the store, or the rows of a day.
// The limits leave room for 130,000 keys with entries of 500 bytes.
const (
	maxBulk     = 8 << 20  // bytes of one string
	maxLine     = 64 << 10 // bytes of one line
	maxElements = 1 << 18  // elements in all arrays of a reply; a pair of a map counts as two
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

// dialBounded opens a connection that limits the size of replies.
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

// boundedConn is a connection to the store. The client allocates memory for the length that a reply
// announces, before it has received the data. So if a reply exceeds a limit, boundedConn ends the
// connection before the client sees the announced number. An unsolicited reply would make the
// client panic, so boundedConn also ends the connection before the client has received such a reply
// completely.
type boundedConn struct {
	net.Conn
	form  replyForm
	err   error
	sent  replyForm // commands have the same format as replies
	asked asked
}

func bound(c net.Conn) *boundedConn {
	b := &boundedConn{Conn: c}
	b.form.ended, b.form.kept = b.asked.hear, 3
	b.sent.ended, b.sent.kept = b.asked.ask, 2
	return b
}

// Write sends commands. It counts them first, because a reply may be received at once. The client
// calls Write from one goroutine at a time.
func (c *boundedConn) Write(p []byte) (int, error) {
	if _, err := c.sent.scan(p); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Read reads the store's output. The client calls Read from one goroutine at a time.
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

// replyForm parses the format of replies (RESP2 and RESP3) byte by byte. It keeps only the first
// bytes of their content.
type replyForm struct {
	next     replyPart
	kind     byte // the kind of the current value
	line     int  // length of the current line so far
	number   int  // the number that the line announces
	negative bool
	streamed bool // the line announces '?': elements follow until an end mark
	cr       bool // the line's last byte was a CR
	left     int  // remaining bytes of the current string
	parents  [maxNesting]parent
	depth    int
	elements int // number of elements in the whole reply
	bytes    int

	ended   func(*replyForm) error // called with a complete reply before its last byte passes
	top     byte                   // the reply's kind
	members int                    // members read so far, of an array or the like
	kept    int                    // the number of members whose beginnings are kept
	word    [48]byte               // the beginning of a string, or of an array's first members
	letters int
	ends    [3]int // the ends of the members in word
	spaces  int    // number of spaces in a string, or in the last of those members
}

// member returns the first bytes of one of the first members, or of a string outside an array.
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

// replyPart tells what the next byte of a reply belongs to.
type replyPart uint8

const (
	partKind    replyPart = iota
	partText              // a line up to its end
	partNumber            // a line that announces a length
	partLineEnd           // the \n that ends a line
	partString            // the remaining bytes of a string
	partCR
	partLF
	partChunk // the kind byte of a chunk of a streamed string
)

// parent is an array, a map or a similar value whose elements are being read.
type parent struct {
	left      int  // remaining elements; if streaming, elements follow until the end mark
	pairs     bool // a map or an attribute
	attribute bool // describes the value that follows it, and is no value itself
	odd       bool // streaming: the number of elements so far is odd
}

const streaming = -1

// scan parses bytes. It returns the number of valid bytes, and an error for the next byte if that
// byte is invalid.
func (f *replyForm) scan(p []byte) (int, error) {
	for i := 0; i < len(p); {
		if f.next == partString { // the length has been checked against the reply's limit
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

// begin starts a line that announces a length.
func (f *replyForm) begin(kind byte) {
	f.kind, f.next = kind, partNumber
	f.line, f.number, f.negative, f.streamed = 0, 0, false, false
}

// begins handles the first byte of a value.
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
	if f.cr { // the previous CR did not end the line
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

// keep stores bytes of a string. A string that is longer than word matches no known word.
func (f *replyForm) keep(p []byte) {
	if f.depth > 1 || f.members >= f.kept {
		return
	}
	f.letters += copy(f.word[f.letters:], p)
	f.spaces += bytes.Count(p, []byte{' '})
}

// digit handles a byte of a length: a digit, the sign of -1, or a ?.
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

// fits checks a length by the digits that have been received so far.
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

// announced handles the end of a line with a length.
func (f *replyForm) announced() error {
	null := f.negative
	if null && (f.number != 1 || f.kind == '%' || f.kind == '|' || f.kind == ';') {
		return errReplyForm
	}
	if null && f.depth == 0 {
		f.top = '_' // the client also treats every kind of null alike
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

// string prepares for the bytes of a string.
func (f *replyForm) string() error {
	if f.bytes+f.number > maxReply {
		return errReplySize
	}
	if f.left, f.next = f.number, partString; f.left == 0 {
		f.next = partCR
	}
	return nil
}

// stringEnd handles the \r\n of a string, or the end of a value of fixed length.
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

// open prepares for the elements of an array or a similar value.
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

// end handles the end of a value or of an attribute.
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
