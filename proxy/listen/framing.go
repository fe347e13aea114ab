package listen

import (
	"bytes"
	"errors"
	"net"
	"os"
	"strconv"

	"penstock/upstreams/http1/httptoken"
)

// The errors of reading a request.
var (
	// ErrBareLine: a line of the head does not end in CR LF.
	ErrBareLine = errors.New("a line of the head does not end in CR LF")
	// ErrNotHTTP: the first byte of a request cannot begin a method. The client speaks TLS or
	// another protocol.
	ErrNotHTTP = errors.New("what came does not begin like a request")
	// ErrFraming: the head gives two lengths of the body, or its chunks are malformed. Then a
	// chunk's line does not end in CR LF, a size is not a number, a trailer is folded, or the
	// extensions and trailers exceed maxExtraBytes or have a control character.
	ErrFraming = errors.New("the framing of the body is malformed")
)

const (
	// maxExtraBytes bounds the extensions of a body's chunks and its trailers together. Both are
	// skipped.
	maxExtraBytes = 16 << 10
	// maxSizeLine bounds the rest of the line of a chunk's size: 16 digits and the line's end.
	maxSizeLine = 18
	// keptLineBytes is how much is kept of a line that comes in pieces. Lines that matter are
	// shorter.
	keptLineBytes = 64
)

// framingChecker follows the requests on a connection as they are read, line by line and body by
// body. fasthttp's parser waits for the rest of a head whose lines end in LF until the header's
// timeout, accepts trailers that end in LF, and reads extensions without a bound. Bytes that
// another parser on the way may read differently allow request smuggling, so the first such byte
// ends the reading. Only the goroutine that serves the connection uses the checker.
//
// The checker is ahead of the server by the bytes that the server has buffered. It therefore counts
// the requests that have begun, and the server reports each request that it starts (SetActive). An
// error in a later request does not concern the one that is being served.
type framingChecker struct {
	state         framingState
	afterData     framingState // the state behind the data that is being skipped
	dataLeft      uint64       // bytes of that data
	extraBytes    int          // of extensions and trailers so far
	chunked       bool
	hasLength     bool   // the head has a Content-Length
	contentLength uint64 // of the body

	lineLength int                 // of the current line so far, without its end
	pendingCR  bool                // the last byte was a CR
	partial    [keptLineBytes]byte // the beginning of a line that comes in pieces

	begun          uint32              // requests with at least one byte besides empty lines
	taken          uint32              // requests that the server has started to read
	inHead         bool                // the head of the newest request has begun and not ended
	err            error               // in the newest request
	readEnded      bool                // the client has closed its side, or the connection has failed
	headComplete   bool                // of the newest request
	requestLine    [keptLineBytes]byte // its beginning
	requestLineLen uint8
}

// framingState is the kind of the next line or byte.
type framingState uint8

const (
	stateOff         framingState = iota // not enabled: the connection has no server yet
	stateRequestLine                     // empty lines may come before it
	stateHeader
	stateChunkSize
	stateData
	stateDataEnd // the empty line behind a chunk
	stateTrailer
)

