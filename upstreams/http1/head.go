package http1

import (
	"bytes"
	"math"
	"time"

	"penstock/upstreams/http1/httptoken"
)

const (
	maxHeadBytes        = 64 << 10 // bytes of one head, including the final line end
	maxHeadLines        = 200      // number of lines, including the status line
	maxInterim          = 8        // number of 1xx heads before the final response
	maxStoredValueBytes = 1 << 10  // bytes of a stored header value; longer values are dropped
)

// headerField is a response header that the edge uses. Other headers are validated and skipped.
type headerField uint8

const (
	fieldContentType headerField = iota
	fieldContentLength
	fieldTransferEncoding
	fieldConnection
	fieldKeepAlive
	fieldRetryAfter
	fieldContentEncoding
	fieldRequestID
	fieldDisposition
	fieldCount // number of fields
	fieldOther = fieldCount
)

var fieldNames = [fieldCount]string{
	"content-type", "content-length", "transfer-encoding", "connection", "keep-alive", "retry-after",
	"content-encoding", "x-request-id", "content-disposition",
}

// lookUpField returns the field with a header name, ignoring case.
func lookUpField[T string | []byte](name T) headerField {
	if len(name) >= len(fieldsOfLength) {
		return fieldOther
	}
	for _, f := range fieldsOfLength[len(name)] {
		if httptoken.EqualFold(name, fieldNames[f]) {
			return f
		}
	}
	return fieldOther
}

// fieldsOfLength lists the fields by the length of their names.
var fieldsOfLength = func() (t [20][]headerField) {
	for f, name := range fieldNames {
		t[len(name)] = append(t[len(name)], headerField(f))
	}
	return t
}()

// wireError describes a malformed response without quoting it.
type wireError struct{ reason, text string }

func (m *wireError) Error() string { return m.text }

var (
	errStatusLine      = &wireError{ReasonInvalid, "the reply does not start with an HTTP/1 status line"}
	errFieldLine       = &wireError{ReasonInvalid, "malformed header line"}
	errLength          = &wireError{ReasonInvalid, "malformed or contradicting Content-Length"}
	errTransferCoding  = &wireError{ReasonInvalid, "Transfer-Encoding is not exactly chunked"}
	errFraming         = &wireError{ReasonInvalid, "both Content-Length and Transfer-Encoding"}
	errInterim         = &wireError{ReasonInvalid, "too many interim replies"}
	errHeadTooLarge    = &wireError{ReasonTooLarge, "the head of the reply is too large"}
	errContentEncoding = &wireError{ReasonEncoding, "the reply has a content encoding that was not asked for"}
	errTruncated       = &wireError{ReasonTruncated, "the reply ended before it was complete"}
	errUnsendable      = &wireError{ReasonRequest, "the request holds a character that cannot be sent"}
	errConnStalled     = &wireError{ReasonTimeout, "the upstream does not read the request"}
	errUnacked         = &wireError{ReasonSilent, "the upstream's host does not acknowledge the request"}
)

// byteSpan is a byte range in the buffer of the head.
type byteSpan struct{ from, to uint32 }

// responseHead parses a response head line by line as the lines arrive. It enforces RFC 9112
// strictly, but accepts a bare LF as a line end, which section 2.2 allows and which is unambiguous
// in a response. The zero value is ready to use.
type responseHead struct {
	nextLine        int // start of the first unparsed line
	status          uint16
	lines           uint8
	interim         uint8 // number of skipped 1xx heads
	minor           byte  // the digit after "HTTP/1."
	hasLength       bool
	isChunked       bool
	hasEncoding     bool // the content encoding is not identity
	closesConn      bool // Connection: close
	isKeepAlive     bool // Connection: keep-alive
	zeroKeepAlive   bool // Keep-Alive: timeout=0
	isComplete      bool // the final head is complete
	valuesInReadBuf bool // valueBuf is part of the read buffer
	length          int64
	idle            time.Duration // idle timeout from the Keep-Alive header; 0 if not set
	values          [fieldCount]byteSpan

	err      error  // why the head is invalid
	valueBuf []byte // the buffer that contains the values; set once the head is complete
}

