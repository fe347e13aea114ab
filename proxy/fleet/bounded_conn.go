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
	maxStringBytes = 8 << 20  // bytes of one string
	maxLineBytes   = 64 << 10 // bytes of one line
	// Maximum total number of elements in a reply's arrays; a map entry counts as two elements.
	maxElements   = 1 << 18
	maxReplyBytes = 64 << 20 // bytes of one reply
	maxNesting    = 16
)

var (
	errNotReply             = errors.New("the store sent something that is not a reply")
	errReplyStringTooLong   = errors.New("a string of the store's reply is too long")
	errReplyLineTooLong     = errors.New("a line of the store's reply is too long")
	errTooManyReplyElements = errors.New("the store's reply has too many elements")
	errReplyTooDeep         = errors.New("the store's reply is nested too deep")
	errReplyTooLong         = errors.New("the store's reply is too long")
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
	return newBoundedConn(c), nil
}

// boundedConn is a connection to the store. It validates replies before the client reads them.
//
// The client allocates memory for the length that a reply announces, before the data has arrived.
// boundedConn therefore closes the connection when an announced length exceeds a limit. An
// unsolicited reply would make the client panic, so boundedConn closes the connection before the
// client has the complete reply.
type boundedConn struct {
	net.Conn
	replies  replyParser
	err      error
	commands replyParser // checks commands, which have the same format as replies
	matcher  replyMatcher
}

func newBoundedConn(c net.Conn) *boundedConn {
	b := &boundedConn{Conn: c}
	b.replies.onReply, b.replies.keptMembers = b.matcher.countReply, 3
	b.commands.onReply, b.commands.keptMembers = b.matcher.expectReplies, 2
	return b
}

