package listen

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strconv"

	"penstock/upstreams/http1/chunked"
	"penstock/upstreams/http1/httptoken"
)

// Errors that reading a request may return.
var (
	// ErrBareLine: a line of the head does not end in CR LF.
	ErrBareLine = errors.New("a line of the head does not end in CR LF")
	// ErrEmptyLines: more than maxEmptyLines empty lines precede a request.
	ErrEmptyLines = errors.New("too many empty lines before a request")
	// ErrNotHTTP: the first byte of a request cannot start a method. The client speaks TLS or
	// another protocol.
	ErrNotHTTP = errors.New("the bytes do not begin like an HTTP request")
	// ErrProxyProtocol: the connection starts with a line of the PROXY protocol.
	ErrProxyProtocol = errors.New("the connection begins with a line of the PROXY protocol")
	// ErrHTTP2: the client speaks HTTP/2 without negotiation (RFC 9113, 3.4).
	ErrHTTP2 = errors.New("the client speaks HTTP/2 without negotiation")
	// ErrFraming: the length of the body is ambiguous, or its chunks break chunkRules. The errors
	// below wrap it.
	ErrFraming = errors.New("the framing of the body is malformed")
	// ErrLength: Content-Length is not a number of bytes, or appears with two values.
	ErrLength = fmt.Errorf("%w: Content-Length", ErrFraming)
	// ErrCoding: Transfer-Encoding is not chunked, or appears twice.
	ErrCoding = fmt.Errorf("%w: Transfer-Encoding", ErrFraming)
	// ErrExtra: the chunk extensions and trailers are longer than maxExtraBytes.
	ErrExtra = fmt.Errorf("%w: extensions and trailers", ErrFraming)
)

// keptLineBytes is how many bytes are kept of a line that is received in pieces. The relevant lines
// are shorter.
const keptLineBytes = 64

// maxEmptyLines is how many empty lines may precede a request. fasthttp treats a buffer full of
// empty lines as the end of the connection, and sends no answer. limits.header is at least twice as
// large.
const maxEmptyLines = 256

// chunkRules apply to requests. A chunk size with more than 15 digits is malformed. One limit
// applies to the extensions of all chunks and the trailers together. A folded trailer is refused.
var chunkRules = chunked.Rules{
	MaxDigits: 15, MaxExtensions: maxExtraBytes, MaxTrailers: maxExtraBytes, Total: true,
}

// maxExtraBytes is the maximum length of the extensions of a body's chunks and its trailers
// together. Both are skipped.
const maxExtraBytes = 16 << 10

// framingChecker checks the requests on a connection as they are read: heads line by line, chunked
// bodies with a chunked.Decoder, other bodies by their length. If the lines of a head end in LF,
// fasthttp's parser waits for the rest of the head until the header's timeout. It also accepts
// trailers that end in LF, and extensions of any length. Bytes that another parser on the path may
// read differently allow request smuggling, so the checker stops reading at the first such byte.
// Only the goroutine that serves the connection uses the checker.
//
// The checker is ahead of the server by the bytes that the server has buffered. So the checker
// counts the requests that have started, and the server reports each request that it starts to read
// (SetActive). An error in a later request does not affect the request that is being served.
type framingChecker struct {
	state         framingState
	chunked       bool
	hasLength     bool            // the head has a Content-Length
	oddHead       bool            // the head has a line that package httpserver must read itself
	contentLength uint64          // of the body
	bodyLeft      uint64          // bytes of the body that are not yet received
	chunks        chunked.Decoder // of a chunked body

	lineLength int                 // length so far of the current line, without its end
	pendingCR  bool                // the last byte was a CR
	partial    [keptLineBytes]byte // the first bytes of a line that is received in pieces

	emptyLines uint16 // empty lines before the next request
	// requests of which a byte besides empty lines has been received
	begun          uint32
	taken          uint32              // requests that the server has started to read
	inHead         bool                // the head of the newest request has started and not ended
	err            error               // the error in the newest request
	readEnded      bool                // the client has closed its side, or the connection has failed
	headComplete   bool                // the head of the newest request is complete
	requestLine    [keptLineBytes]byte // the first bytes of the request line
	requestLineLen uint8
}

// framingState tells what the next line or byte belongs to.
type framingState uint8

