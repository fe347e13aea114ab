package listen

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net"
	"os"

	"penstock/upstreams/http1/chunked"
	"penstock/upstreams/http1/httptoken"
)

// These are the errors that end a read from a connection.
var (
	// ErrBareLineEnd means that a line of the request headers does not end with CR LF.
	ErrBareLineEnd = errors.New("a line of the head does not end in CR LF")
	// ErrEmptyLines means that more than maxEmptyLines empty lines precede a request.
	ErrEmptyLines = errors.New("too many empty lines before a request")
	// ErrNotHTTP means that the first byte of a request cannot start a method, so the client uses
	// TLS or another protocol.
	ErrNotHTTP = errors.New("the bytes do not begin like an HTTP request")
	// ErrUnexpectedProxyHeader means that the connection starts with an unexpected PROXY protocol
	// header.
	ErrUnexpectedProxyHeader = errors.New("the connection begins with a line of the PROXY protocol")
	// ErrHTTP2 means that the client uses HTTP/2 with prior knowledge (RFC 9113, 3.4).
	ErrHTTP2 = errors.New("the client speaks HTTP/2 without negotiation")
	// ErrFraming means that the length of the body is ambiguous, or that its chunks violate
	// chunkExtraLimits. The errors below wrap it.
	ErrFraming = errors.New("the framing of the body is malformed")
	// ErrContentLength means that Content-Length is not a number, or has two values.
	ErrContentLength = fmt.Errorf("%w: Content-Length", ErrFraming)
	// ErrTransferEncoding means that Transfer-Encoding is not chunked, or occurs twice.
	ErrTransferEncoding = fmt.Errorf("%w: Transfer-Encoding", ErrFraming)
	// ErrChunkExtrasTooLarge means that the chunk extensions and trailers exceed maxExtraBytes.
	ErrChunkExtrasTooLarge = fmt.Errorf("%w: extensions and trailers", ErrFraming)
)

// maxStoredLine is how many bytes of a line are stored if the line arrives in multiple reads. The
// lines that matter are shorter.
const maxStoredLine = 64

// maxEmptyLines is how many empty lines may precede a request. It must be lower than limits.header:
// if empty lines fill the buffer, fasthttp treats this as the end of the connection and sends no
// response.
const maxEmptyLines = 256

// chunkExtraLimits are the rules for chunks in requests. A single limit applies to the total size
// of all chunk extensions and trailers. Folded trailers are rejected.
var chunkExtraLimits = chunked.ExtraLimits{
	MaxDigits: 15, MaxExtensions: maxExtraBytes, MaxTrailers: maxExtraBytes, Total: true,
}

// maxExtraBytes is the maximum total size of the chunk extensions and trailers of a body. The edge
// ignores them.
const maxExtraBytes = 16 << 10

// framingChecker checks the framing of requests while they are read. It checks headers line by
// line, chunked bodies with a chunked.Decoder, and other bodies by their length. See doc.go for the
// reasons. A framingChecker belongs to the goroutine that serves the connection.
//
// The checker sees all bytes that the server has buffered. It therefore counts the requests that
// have started, and the server calls SetConnActive for each request that it starts to read. An
// error in a later request does not affect the request that is being served.
type framingChecker struct {
	state           framingState
	isChunked       bool
	hasLength       bool
	needsHeaderScan bool // whether a header line requires a scan by package httpserver
	pendingCR       bool // whether the previous byte was a CR that may end a line
	contentLength   uint64
	bodyLeft        uint64 // number of body bytes that have not arrived yet
	chunks          chunked.Decoder

	lineLength int         // length of the current line so far, without the line end
	lines      *lineStarts // nil before the first request and after releaseLines

	requestsBegun  uint32
	requestsServed uint32 // number of requests that the server has started to read
	emptyLines     uint16 // number of empty lines before the next request
	inHeaders      bool   // whether the headers of the newest request are still incomplete
	headComplete   bool   // whether the headers of the newest request are complete
	requestLineLen uint8  // length of lines.request
	// Whether the client has closed its side or the connection has failed.
	readEnded bool
	err       error
}

