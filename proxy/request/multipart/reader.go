package multipart

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

const (
	// MaxParts is the maximum number of parts in a form.
	MaxParts = 32
	// MaxHeader is the maximum size of the head of a part in bytes.
	MaxHeader = 8 << 10

	bufferSize = 32 << 10 // exceeds the size of any head or delimiter
)

// Reader reads one form. A Reader is not safe for concurrent use. It uses one buffer of 32 KiB.
type Reader struct {
	src          bufio.Reader
	delim        []byte // CR LF, two hyphens and the boundary
	contentBytes int    // number of buffered bytes known to be content
	state        readerState
	parts        int
	firstErr     error // first error; all later calls return it
}

type readerState uint8

const (
	stateAtStart readerState = iota
	stateInBody
	stateAtDelimiter // the delimiter has been consumed, but the bytes after it have not
	stateAtEnd
)

// NewReader returns a Reader that reads from src. boundary must be a result of ParseBoundary.
func NewReader(src io.Reader, boundary string) *Reader {
	return &Reader{src: *bufio.NewReaderSize(src, bufferSize), delim: []byte("\r\n--" + boundary)}
}

// peek returns the next n bytes. If fewer bytes are left, it returns the remaining bytes and an
// error. At the end of src, the reason of the error is ReasonTruncatedForm.
func (r *Reader) peek(n int) ([]byte, error) {
	data, err := r.src.Peek(n)
	if errors.Is(err, io.EOF) {
		err = newError(ReasonTruncatedForm)
	}
	return data, err
}

// bufferMore buffers at least one more byte than data contains, and returns all buffered bytes.
func (r *Reader) bufferMore(data []byte) ([]byte, error) {
	_, err := r.peek(len(data) + 1)
	return r.buffered(), err
}

func (r *Reader) buffered() []byte {
	data, _ := r.src.Peek(r.src.Buffered())
	return data
}

func (r *Reader) discardBytes(n int) { _, _ = r.src.Discard(n) }

// Next skips to the next part and reads its head. After the last part, it reads src to its end and
// returns io.EOF. Any other error is an *Error or an error from src. The Part remains valid after
// later calls.
func (r *Reader) Next() (Part, error) {
	if r.firstErr != nil {
		return Part{}, r.firstErr
	}
	p, err := r.next()
	if err != nil {
		r.firstErr = err
	}
	return p, err
}

func (r *Reader) next() (Part, error) {
	switch r.state {
	case stateAtStart:
		if err := r.readFirstDelimiter(); err != nil {
			return Part{}, err
		}
	case stateInBody:
		if err := r.skipPartBody(); err != nil {
			return Part{}, err
		}
	case stateAtDelimiter:
	case stateAtEnd:
		return Part{}, io.EOF
	}
	last, err := r.readDelimiterEnd()
	switch {
	case err != nil:
		return Part{}, err
	case last:
		if err := r.readEpilogue(); err != nil {
			return Part{}, err
		}
		r.state = stateAtEnd
		return Part{}, io.EOF
	}
	if r.parts++; r.parts > MaxParts {
		return Part{}, newError(ReasonTooManyParts)
	}
	return r.readPartHeader()
}

// Read reads the body of the current part. It returns io.EOF at the end of the part. All other
// errors are the same as those of Next.
func (r *Reader) Read(p []byte) (int, error) {
	if r.firstErr != nil && !errors.Is(r.firstErr, io.EOF) {
		return 0, r.firstErr
	}
	for {
		if r.state != stateInBody {
			return 0, io.EOF
		}
		if r.contentBytes > 0 {
			n, _ := r.src.Read(p[:min(len(p), r.contentBytes)])
			r.contentBytes -= n
			return n, nil
		}
		if len(p) == 0 {
			return 0, nil
		}
		if err := r.findDelimiter(); err != nil {
			r.firstErr = err
			return 0, err
		}
	}
}