const (
	stateOff         framingState = iota // not enabled: no server serves the connection yet
	stateRequestLine                     // a request line, perhaps after empty lines
	stateHeader
	stateBody    // a body of a known length
	stateChunked // a chunked body, with its trailers
)

// feed checks the bytes of a read. It changes them only before a request (see failLineEnd). After a
// bad byte the next read fails, not the read that returned the byte. If a read returns an error
// with the first byte, fasthttp treats it as the end of the connection and sends no answer.
func (f *framingChecker) feed(p []byte) {
	for len(p) > 0 && f.err == nil && f.state != stateOff {
		if f.state >= stateBody {
			p = f.skipBody(p)
			continue
		}
		if f.pendingCR { // the last byte was a CR
			f.pendingCR = false
			if p[0] != '\n' {
				f.failLineEnd(p)
				return
			}
			f.endLine(f.partial[:min(f.lineLength, keptLineBytes)])
			p = p[1:]
			continue
		}
		if c := p[0]; f.state == stateRequestLine && !f.inHead && c != '\r' && c != '\n' && !httptoken.IsTokenByte(c) {
			f.beginRequest() // a TLS ClientHello may have no line end at which the parser would fail
			f.err = ErrNotHTTP
			return
		}
		end := bytes.IndexByte(p, '\n')
		piece := p
		if end >= 0 {
			piece = p[:end]
		}
		if cr := bytes.IndexByte(piece, '\r'); cr >= 0 && cr < len(piece)-1 || end >= 0 && cr < 0 {
			f.failLineEnd(p)
			return
		} else if cr >= 0 {
			piece = piece[:cr]
			f.pendingCR = end < 0
		}
		if f.state == stateRequestLine && !f.inHead {
			if len(piece) > 0 {
				f.beginRequest()
			} else if f.emptyLines++; f.emptyLines > maxEmptyLines {
				f.err = ErrEmptyLines
				p[0] = 0 // see failLineEnd
				f.beginRequest()
				return
			}
		}
		if end < 0 {
			f.keepPartial(piece)
			return
		}
		if f.lineLength > 0 {
			f.keepPartial(piece)
			piece = f.partial[:min(f.lineLength, keptLineBytes)]
		} else {
			f.lineLength = len(piece)
		}
		f.endLine(piece)
		p = p[end+1:]
	}
}

// skipBody skips the bytes of the body at the start of p, and returns the rest of p.
func (f *framingChecker) skipBody(p []byte) []byte {
	if f.state == stateBody {
		n := min(f.bodyLeft, uint64(len(p)))
		if f.bodyLeft -= n; f.bodyLeft == 0 {
			f.state = stateRequestLine
		}
		return p[n:]
	}
	n, err := f.chunks.SkipFraming(p, &chunkRules)
	// the head is refused, no matter how much of the body has been received
	if err != nil && f.hasLength {
		f.state, f.bodyLeft = stateBody, math.MaxUint64
		return nil
	}
	if err != nil {
		f.err = ErrFraming
		if errors.Is(err, chunked.ErrTooLarge) {
			f.err = ErrExtra
		}
		return nil
	}
	if p = p[n:]; f.chunks.Ended() {
		f.state = stateRequestLine
		return p
	}
	if n := min(f.chunks.Payload(), int64(len(p))); n > 0 {
		f.chunks.Take(n)
		p = p[n:]
	}
	return p
}

// keepPartial keeps the next piece of an incomplete line.
func (f *framingChecker) keepPartial(piece []byte) {
	if f.lineLength < keptLineBytes {
		copy(f.partial[f.lineLength:], piece)
	}
	f.lineLength += len(piece)
}

// failLineEnd records that the line at p ends in CR or LF alone. Before a request, fasthttp would
// skip such a line end like an empty line, and send no answer if nothing follows. So failLineEnd
// then replaces the line end with a byte that cannot start a request.
func (f *framingChecker) failLineEnd(p []byte) {
	f.err = ErrBareLine
	if f.state == stateHeader || f.inHead {
		return
	}
	if p[0] == '\r' || p[0] == '\n' {
		p[0] = 0
	}
	f.beginRequest()
}

