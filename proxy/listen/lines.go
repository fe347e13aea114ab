package listen

import (
	"bytes"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
)

// What reading a request fails with.
var (
	// ErrBareLine is a line of the head that does not end in CR LF.
	ErrBareLine = errors.New("a line of the head does not end in CR LF")
	// ErrNotHTTP is a byte in the place of a request's first that no method begins with: TLS, or another protocol.
	ErrNotHTTP = errors.New("what came does not begin like a request")
	// ErrFraming is a body whose length is said in two ways, or whose chunks are malformed: a line of theirs that does not end
	// in CR LF, a size that is none, a folded trailer, extensions or trailers beyond maxExtra or with a control character.
	ErrFraming = errors.New("the framing of the body is malformed")
)

const (
	// maxExtra is how many bytes the extensions of a body's chunks and its trailers may have together. Nobody reads either.
	maxExtra = 16 << 10
	// maxSizeLine is how long the line of a chunk's size may be besides: 16 digits and its end.
	maxSizeLine = 18
	keptLine    = 64 // bytes of a line that are kept when it comes in pieces; lines that matter are shorter
)

// lines follows the requests on a connection as they are read, line by line and body by body. fasthttp's parser waits for
// the rest of a head whose lines end in LF until the header's clock runs out, lets trailers end in LF, and reads extensions
// without end: whatever another parser on the way may read differently is a way to smuggle. So the first such byte ends the
// reading. Only the goroutine that serves the connection uses it.
//
// It reads ahead of the server, by what the server has buffered; so it counts the requests that have begun, and the server
// tells it of each that it takes up (Active). What is wrong with a request behind the one that is being served does not
// concern that one.
type lines struct {
	at      place
	next    place  // behind the body's piece that is being passed over
	left    uint64 // of that piece
	extra   int    // bytes of extensions and trailers so far
	chunked bool
	sized   bool   // there is a Content-Length
	size    uint64 // what it says

	length int // of the running line so far, its end apart
	cr     bool
	part   [keptLine]byte // the beginning of a line that comes in pieces

	begun  uint32 // requests of which a byte has come that is no empty line
	taken  uint32 // requests that the server has taken up
	inHead bool   // the head of the newest has begun and not ended
	bad    error  // in the newest
	ended  bool   // nothing more comes: the client has ended its side, or the connection has failed
	whole  bool   // the head of the newest has come whole
	target [keptLine]byte
	kept   uint8 // of its request line, in target
}

// place is what the next line, or byte, is.
type place uint8

const (
	placeNone    place = iota // no server has said that requests come here
	placeRequest              // the line that begins a request; empty ones may come before it
	placeHead
	placeSize // of a chunk
	placeData
	placeDataEnd // the empty line behind a chunk
	placeTrailer
)

// look looks at what was read, and changes it in one case (fail). Behind a bad byte reading fails: not with it, because fasthttp
// takes any error of the first byte for the connection's end and gives no answer.
func (l *lines) look(p []byte) {
	for len(p) > 0 && l.bad == nil && l.at != placeNone {
		if l.at == placeData {
			n := min(l.left, uint64(len(p)))
			if l.left -= n; l.left == 0 {
				l.at = l.next
			}
			p = p[n:]
			continue
		}
		if l.cr { // what has come of the line ends in CR
			l.cr = false
			if p[0] != '\n' {
				l.fail(p)
				return
			}
			l.end(l.part[:min(l.length, keptLine)])
			p = p[1:]
			continue
		}
		if c := p[0]; l.at == placeRequest && !l.inHead && c != '\r' && c != '\n' && !tokenByte(c) {
			l.begin() // a TLS hello has no line whose end the parser could come to
			l.bad = ErrNotHTTP
			return
		}
		end := bytes.IndexByte(p, '\n')
		piece := p
		if end >= 0 {
			piece = p[:end]
		}
		if cr := bytes.IndexByte(piece, '\r'); cr >= 0 && cr < len(piece)-1 || end >= 0 && cr < 0 {
			l.fail(p)
			return
		} else if cr >= 0 {
			piece = piece[:cr]
			l.cr = end < 0
		}
		if l.at == placeRequest && len(piece) > 0 && !l.inHead {
			l.begin()
		}
		if !l.room(len(piece)) || (l.at == placeSize || l.at == placeTrailer) && hasControl(piece) {
			l.bad = ErrFraming
			return
		}
		if end < 0 {
			l.more(piece)
			return
		}
		if l.length > 0 {
			l.more(piece)
			piece = l.part[:min(l.length, keptLine)]
		} else {
			l.length = len(piece)
		}
		l.end(piece)
		p = p[end+1:]
	}
}