// parseReceived parses the received bytes. It reports whether the final head is complete.
func (h *responseHead) parseReceived(in *receivedBytes) (bool, error) {
	for !h.isComplete && h.err == nil && in.end > 0 {
		done, err := h.parse(in.b[:in.end])
		switch {
		case err != nil:
		case !done:
			return false, nil
		case h.status >= 200 || h.status == 101:
			err = h.validate()
		case h.interim < maxInterim:
			in.end = copy(in.b, in.b[h.nextLine:in.end])
			*h = responseHead{interim: h.interim + 1}
			continue
		default:
			err = errInterim
		}
		h.err, h.isComplete = err, err == nil
	}
	return h.isComplete, h.err
}

// keepValues leaves the values of a complete head at the start of the read buffer, if enough space
// remains for the body.
func (h *responseHead) keepValues(b []byte) {
	h.valueBuf, h.valuesInReadBuf = b[:h.nextLine], true
	if h.nextLine > readBufferSize/2 {
		h.detachValues()
	}
}

// detachValues copies the values out of the buffer, so that the body can use the whole buffer.
func (h *responseHead) detachValues() {
	if h.valuesInReadBuf {
		h.copyValues()
	}
}

func (h *responseHead) copyValues() {
	size := uint32(0)
	for _, v := range h.values {
		size += v.to - v.from
	}
	kept := make([]byte, 0, size)
	for i := range h.values {
		v := &h.values[i]
		if v.to == 0 {
			continue
		}
		from := len(kept)
		kept = append(kept, h.valueBuf[v.from:v.to]...)
		*v = byteSpan{uint32(from), uint32(len(kept))}
	}
	h.valueBuf, h.valuesInReadBuf = kept, false
}

func (h *responseHead) value(name string) []byte {
	f := lookUpField(name)
	if f == fieldOther || h.valueBuf == nil || h.values[f].to == 0 {
		return nil
	}
	return h.valueBuf[h.values[f].from:h.values[f].to]
}

// parse resumes parsing a head. b starts with all bytes received so far, including the bytes that
// were already parsed. After the empty line, parse returns true, and nextLine is the size of the
// head.
func (h *responseHead) parse(b []byte) (bool, error) {
	for {
		rest := b[h.nextLine:]
		end := bytes.IndexByte(rest, '\n')
		if h.nextLine+end >= maxHeadBytes || end < 0 && len(b) >= maxHeadBytes {
			return false, errHeadTooLarge
		}
		if h.lines == 0 && !startsHTTP(rest) {
			// This is checked before the line ends, because a server that uses another protocol may
			// never send a line end.
			return false, errStatusLine
		}
		if end < 0 {
			return false, nil
		}
		line := rest[:end]
		if end > 0 && line[end-1] == '\r' {
			line = line[:end-1]
		}
		if h.lines++; h.lines > maxHeadLines {
			return false, errHeadTooLarge
		}
		switch {
		case h.lines == 1:
			if !h.parseStatusLine(line) {
				return false, errStatusLine
			}
		case len(line) == 0:
			h.nextLine += end + 1
			return true, nil
		default:
			if err := h.parseFieldLine(line, h.nextLine); err != nil {
				return false, err
			}
		}
		h.nextLine += end + 1
	}
}

const httpPrefix = "HTTP/1."

func startsHTTP(b []byte) bool {
	n := min(len(b), len(httpPrefix))
	return string(b[:n]) == httpPrefix[:n]
}