// beginRequest counts a new request and resets the state of the previous one.
func (f *framingChecker) beginRequest() {
	f.begun++
	f.inHead, f.emptyLines = true, 0
	f.headComplete, f.oddHead, f.chunked, f.hasLength = false, false, false, false
	f.contentLength, f.chunks, f.requestLineLen = 0, chunked.Decoder{}, 0
}

// endLine handles a complete line. Of a long line, line holds only the first bytes.
func (f *framingChecker) endLine(line []byte) {
	length := f.lineLength
	f.lineLength = 0
	switch f.state {
	case stateRequestLine:
		if length > 0 {
			f.requestLineLen = uint8(copy(f.requestLine[:], line))
			f.state, f.err = stateHeader, prefaceError(line)
		}
	case stateHeader:
		if length == 0 {
			f.inHead, f.headComplete = false, true
			f.state = f.afterHead()
			return
		}
		f.headerField(line, length)
	}
}

// prefaceError recognizes the first line of another protocol that looks like the start of a
// request.
func prefaceError(line []byte) error {
	switch {
	case line[0] != 'P':
	case string(line) == "PRI * HTTP/2.0":
		return ErrHTTP2
	case bytes.HasPrefix(line, []byte("PROXY TCP")), bytes.HasPrefix(line, []byte("PROXY UNKNOWN")):
		return ErrProxyProtocol
	}
	return nil
}

// afterHead returns the state after a head.
func (f *framingChecker) afterHead() framingState {
	switch {
	case f.chunked:
		return stateChunked
	case f.contentLength > 0:
		f.bodyLeft = f.contentLength
		return stateBody
	}
	return stateRequestLine
}

// headerField reads the length of the body from a header line. fasthttp checks the rest of the
// line, but it accepts a line that goes on in the next one, a blank in a name, and any Expect
// header.
func (f *framingChecker) headerField(line []byte, length int) {
	blank := bytes.IndexByte(line, ' ')
	f.oddHead = f.oddHead || line[0] == '\t' || len(line) < length || blank >= 0 && (blank == 0 || line[blank-1] != ':')
	switch line[0] | 0x20 {
	case 'e':
		f.oddHead = true
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
		n, err := strconv.ParseUint(string(value), 10, 63)
		if err != nil || length > keptLineBytes || f.hasLength && n != f.contentLength {
			f.err = ErrLength
		}
		f.hasLength, f.contentLength = true, n
	case httptoken.EqualFold(name, "transfer-encoding"):
		f.oddHead = true
		value = httptoken.TrimBlanks(value)
		if !bytes.EqualFold(value, []byte("chunked")) || length > keptLineBytes || f.chunked {
			f.err = ErrCoding
		}
		f.chunked = true
	}
}

// enable starts the checks, before the first request.
func (f *framingChecker) enable() {
	if f.state == stateOff {
		f.state = stateRequestLine
	}
}

// takeRequest counts a request that the server starts to read.
func (f *framingChecker) takeRequest() { f.taken++ }

// readFailed records a read error. A deadline, or a close by the edge, does not mean that the
// client has closed its side.
func (f *framingChecker) readFailed(err error) {
	f.readEnded = f.readEnded || !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed)
}

// truncated reports whether the request that is being served is incomplete and can receive no more
// bytes, although it has been well formed so far.
func (f *framingChecker) truncated() bool {
	return f.readEnded && f.err == nil && f.current() && (f.inHead || f.state > stateRequestLine)
}

// current reports whether the newest request is the one that is being served.
func (f *framingChecker) current() bool { return f.begun == f.taken }

// requestComplete reports whether all bytes of the request that is being served have been read.
func (f *framingChecker) requestComplete() bool {
	return f.state == stateRequestLine && !f.inHead && f.current() || int32(f.begun-f.taken) > 0
}

// requestPath returns the part of the current request's path that has been read.
func (f *framingChecker) requestPath() []byte {
	line := f.requestLine[:f.requestLineLen]
	switch {
	case !f.current():
		return nil
	case f.state == stateRequestLine && f.inHead:
		line = f.partial[:min(f.lineLength, keptLineBytes)]
	}
	_, rest, _ := bytes.Cut(line, []byte{' '})
	if end := bytes.IndexAny(rest, " ?"); end >= 0 {
		rest = rest[:end]
	}
	return rest
}
