package multipart

import (
	"bytes"
	"errors"
	"io"
)

const (
	// MaxParts is how many parts a form may have.
	MaxParts = 32
	// MaxHeader is how many bytes the head of a part may have.
	MaxHeader = 8 << 10

	bufferSize = 32 << 10 // larger than any head and delimiter
)

// Reader reads one form. It is used by one goroutine. Its buffer of 32 KiB is all that it holds.
type Reader struct {
	src   io.Reader
	delim []byte // CR LF and two dashes before the boundary
	buf   []byte
	pos   int // what has come and was not taken is buf[pos:end]
	end   int
	clear int // buf[pos:clear] is content for sure
	ended error
	state state
	parts int
	fail  error // of the first failure, for all later calls
}

type state uint8

const (
	atStart state = iota
	inBody
	atDelimiter // the delimiter was taken, what follows it was not
	atEnd
)

// NewReader returns a reader of the form that src yields. boundary is what Boundary returned.
func NewReader(src io.Reader, boundary string) *Reader {
	return &Reader{src: src, delim: []byte("\r\n--" + boundary), buf: make([]byte, bufferSize)}
}

// Next skips what is left of the current part and reads the head of the next one. It returns io.EOF after the last part,
// when src has ended too. Other errors are an *Error or what src returned. The Part is its own and stays valid.
func (r *Reader) Next() (Part, error) {
	if r.fail != nil {
		return Part{}, r.fail
	}
	p, err := r.next()
	if err != nil {
		r.fail = err
	}
	return p, err
}

func (r *Reader) next() (Part, error) {
	switch r.state {
	case atStart:
		if err := r.start(); err != nil {
			return Part{}, err
		}
	case inBody:
		if err := r.skip(); err != nil {
			return Part{}, err
		}
	case atDelimiter:
	case atEnd:
		return Part{}, io.EOF
	}
	last, err := r.afterDelimiter()
	switch {
	case err != nil:
		return Part{}, err
	case last:
		if err := r.epilogue(); err != nil {
			return Part{}, err
		}
		r.state = atEnd
		return Part{}, io.EOF
	}
	if r.parts++; r.parts > MaxParts {
		return Part{}, fault(TooManyParts)
	}
	return r.head()
}

// Read reads the body of the current part. It returns io.EOF at the part's end; the errors of Next apply.
func (r *Reader) Read(p []byte) (int, error) {
	if r.fail != nil && !errors.Is(r.fail, io.EOF) {
		return 0, r.fail
	}
	for {
		if r.state != inBody {
			return 0, io.EOF
		}
		if r.clear > r.pos {
			n := copy(p, r.buf[r.pos:r.clear])
			r.pos += n
			return n, nil
		}
		if len(p) == 0 {
			return 0, nil
		}
		if err := r.search(); err != nil {
			r.fail = err
			return 0, err
		}
	}
}

// search finds out how much of what has come is content, reading more where that is not known. It returns with some
// content, or with the delimiter taken.
func (r *Reader) search() error {
	for {
		data := r.buf[r.pos:r.end]
		i := bytes.Index(data, r.delim)
		switch {
		case i > 0:
			r.clear = r.pos + i
			return nil
		case i == 0:
			r.pos += len(r.delim)
			r.clear = r.pos
			r.state = atDelimiter
			return nil
		}
		if n := len(data) - r.begun(data); n > 0 {
			r.clear = r.pos + n
			return nil
		}
		if err := r.more(); err != nil {
			return err
		}
	}
}

// begun returns how many of the last bytes of data may be the beginning of a delimiter.
func (r *Reader) begun(data []byte) int {
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

// start takes the first delimiter.
func (r *Reader) start() error {
	for {
		data := r.buf[r.pos:r.end]
		if len(data) > 0 && data[0] == '-' { // the usual form, without a line end before it
			if len(data) >= len(r.delim)-2 {
				if !bytes.HasPrefix(data, r.delim[2:]) {
					return fault(NoDelimiter)
				}
				r.pos += len(r.delim) - 2
				break
			}
		} else if len(data) >= len(r.delim) {
			if !bytes.HasPrefix(data, r.delim) {
				return fault(NoDelimiter)
			}
			r.pos += len(r.delim)
			break
		}
		if err := r.more(); err != nil {
			if isCut(err) {
				return fault(NoDelimiter)
			}
			return err
		}
	}
	r.state = atDelimiter
	return nil
}

// skip reads to the end of the current part.
func (r *Reader) skip() error {
	for r.state == inBody {
		r.pos = r.clear
		if err := r.search(); err != nil {
			return err
		}
	}
	return nil
}

// afterDelimiter takes what follows a delimiter and reports whether it was the last one.
func (r *Reader) afterDelimiter() (last bool, err error) {
	if err := r.need(2); err != nil {
		return false, err
	}
	two := r.buf[r.pos : r.pos+2]
	r.pos += 2
	switch string(two) {
	case "\r\n":
		return false, nil
	case "--":
		return true, nil
	}
	return false, fault(BadDelimiter)
}

// epilogue reads src to its end. Line ends are all that may come.
func (r *Reader) epilogue() error {
	for {
		data := r.buf[r.pos:r.end]
		for len(data) >= 2 {
			if data[0] != '\r' || data[1] != '\n' {
				return fault(Surplus)
			}
			data = data[2:]
			r.pos += 2
		}
		switch err := r.more(); {
		case err == nil:
		case !isCut(err):
			return err
		case r.end > r.pos:
			return fault(Surplus)
		default:
			return nil
		}
	}
}

// head reads the head of a part.
func (r *Reader) head() (Part, error) {
	searched := 0
	for {
		data := r.buf[r.pos:r.end]
		from := max(0, searched-len(blankLine)+1)
		i := bytes.Index(data[from:], blankLine)
		if i += from; i >= from && i+len(blankLine) <= MaxHeader {
			p, err := parseHead(data[:i+2])
			if err != nil {
				return Part{}, err
			}
			r.pos += i + len(blankLine)
			r.clear = r.pos
			r.state = inBody
			return p, r.notAtOnce()
		}
		if searched = len(data); searched >= MaxHeader {
			return Part{}, fault(HeaderTooLarge)
		}
		if err := r.more(); err != nil {
			return Part{}, err
		}
	}
}

var blankLine = []byte("\r\n\r\n")

// notAtOnce refuses a body that begins with the delimiter of its own line: some take it for an empty body, some for content.
func (r *Reader) notAtOnce() error {
	own := r.delim[2:]
	for {
		data := r.buf[r.pos:r.end]
		if bytes.HasPrefix(data, own) {
			return fault(BadDelimiter)
		}
		if !bytes.HasPrefix(own, data) {
			return nil
		}
		if err := r.more(); err != nil {
			return err
		}
	}
}

// need makes sure that n bytes have come.
func (r *Reader) need(n int) error {
	for r.end-r.pos < n {
		if err := r.more(); err != nil {
			return err
		}
	}
	return nil
}

// more reads more of src behind what has come. The end of src is the fault CutShort.
func (r *Reader) more() error {
	if r.ended != nil {
		return r.ended
	}
	if r.pos > 0 {
		r.end = copy(r.buf, r.buf[r.pos:r.end])
		r.clear -= r.pos
		r.pos = 0
	}
	for range 100 {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		if errors.Is(err, io.EOF) {
			err = fault(CutShort)
		}
		r.ended = err
		switch {
		case n > 0:
			return nil
		case err != nil:
			return err
		}
	}
	return io.ErrNoProgress
}

// isCut reports whether err is the end of src.
func isCut(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == CutShort
}