// parseStatusLine parses "HTTP/1.x NNN", optionally followed by a space and a reason phrase.
func (h *responseHead) parseStatusLine(line []byte) bool {
	const code = len(httpPrefix) + 2
	if len(line) < code+3 || line[code-1] != ' ' || len(line) > code+3 && line[code+3] != ' ' {
		return false
	}
	h.minor = line[code-2] - '0'
	if h.minor > 1 {
		return false
	}
	for _, c := range line[code : code+3] {
		if c < '0' || c > '9' {
			return false
		}
		h.status = h.status*10 + uint16(c-'0')
	}
	return h.status >= 100 && h.status <= 599 && !httptoken.HasControl(line[code+3:])
}

// parseFieldLine parses one header line. at is the line's offset in the buffer.
func (h *responseHead) parseFieldLine(line []byte, at int) error {
	colon := httptoken.TokenLength(line)
	// This also rejects a folded line, and a space before the colon.
	if colon == 0 || colon == len(line) || line[colon] != ':' {
		return errFieldLine
	}
	from := colon + 1
	for from < len(line) && httptoken.IsBlank(line[from]) {
		from++
	}
	value := httptoken.TrimBlanks(line[from:])
	if httptoken.HasControl(value) {
		return errFieldLine
	}
	f := lookUpField(line[:colon])
	if f == fieldOther {
		return nil
	}
	if v := &h.values[f]; v.to == 0 && len(value) <= maxStoredValueBytes {
		*v = byteSpan{uint32(at + from), uint32(at + from + len(value))}
	}
	return h.interpret(f, value)
}

// interpret evaluates the headers that control framing and the connection.
func (h *responseHead) interpret(f headerField, value []byte) error {
	switch f {
	case fieldContentLength:
		n, ok := parseLength(value)
		if !ok || h.hasLength && n != h.length {
			return errLength
		}
		h.hasLength, h.length = true, n
	case fieldTransferEncoding:
		if h.isChunked || !httptoken.EqualFold(value, "chunked") {
			return errTransferCoding
		}
		h.isChunked = true
	case fieldContentEncoding:
		if len(value) > 0 && !httptoken.EqualFold(value, "identity") {
			h.hasEncoding = true
		}
	case fieldConnection:
		for token := range bytes.SplitSeq(value, []byte{','}) {
			token = httptoken.TrimBlanks(token)
			h.closesConn = h.closesConn || httptoken.EqualFold(token, "close")
			h.isKeepAlive = h.isKeepAlive || httptoken.EqualFold(token, "keep-alive")
		}
	case fieldKeepAlive:
		h.parseKeepAlive(value)
	}
	return nil
}

// parseKeepAlive reads timeout=N from the Keep-Alive header. It subtracts a fifth as a safety
// margin. The engine's timer starts before the edge's timer, and the edge needs time to detect that
// the engine has closed the connection. It ignores invalid values, because the header is only a
// hint.
func (h *responseHead) parseKeepAlive(value []byte) {
	for param := range bytes.SplitSeq(value, []byte{','}) {
		name, number, found := bytes.Cut(httptoken.TrimBlanks(param), []byte{'='})
		if !found || !httptoken.EqualFold(name, "timeout") {
			continue
		}
		if n, ok := parseLength(number); ok {
			h.zeroKeepAlive = n == 0
			h.idle = time.Duration(min(n, 3600)) * time.Second * 4 / 5
		}
	}
}

// validate validates a complete final head.
func (h *responseHead) validate() error {
	switch {
	case h.isChunked && h.hasLength:
		return errFraming
	case h.hasEncoding:
		return errContentEncoding
	}
	return nil
}

// isReusable reports whether both sides keep the connection alive. The connection of a chunked
// HTTP/1.0 response is not reused (RFC 9112, 6.1).
func (h *responseHead) isReusable() bool {
	if h.closesConn || h.zeroKeepAlive || h.status == 101 {
		return false
	}
	return h.minor == 1 || h.isKeepAlive && !h.isChunked
}

func parseLength(b []byte) (int64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' || n > (math.MaxInt64-9)/10 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}