// lineStarts are the lines that a framingChecker stores.
type lineStarts struct {
	request [maxStoredLine]byte // the start of the request line
	partial [maxStoredLine]byte // the start of a header line that arrives in multiple reads
}

// framingState describes what the next bytes belong to.
type framingState uint8

const (
	// The checker is off, because no server is serving the connection yet.
	stateOff         framingState = iota
	stateRequestLine              // a request line, which empty lines may precede
	stateHeader
	stateBody    // a body of known length
	stateChunked // a chunked body, including its trailers
)

// checkBytes checks the bytes of one read. If a byte is invalid, only the next read fails, because
// fasthttp sends no response if a read returns both the first byte of a request and an error.
// checkBytes changes bytes only if they precede a request (see recordBareLineEnd).
//
// checkBytes stops at the end of a request, and returns the unchecked bytes after it.
func (f *framingChecker) checkBytes(p []byte) (rest []byte) {
	for len(p) > 0 && f.err == nil && f.state != stateOff {
		if f.state >= stateBody {
			if p = f.skipBody(p); f.state == stateRequestLine {
				return p
			}
			continue
		}
		if f.pendingCR { // the previous byte was a CR
			f.pendingCR = false
			if p[0] != '\n' {
				f.recordBareLineEnd(p)
				return nil
			}
			p = p[1:]
			if f.finishLine(f.storedLine()) {
				return p
			}
			continue
		}
		if c := p[0]; f.state == stateRequestLine && !f.inHeaders && c != '\r' && c != '\n' && !httptoken.IsTokenByte(c) {
			// A TLS ClientHello may contain no line end, so the request starts here.
			f.beginRequest()
			f.err = ErrNotHTTP
			return nil
		}
		if f.lineLength == 0 {
			if n := lineLengthIfPlain(p); n > 0 || n == 0 && f.inHeaders {
				if !f.inHeaders {
					f.beginRequest()
				}
				f.lineLength = n
				ends := f.finishLine(p[:n])
				if p = p[n+2:]; ends {
					return p
				}
				continue
			}
		}
		end := bytes.IndexByte(p, '\n')
		piece := p
		if end >= 0 {
			piece = p[:end]
		}
		if cr := bytes.IndexByte(piece, '\r'); cr >= 0 && cr < len(piece)-1 || end >= 0 && cr < 0 {
			f.recordBareLineEnd(p)
			return nil
		} else if cr >= 0 {
			piece = piece[:cr]
			f.pendingCR = end < 0
		}
		if f.state == stateRequestLine && !f.inHeaders {
			if len(piece) > 0 {
				f.beginRequest()
			} else if f.emptyLines++; f.emptyLines > maxEmptyLines {
				f.err = ErrEmptyLines
				p[0] = 0 // see recordBareLineEnd
				f.beginRequest()
				return nil
			}
		}
		if end < 0 {
			f.storePartialLine(piece)
			return nil
		}
		if f.lineLength > 0 {
			f.storePartialLine(piece)
			piece = f.storedLine()
		} else {
			f.lineLength = len(piece)
		}
		p = p[end+1:]
		if f.finishLine(piece) {
			return p
		}
	}
	return nil
}

// lineLengthIfPlain returns the length of the first line of p without its CR LF. It returns -1 for
// lines with any other control character, and for some lines near the end of p.
func lineLengthIfPlain(p []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for q := p; len(q) > 8; q = q[8:] {
		w := binary.LittleEndian.Uint64(q)
		if controls := (w - ' '*ones) &^ w & highs; controls != 0 { // only the lowest mark is reliable
			n := bits.TrailingZeros64(controls) >> 3
			if q[n] != '\r' || q[n+1] != '\n' {
				return -1
			}
			return len(p) - len(q) + n
		}
	}
	return -1
}