// tokenByte reports whether a method may have c (RFC 9110, 5.6.2).
func tokenByte(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// hasControl reports whether a piece of a line has a control character but tabs. What heads may hold is for others to say.
func hasControl(piece []byte) bool {
	for _, c := range piece {
		if c < ' ' && c != '\t' || c == 0x7f {
			return true
		}
	}
	return false
}

// more keeps the next piece of a line whose end has not come.
func (l *lines) more(piece []byte) {
	if l.length < keptLine {
		copy(l.part[l.length:], piece)
	}
	l.length += len(piece)
}

// fail notes a line at p that ends in CR or LF alone. Where a request has not begun with it, fasthttp would pass over such ends
// of lines like over empty lines, and give no answer when nothing else has come: it is shown a byte that no request has.
func (l *lines) fail(p []byte) {
	switch l.at {
	case placeRequest:
		if !l.inHead && (p[0] == '\r' || p[0] == '\n') {
			p[0] = 0
		}
		if !l.inHead {
			l.begin()
		}
		l.bad = ErrBareLine
	case placeHead:
		l.bad = ErrBareLine
	default:
		l.bad = ErrFraming
	}
}

// room reports whether the running line may have n bytes more. The size of heads is fasthttp's to bound.
func (l *lines) room(n int) bool {
	n += l.length
	switch l.at {
	case placeSize:
		return l.extra+n <= maxExtra+maxSizeLine
	case placeDataEnd:
		return n == 0
	case placeTrailer:
		return l.extra+n <= maxExtra
	default:
		return true
	}
}

// begin notes that a request begins.
func (l *lines) begin() {
	l.begun++
	l.inHead = true
	l.whole, l.chunked, l.sized, l.size, l.extra, l.kept = false, false, false, 0, 0, 0
}

// end takes a line that has come to its end. Of a long one line is the beginning.
func (l *lines) end(line []byte) {
	length := l.length
	l.length = 0
	switch l.at {
	case placeRequest:
		if length > 0 {
			l.kept = uint8(copy(l.target[:], line))
			l.at = placeHead
		}
	case placeHead:
		if length == 0 {
			l.inHead, l.whole = false, true
			l.at = l.body()
			return
		}
		l.field(line, length)
	case placeSize:
		l.chunk(line, length)
	case placeDataEnd:
		l.at = placeSize
	case placeTrailer:
		if l.extra += length; length == 0 {
			l.at = placeRequest
		} else if line[0] == ' ' || line[0] == '\t' { // a folded line: RFC 9112, 5.2
			l.bad = ErrFraming
		}
	}
}

// body is what follows a head.
func (l *lines) body() place {
	switch {
	case l.chunked:
		return placeSize
	case l.size > 0:
		l.left, l.next = l.size, placeRequest
		return placeData
	}
	return placeRequest
}

// field takes a line of the head. Whether the line is well formed otherwise is for others to say.
func (l *lines) field(line []byte, length int) {
	if c := line[0] | 0x20; c != 'c' && c != 't' {
		return
	}
	end := bytes.IndexByte(line, ':')
	if end < 0 {
		end = len(line)
	}
	name, value := line[:end], line[min(end+1, len(line)):]
	if blank(name[len(name)-1]) {
		name = bytes.TrimRight(name, " \t")
	}
	switch {
	case len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")):
		value = bytes.Trim(value, " \t")
		n, err := strconv.ParseUint(string(value), 10, 63)
		if err != nil || length > keptLine || l.sized && n != l.size {
			l.bad = ErrFraming
		}
		l.sized, l.size = true, n
	case len(name) == len("Transfer-Encoding") && bytes.EqualFold(name, []byte("Transfer-Encoding")):
		value = bytes.Trim(value, " \t")
		if !bytes.EqualFold(value, []byte("chunked")) || length > keptLine || l.chunked {
			l.bad = ErrFraming
		}
		l.chunked = true
	}
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

// chunk takes the line of a chunk's size.
func (l *lines) chunk(line []byte, length int) {
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
		l.bad = ErrFraming
		return
	}
	l.extra += length - digits
	l.at, l.left, l.next = placeData, n, placeDataEnd
	if n == 0 {
		l.at = placeTrailer
	}
}

// hexDigit is the value of a hexadecimal digit, and more than 15 for what is none.
func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 0xff
}

// idle lets l look at what comes, from the first request on.
func (l *lines) idle() {
	if l.at == placeNone {
		l.at = placeRequest
	}
}

// active counts a request that the server takes up.
func (l *lines) active() { l.taken++ }

// failed notes that reading has. A deadline, or our own close, says nothing of the client.
func (l *lines) failed(err error) {
	l.ended = l.ended || !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed)
}

// cut reports whether the request that is being served will never come whole, although it was well formed so far.
func (l *lines) cut() bool {
	return l.ended && l.bad == nil && l.current() && (l.inHead || l.at > placeRequest)
}

// current reports whether what is known is about the request that is being served.
func (l *lines) current() bool { return l.begun == l.taken }

// arrived reports whether the request that is being served has ended: the next one is awaited, or has begun.
func (l *lines) arrived() bool {
	return l.at == placeRequest && !l.inHead && l.current() || int32(l.begun-l.taken) > 0
}

// path is the beginning of the current request's path, as far as it has come.
func (l *lines) path() []byte {
	line := l.target[:l.kept]
	switch {
	case !l.current():
		return nil
	case l.at == placeRequest && l.inHead:
		line = l.part[:min(l.length, keptLine)]
	}
	_, rest, _ := bytes.Cut(line, []byte{' '})
	if end := bytes.IndexAny(rest, " ?"); end >= 0 {
		rest = rest[:end]
	}
	return rest
}