// Write counts the commands, and then sends them. This order is needed because a reply may arrive
// immediately. The client calls Write from only one goroutine at a time.
func (c *boundedConn) Write(p []byte) (int, error) {
	if _, err := c.commands.parse(p); err != nil {
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
	if good, bad := c.replies.parse(p[:n]); bad != nil {
		c.err = bad
		return good, bad
	}
	return n, err
}

// replyParser parses replies in RESP2 and RESP3 byte by byte. It stores only the first few bytes of
// their content.
type replyParser struct {
	nextPart        replyPart
	typeByte        byte
	lineBytes       int
	announcedNumber int // number that the current line announces
	isNegative      bool
	isStreamed      bool // whether the line announces '?', which means that elements follow until an end marker
	sawCR           bool
	bytesLeft       int
	parents         [maxNesting]pendingAggregate
	nestingDepth    int
	elementCount    int
	byteCount       int

	// Called when a reply is complete, before the client gets the last byte of the reply.
	onReply     func(*replyParser) error
	topType     byte
	memberCount int
	keptMembers int      // number of elements whose first bytes are stored in prefix
	prefix      [48]byte // first bytes of a string, or of the first elements of an array
	prefixLen   int
	memberEnds  [3]int
	spaceCount  int // number of spaces in the string, or in the last element stored in prefix
}

// memberPrefix returns the first bytes of a stored element. If the reply is a string, member 0 is
// that string.
func (f *replyParser) memberPrefix(n int) string {
	switch {
	case f.memberCount == 0 && n == 0:
		return string(f.prefix[:f.prefixLen])
	case n >= min(f.memberCount, f.keptMembers):
		return ""
	case n == 0:
		return string(f.prefix[:f.memberEnds[0]])
	}
	return string(f.prefix[f.memberEnds[n-1]:f.memberEnds[n]])
}

// replyPart is the part of a reply to which the next byte belongs.
type replyPart uint8

const (
	partTypeByte replyPart = iota
	partText
	partNumber
	partLineEnd
	partString
	partCR
	partLF
	partChunk // the type byte of a chunk of a streamed string
)

type pendingAggregate struct {
	elementsLeft int  // number of elements still to come, or the constant streaming
	hasPairs     bool // whether the aggregate is a map or an attribute
	// Whether the aggregate is an attribute: it describes the value after it and is not a value
	// itself.
	isAttribute bool
	hasOddCount bool // whether the number of elements so far is odd; used only if streaming
}

const streamedLength = -1

// parse parses p, and returns how many of its bytes are valid. The error describes the first
// invalid byte.
func (f *replyParser) parse(p []byte) (int, error) {
	for i := 0; i < len(p); {
		if f.nextPart == partString { // the string's length has already been checked against maxReplyBytes
			n := min(f.bytesLeft, len(p)-i)
			f.keepPrefix(p[i : i+n])
			f.bytesLeft -= n
			f.byteCount += n
			i += n
			if f.bytesLeft == 0 {
				f.nextPart = partCR
			}
			continue
		}
		f.byteCount++
		if f.byteCount > maxReplyBytes {
			return i, errReplyTooLong
		}
		if err := f.parseByte(p[i]); err != nil {
			return i, err
		}
		i++
	}
	return len(p), nil
}

func (f *replyParser) parseByte(b byte) error {
	switch f.nextPart {
	case partText:
		return f.parseText(b)
	case partNumber:
		return f.parseDigit(b)
	case partLineEnd:
		if b != '\n' {
			return errNotReply
		}
		return f.finishLength()
	case partCR:
		if b != '\r' {
			return errNotReply
		}
		f.nextPart = partLF
	case partLF:
		if b != '\n' {
			return errNotReply
		}
		return f.endString()
	case partChunk:
		if b != ';' {
			return errNotReply
		}
		f.beginNumber(b)
	default:
		return f.beginValue(b)
	}
	return nil
}

func (f *replyParser) beginNumber(kind byte) {
	f.typeByte, f.nextPart = kind, partNumber
	f.lineBytes, f.announcedNumber, f.isNegative, f.isStreamed = 0, 0, false, false
}

func (f *replyParser) beginValue(kind byte) error {
	if f.nestingDepth == 0 {
		f.topType, f.memberCount, f.prefixLen, f.spaceCount = kind, 0, 0, 0
	}
	switch kind {
	case '+', '-', ':', ',', '(':
		f.typeByte, f.nextPart, f.lineBytes, f.sawCR = kind, partText, 0, false
	case '$', '!', '=', '*', '~', '>', '%', '|':
		f.beginNumber(kind)
	case '#':
		f.typeByte, f.nextPart, f.bytesLeft = kind, partString, 1
	case '_':
		f.typeByte, f.nextPart = kind, partCR
	case '.':
		if f.nestingDepth == 0 || f.parents[f.nestingDepth-1].elementsLeft != streamedLength {
			return errNotReply
		}
		f.typeByte, f.nextPart = kind, partCR
	default:
		return errNotReply
	}
	return nil
}

func (f *replyParser) parseText(b byte) error {
	if b == '\n' {
		if !f.sawCR {
			return errNotReply
		}
		return f.endValue(false)
	}
	if f.sawCR { // the previous CR was not followed by LF
		f.keepPrefix([]byte{'\r'})
	}
	if f.sawCR = b == '\r'; !f.sawCR {
		f.keepPrefix([]byte{b})
	}
	if f.lineBytes++; f.lineBytes > maxLineBytes {
		return errReplyLineTooLong
	}
	return nil
}

// keepPrefix stores the first bytes of a string in prefix. A string longer than prefix cannot
// match a known name.
func (f *replyParser) keepPrefix(p []byte) {
	if f.nestingDepth > 1 || f.memberCount >= f.keptMembers {
		return
	}
	f.prefixLen += copy(f.prefix[f.prefixLen:], p)
	f.spaceCount += bytes.Count(p, []byte{' '})
}

func (f *replyParser) parseDigit(b byte) error {
	f.lineBytes++
	switch {
	case b == '\r' && (f.lineBytes > 2 || f.lineBytes == 2 && !f.isNegative):
		f.nextPart = partLineEnd
	case f.lineBytes == 1 && b == '-':
		f.isNegative = true
	case f.lineBytes == 1 && b == '?':
		f.isStreamed = true
	case b >= '0' && b <= '9' && !f.isStreamed && f.lineBytes < 20:
		f.announcedNumber = 10*f.announcedNumber + int(b-'0')
		return f.checkLength()
	default:
		return errNotReply
	}
	return nil
}

// checkLength checks an announced length digit by digit, even before the line is complete.
func (f *replyParser) checkLength() error {
	switch f.typeByte {
	case '$', '!', '=', ';':
		if f.announcedNumber > maxStringBytes {
			return errReplyStringTooLong
		}
	default:
		if f.announcedNumber > maxElements {
			return errTooManyReplyElements
		}
	}
	return nil
}

func (f *replyParser) finishLength() error {
	null := f.isNegative
	if null && (f.announcedNumber != 1 || f.typeByte == '%' || f.typeByte == '|' || f.typeByte == ';') {
		return errNotReply
	}
	if null && f.nestingDepth == 0 {
		f.topType = '_' // the client does not distinguish the types of null
	}
	switch f.typeByte {
	case '$', '!', '=':
		switch {
		case null:
			return f.endValue(false)
		case f.isStreamed:
			f.nextPart = partChunk
			return nil
		}
		return f.beginString()
	case ';':
		switch {
		case f.isStreamed:
			return errNotReply
		case f.announcedNumber == 0:
			return f.endValue(false)
		}
		return f.beginString()
	}
	if null {
		return f.endValue(false)
	}
	return f.openAggregate()
}

func (f *replyParser) beginString() error {
	if f.byteCount+f.announcedNumber > maxReplyBytes {
		return errReplyTooLong
	}
	if f.bytesLeft, f.nextPart = f.announcedNumber, partString; f.bytesLeft == 0 {
		f.nextPart = partCR
	}
	return nil
}

func (f *replyParser) endString() error {
	switch f.typeByte {
	case ';':
		f.nextPart = partChunk
		return nil
	case '.':
		f.nestingDepth--
		p := f.parents[f.nestingDepth]
		if p.hasPairs && p.hasOddCount {
			return errNotReply
		}
		return f.endValue(p.isAttribute)
	}
	return f.endValue(false)
}

func (f *replyParser) openAggregate() error {
	p := pendingAggregate{elementsLeft: f.announcedNumber, isAttribute: f.typeByte == '|'}
	if p.hasPairs = f.typeByte == '%' || p.isAttribute; p.hasPairs {
		p.elementsLeft *= 2
	}
	if f.isStreamed {
		p.elementsLeft = streamedLength
	}
	if p.elementsLeft == 0 {
		return f.endValue(p.isAttribute)
	}
	if f.elementCount += max(p.elementsLeft, 0); f.elementCount > maxElements {
		return errTooManyReplyElements
	}
	if f.nestingDepth == maxNesting {
		return errReplyTooDeep
	}
	f.parents[f.nestingDepth] = p
	f.nestingDepth++
	f.nextPart = partTypeByte
	return nil
}

func (f *replyParser) endValue(attribute bool) error {
	f.nextPart = partTypeByte
	for !attribute {
		if f.nestingDepth == 0 {
			f.elementCount, f.byteCount = 0, 0
			return f.onReply(f)
		}
		if f.nestingDepth == 1 {
			if f.memberCount < f.keptMembers {
				f.memberEnds[f.memberCount] = f.prefixLen
			}
			if f.memberCount++; f.memberCount < f.keptMembers {
				f.spaceCount = 0
			}
		}
		p := &f.parents[f.nestingDepth-1]
		if p.elementsLeft == streamedLength {
			p.hasOddCount = !p.hasOddCount
			if f.elementCount++; f.elementCount > maxElements {
				return errTooManyReplyElements
			}
			return nil
		}
		if p.elementsLeft--; p.elementsLeft > 0 {
			return nil
		}
		f.nestingDepth--
		attribute = p.isAttribute
	}
	return nil
}