// findDelimiter finds the content before the next delimiter, or consumes the delimiter if there is
// no content before it. If necessary, it reads more bytes.
func (r *Reader) findDelimiter() error {
	for data := r.buffered(); ; {
		switch i := bytes.Index(data, r.delim); {
		case i == 0:
			r.discardBytes(len(r.delim))
			r.state = stateAtDelimiter
			return nil
		case i > 0:
			r.contentBytes = i
			return nil
		}
		if r.contentBytes = len(data) - r.partialDelimiterLen(data); r.contentBytes > 0 {
			return nil
		}
		var err error
		if data, err = r.bufferMore(data); err != nil {
			return err
		}
	}
}

// partialDelimiterLen returns how many bytes at the end of data could be the start of a delimiter.
func (r *Reader) partialDelimiterLen(data []byte) int {
	tail := data[max(0, len(data)-len(r.delim)+1):]
	for len(tail) > 0 {
		i := bytes.IndexByte(tail, '\r')
		if i < 0 {
			return 0
		}
		if tail = tail[i:]; bytes.HasPrefix(r.delim, tail) {
			return len(tail)
		}
		tail = tail[1:]
	}
	return 0
}

// readFirstDelimiter consumes the first delimiter, which usually has no line end before it.
func (r *Reader) readFirstDelimiter() error {
	first := r.delim
	data, err := r.peek(1)
	if len(data) > 0 && data[0] == '-' {
		first = first[2:]
	}
	if err == nil {
		data, err = r.peek(len(first))
	}
	switch {
	case err != nil && !isTruncated(err):
		return err
	case !bytes.Equal(data, first):
		return newError(ReasonNoDelimiter)
	}
	r.discardBytes(len(first))
	r.state = stateAtDelimiter
	return nil
}

func (r *Reader) skipPartBody() error {
	for r.state == stateInBody {
		r.discardBytes(r.contentBytes)
		r.contentBytes = 0
		if err := r.findDelimiter(); err != nil {
			return err
		}
	}
	return nil
}

// readDelimiterEnd consumes the two bytes after a delimiter. It reports whether that was the last
// delimiter.
func (r *Reader) readDelimiterEnd() (last bool, err error) {
	two, err := r.peek(2)
	if err != nil {
		return false, err
	}
	last = string(two) == "--"
	if !last && string(two) != "\r\n" {
		return false, newError(ReasonBadDelimiter)
	}
	r.discardBytes(2)
	return last, nil
}

// readEpilogue reads src to its end, and accepts nothing but line ends.
func (r *Reader) readEpilogue() error {
	for {
		switch two, err := r.peek(2); {
		case err == nil && string(two) == "\r\n":
			r.discardBytes(2)
		case err != nil && !isTruncated(err):
			return err
		case len(two) > 0:
			return newError(ReasonTrailingBytes)
		default:
			return nil
		}
	}
}

func (r *Reader) readPartHeader() (Part, error) {
	searched := 0
	for data := r.buffered(); ; {
		from := max(0, searched-len(blankLine)+1)
		i := bytes.Index(data[from:], blankLine) + from
		if i >= from && i+len(blankLine) <= MaxHeader {
			p, err := parsePartHeader(data[:i+2])
			if err != nil {
				return Part{}, err
			}
			r.discardBytes(i + len(blankLine))
			r.contentBytes, r.state = 0, stateInBody
			return p, r.rejectLeadingDelimiter()
		}
		if searched = len(data); searched >= MaxHeader {
			return Part{}, newError(ReasonHeaderTooLarge)
		}
		var err error
		if data, err = r.bufferMore(data); err != nil {
			return Part{}, err
		}
	}
}

var blankLine = []byte("\r\n\r\n")

// rejectLeadingDelimiter rejects a part whose body starts with a delimiter line. Some parsers
// interpret such a body as empty, and others as content.
func (r *Reader) rejectLeadingDelimiter() error {
	own := r.delim[2:]
	for data := r.buffered(); ; {
		if bytes.HasPrefix(data, own) {
			return newError(ReasonBadDelimiter)
		}
		if !bytes.HasPrefix(own, data) {
			return nil
		}
		var err error
		if data, err = r.bufferMore(data); err != nil {
			return err
		}
	}
}

func isTruncated(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == ReasonTruncatedForm
}