func (f *framingChecker) skipBody(p []byte) []byte {
	if f.state == stateBody {
		n := min(f.bodyLeft, uint64(len(p)))
		if f.bodyLeft -= n; f.bodyLeft == 0 {
			f.state = stateRequestLine
		}
		return p[n:]
	}
	n, err := f.chunks.SkipFraming(p, &chunkExtraLimits)
	// If a request has both Content-Length and chunks, it will be rejected, so its body does not
	// matter.
	if err != nil && f.hasLength {
		f.state, f.bodyLeft = stateBody, math.MaxUint64
		return nil
	}
	if err != nil {
		f.err = ErrFraming
		if errors.Is(err, chunked.ErrTooLarge) {
			f.err = ErrChunkExtrasTooLarge
		}
		return nil
	}
	if p = p[n:]; f.chunks.HasEnded() {
		f.state = stateRequestLine
		return p
	}
	if n := min(f.chunks.PayloadLeft(), int64(len(p))); n > 0 {
		f.chunks.Consume(n)
		p = p[n:]
	}
	return p
}

func (f *framingChecker) storePartialLine(piece []byte) {
	if f.lineLength < maxStoredLine && len(piece) > 0 {
		copy(f.lineBuffer()[f.lineLength:], piece)
	}
	f.lineLength += len(piece)
}

// storedLine returns the stored bytes of the current line.
func (f *framingChecker) storedLine() []byte {
	if f.lineLength == 0 {
		return nil
	}
	return f.lineBuffer()[:min(f.lineLength, maxStoredLine)]
}

// lineBuffer returns the buffer for a line that arrives in multiple reads. Request lines usually
// do, because fasthttp reads the first byte of a request separately.
func (f *framingChecker) lineBuffer() *[maxStoredLine]byte {
	if f.state == stateRequestLine {
		return &f.allocateLineStarts().request
	}
	return &f.allocateLineStarts().partial
}

func (f *framingChecker) allocateLineStarts() *lineStarts {
	if f.lines == nil {
		f.lines = new(lineStarts)
	}
	return f.lines
}

// releaseLines releases the stored lines, which are not needed between two requests.
func (f *framingChecker) releaseLines() {
	if f.lineLength == 0 {
		f.lines, f.requestLineLen = nil, 0
	}
}

// recordBareLineEnd records a line that ends with CR or LF alone. If this line end precedes a
// request, fasthttp would skip it and might send no response. recordBareLineEnd therefore replaces
// it with a byte that cannot start a request.
func (f *framingChecker) recordBareLineEnd(p []byte) {
	f.err = ErrBareLineEnd
	if f.state == stateHeader || f.inHeaders {
		return
	}
	if p[0] == '\r' || p[0] == '\n' {
		p[0] = 0
	}
	f.beginRequest()
}

func (f *framingChecker) beginRequest() {
	f.requestsBegun++
	f.inHeaders, f.emptyLines = true, 0
	f.headComplete, f.needsHeaderScan, f.isChunked, f.hasLength = false, false, false, false
	f.contentLength, f.chunks, f.requestLineLen = 0, chunked.Decoder{}, 0
}

// finishLine handles a complete line. It reports whether the request ends with this line.
func (f *framingChecker) finishLine(line []byte) (ends bool) {
	length := f.lineLength
	f.lineLength = 0
	switch f.state {
	case stateRequestLine:
		if length > 0 {
			f.requestLineLen = uint8(copy(f.allocateLineStarts().request[:], line))
			f.state, f.err = stateHeader, otherProtocolError(line)
		}
	case stateHeader:
		if length == 0 {
			f.inHeaders, f.headComplete = false, true
			f.state = f.stateAfterHeaders()
			return f.state == stateRequestLine
		}
		f.checkHeaderField(line, length)
	}
	return false
}