// feed checks the bytes of a read, and changes them in one case (see failLineEnd). The next read
// after a bad byte fails, and not the read that brought it: fasthttp takes any error of the first
// byte for the end of the connection and gives no answer.
func (f *framingChecker) feed(p []byte) {
	for len(p) > 0 && f.err == nil && f.state != stateOff {
		if f.state == stateData {
			n := min(f.dataLeft, uint64(len(p)))
			if f.dataLeft -= n; f.dataLeft == 0 {
				f.state = f.afterData
			}
			p = p[n:]
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
			f.beginRequest() // a TLS hello may have no line end at which the parser would fail
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
		if f.state == stateRequestLine && len(piece) > 0 && !f.inHead {
			f.beginRequest()
		}
		if !f.fits(len(piece)) || (f.state == stateChunkSize || f.state == stateTrailer) && httptoken.HasControl(piece) {
			f.err = ErrFraming
			return
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

// keepPartial keeps the next piece of an unfinished line.
func (f *framingChecker) keepPartial(piece []byte) {
	if f.lineLength < keptLineBytes {
		copy(f.partial[f.lineLength:], piece)
	}
	f.lineLength += len(piece)
}

// failLineEnd records a line at p that ends in CR or LF alone. Before a request, fasthttp would
// skip such a line end like an empty line, and give no answer when nothing follows. There
// failLineEnd replaces it by a byte that cannot begin a request.
func (f *framingChecker) failLineEnd(p []byte) {
	switch f.state {
	case stateRequestLine:
		if !f.inHead && (p[0] == '\r' || p[0] == '\n') {
			p[0] = 0
		}
		if !f.inHead {
			f.beginRequest()
		}
		f.err = ErrBareLine
	case stateHeader:
		f.err = ErrBareLine
	default:
		f.err = ErrFraming
	}
}

// fits reports whether n more bytes keep the current line within its limit. fasthttp limits heads.
func (f *framingChecker) fits(n int) bool {
	n += f.lineLength
	switch f.state {
	case stateChunkSize:
		return f.extraBytes+n <= maxExtraBytes+maxSizeLine
	case stateDataEnd:
		return n == 0
	case stateTrailer:
		return f.extraBytes+n <= maxExtraBytes
	default:
		return true
	}
}

// beginRequest counts a new request and forgets the last one.
func (f *framingChecker) beginRequest() {
	f.begun++
	f.inHead = true
	f.headComplete, f.chunked, f.hasLength, f.contentLength, f.extraBytes, f.requestLineLen = false, false, false, 0, 0, 0
}

// endLine handles a finished line. A long line is cut to its beginning.
func (f *framingChecker) endLine(line []byte) {
	length := f.lineLength
	f.lineLength = 0
	switch f.state {
	case stateRequestLine:
		if length > 0 {
			f.requestLineLen = uint8(copy(f.requestLine[:], line))
			f.state = stateHeader
		}
	case stateHeader:
		if length == 0 {
			f.inHead, f.headComplete = false, true
			f.state = f.afterHead()
			return
		}
		f.headerField(line, length)
	case stateChunkSize:
		f.chunkSize(line, length)
	case stateDataEnd:
		f.state = stateChunkSize
	case stateTrailer:
		if f.extraBytes += length; length == 0 {
			f.state = stateRequestLine
		} else if line[0] == ' ' || line[0] == '\t' { // a folded line: RFC 9112, 5.2
			f.err = ErrFraming
		}
	}
}

// afterHead returns the state behind a head.
func (f *framingChecker) afterHead() framingState {
	switch {
	case f.chunked:
		return stateChunkSize
	case f.contentLength > 0:
		f.dataLeft, f.afterData = f.contentLength, stateRequestLine
		return stateData
	}
	return stateRequestLine
}

// headerField reads the body's length from a header line. fasthttp checks the rest of the line.
func (f *framingChecker) headerField(line []byte, length int) {
	if c := line[0] | 0x20; c != 'c' && c != 't' {
		return
	}
	end := bytes.IndexByte(line, ':')
	if end < 0 {
		end = len(line)
	}
	name, value := line[:end], line[min(end+1, len(line)):]
	if httptoken.IsBlank(name[len(name)-1]) {
		name = bytes.TrimRight(name, " \t")
	}
	switch {
	case len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")):
		value = bytes.Trim(value, " \t")
		n, err := strconv.ParseUint(string(value), 10, 63)
		if err != nil || length > keptLineBytes || f.hasLength && n != f.contentLength {
			f.err = ErrFraming
		}
		f.hasLength, f.contentLength = true, n
	case len(name) == len("Transfer-Encoding") && bytes.EqualFold(name, []byte("Transfer-Encoding")):
		value = bytes.Trim(value, " \t")
		if !bytes.EqualFold(value, []byte("chunked")) || length > keptLineBytes || f.chunked {
			f.err = ErrFraming
		}
		f.chunked = true
	}
}

// chunkSize reads the line of a chunk's size.
func (f *framingChecker) chunkSize(line []byte, length int) {
	n, digits := uint64(0), 0
	for digits < len(line) {
		d := hexDigit(line[digits])
		if d > 15 {
			break
		}
		n = n<<4 | uint64(d)
		digits++
	}
	if rest := bytes.TrimLeft(line[digits:], " \t"); digits == 0 || digits > 15 || len(rest) > 0 && rest[0] != ';' {
		f.err = ErrFraming
		return
	}
	f.extraBytes += length - digits
	f.state, f.dataLeft, f.afterData = stateData, n, stateDataEnd
	if n == 0 {
		f.state = stateTrailer
	}
}

// hexDigit returns the value of a hexadecimal digit, and more than 15 for any other byte.
func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 0xff
}

// enable starts the checks, before the first request.
func (f *framingChecker) enable() {
	if f.state == stateOff {
		f.state = stateRequestLine
	}
}

// takeRequest counts a request that the server starts to read.
func (f *framingChecker) takeRequest() { f.taken++ }

// readFailed records an error of a read. A deadline or our own close does not mean that the client
// has ended.
func (f *framingChecker) readFailed(err error) {
	f.readEnded = f.readEnded || !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed)
}

// truncated reports whether the request that is being served will never be complete, although it is
// well formed so far.
func (f *framingChecker) truncated() bool {
	return f.readEnded && f.err == nil && f.current() && (f.inHead || f.state > stateRequestLine)
}

// current reports whether the newest request is the one that is being served.
func (f *framingChecker) current() bool { return f.begun == f.taken }

// requestComplete reports whether all bytes of the request that is being served have been read.
func (f *framingChecker) requestComplete() bool {
	return f.state == stateRequestLine && !f.inHead && f.current() || int32(f.begun-f.taken) > 0
}

// requestPath returns the beginning of the current request's path, as far as it has been read.
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