func otherProtocolError(line []byte) error {
	switch {
	case len(line) < 2 || line[0] != 'P' || line[1] != 'R':
	case string(line) == "PRI * HTTP/2.0":
		return ErrHTTP2
	case bytes.HasPrefix(line, []byte("PROXY TCP")), bytes.HasPrefix(line, []byte("PROXY UNKNOWN")):
		return ErrUnexpectedProxyHeader
	}
	return nil
}

func (f *framingChecker) stateAfterHeaders() framingState {
	switch {
	case f.isChunked:
		return stateChunked
	case f.contentLength > 0:
		f.bodyLeft = f.contentLength
		return stateBody
	}
	return stateRequestLine
}

// checkHeaderField reads the length of the body from a header line. fasthttp checks the remaining
// line, but it accepts folded lines, a space in a name, and any Expect header.
func (f *framingChecker) checkHeaderField(line []byte, length int) {
	blank := bytes.IndexByte(line, ' ')
	f.needsHeaderScan = f.needsHeaderScan || line[0] == '\t' || len(line) < length || blank >= 0 && (blank == 0 || line[blank-1] != ':')
	switch line[0] | 0x20 {
	case 'e':
		f.needsHeaderScan = true
		return
	case 'c', 't':
	default:
		return
	}
	end := bytes.IndexByte(line, ':')
	if end < 0 {
		end = len(line)
	}
	name, value := line[:end], line[min(end+1, len(line)):]
	if httptoken.IsBlank(name[len(name)-1]) {
		name = httptoken.TrimBlanks(name)
	}
	switch {
	case httptoken.EqualFold(name, "content-length"):
		value = httptoken.TrimBlanks(value)
		n, ok := parseContentLength(value)
		if !ok || length > maxStoredLine || f.hasLength && n != f.contentLength {
			f.err = ErrContentLength
		}
		f.hasLength, f.contentLength = true, n
	case httptoken.EqualFold(name, "transfer-encoding"):
		f.needsHeaderScan = true
		value = httptoken.TrimBlanks(value)
		if !bytes.EqualFold(value, []byte("chunked")) || length > maxStoredLine || f.isChunked {
			f.err = ErrTransferEncoding
		}
		f.isChunked = true
	}
}

// parseContentLength returns the value of Content-Length, which must consist of digits and fit into
// 63 bits.
func parseContentLength(value []byte) (n uint64, ok bool) {
	for _, c := range value {
		if c < '0' || c > '9' || n > math.MaxInt64/10 {
			return 0, false
		}
		n = 10*n + uint64(c-'0')
	}
	return n, len(value) > 0 && n <= math.MaxInt64
}

func (f *framingChecker) enable() {
	if f.state == stateOff {
		f.state = stateRequestLine
	}
}

func (f *framingChecker) beginServing() { f.requestsServed++ }

// recordReadError records a read error, unless a deadline or the edge caused it.
func (f *framingChecker) recordReadError(err error) {
	f.readEnded = f.readEnded || !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed)
}

// isTruncated reports whether the client closed its side before the end of the current request. It
// returns false if the request is malformed.
func (f *framingChecker) isTruncated() bool {
	return f.readEnded && f.err == nil && f.isServingNewest() && (f.inHeaders || f.state > stateRequestLine)
}

func (f *framingChecker) isServingNewest() bool { return f.requestsBegun == f.requestsServed }

func (f *framingChecker) isRequestComplete() bool {
	return f.state == stateRequestLine && !f.inHeaders && f.isServingNewest() || int32(f.requestsBegun-f.requestsServed) > 0
}

func (f *framingChecker) requestPath() []byte {
	if !f.isServingNewest() || f.lines == nil {
		return nil
	}
	line := f.lines.request[:f.requestLineLen]
	if f.state == stateRequestLine && f.inHeaders {
		line = f.storedLine()
	}
	_, rest, _ := bytes.Cut(line, []byte{' '})
	if end := bytes.IndexAny(rest, " ?"); end >= 0 {
		rest = rest[:end]
	}
	return rest
}
