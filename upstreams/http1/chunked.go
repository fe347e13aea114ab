package http1

import "penstock/upstreams/http1/httptoken"

const (
	maxSizeDigits = 16
	maxExtension  = 1 << 10 // bytes after the size of one chunk
	maxTrailers   = 8 << 10 // bytes after the last chunk
)

// chunkState is the place of the next byte within the framing of a chunked body.
type chunkState uint8

const (
	chunkSize      chunkState = iota // in the digits of a size
	chunkBlank                       // after them, in blanks that only an extension may follow
	chunkExtension                   // in the extension
	chunkSizeLF                      // at the LF of that line
	chunkData                        // in the payload
	chunkDataCR                      // at the CR after it
	chunkDataLF                      // at the LF after it
	chunkTrailer                     // at the beginning of a line after the last chunk
	chunkTrailing                    // further on in such a line
	chunkTrailerLF                   // at its LF
	chunkEndLF                       // at the LF of the empty line that ends the body
	chunkEnd
)

// chunkParser takes the framing off a chunked body, byte by byte, so that it can be interrupted
// anywhere. Lines end in CRLF and nothing else. The zero value is at the beginning of a body.
type chunkParser struct {
	state       chunkState
	digits      uint8
	skipped     int   // bytes of this line's extension, or of all trailers
	payloadLeft int64 // payload of the current chunk that has not been taken
}

// skipFraming parses the framing at the beginning of b, up to payload, the end of the body or the
// end of b. It returns how many bytes that was. The reader reports the payload that it takes by
// consumed.
func (c *chunkParser) skipFraming(b []byte) (n int, err error) {
	for n < len(b) && c.state != chunkData && c.state != chunkEnd {
		if err := c.step(b[n]); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// consumed counts n bytes of payload that the reader has taken.
func (c *chunkParser) consumed(n int64) {
	if c.payloadLeft -= n; c.payloadLeft == 0 {
		c.state = chunkDataCR
	}
}

func (c *chunkParser) step(b byte) error {
	switch c.state {
	case chunkSize:
		return c.size(b)
	case chunkBlank:
		if b == ';' {
			c.state = chunkExtension
		} else if !httptoken.IsBlank(b) {
			return errChunk
		}
		return c.countSkipped(maxExtension)
	case chunkExtension:
		if b == '\r' {
			c.state = chunkSizeLF
			return nil
		}
		if b < 0x20 && b != '\t' || b == 0x7f {
			return errChunk
		}
		return c.countSkipped(maxExtension)
	case chunkSizeLF:
		c.digits, c.skipped = 0, 0
		if c.payloadLeft == 0 {
			return c.expect(b, '\n', chunkTrailer)
		}
		return c.expect(b, '\n', chunkData)
	case chunkDataCR:
		return c.expect(b, '\r', chunkDataLF)
	case chunkDataLF:
		return c.expect(b, '\n', chunkSize)
	case chunkTrailer:
		if b == '\r' {
			c.state = chunkEndLF
			return nil
		}
		c.state = chunkTrailing
		return c.trailing(b)
	case chunkTrailing:
		return c.trailing(b)
	case chunkTrailerLF:
		return c.expect(b, '\n', chunkTrailer)
	case chunkEndLF:
		return c.expect(b, '\n', chunkEnd)
	}
	panic("BUG: chunk framing is not read in its payload or after its end")
}

func (c *chunkParser) size(b byte) error {
	var digit byte
	switch {
	case '0' <= b && b <= '9':
		digit = b - '0'
	case 'a' <= b && b <= 'f':
		digit = b - 'a' + 10
	case 'A' <= b && b <= 'F':
		digit = b - 'A' + 10
	case c.digits == 0:
		return errChunk
	case b == '\r':
		c.state = chunkSizeLF
		return nil
	case b == ';':
		c.state = chunkExtension
		return nil
	case httptoken.IsBlank(b):
		c.state = chunkBlank
		return nil
	default:
		return errChunk
	}
	if c.digits++; c.digits > maxSizeDigits || c.payloadLeft>>58 != 0 { // four more bits must leave a positive number
		return errChunk
	}
	c.payloadLeft = c.payloadLeft<<4 | int64(digit)
	return nil
}

func (c *chunkParser) trailing(b byte) error {
	if b == '\r' {
		c.state = chunkTrailerLF
		return nil
	}
	if b < 0x20 && b != '\t' || b == 0x7f {
		return errChunk
	}
	return c.countSkipped(maxTrailers)
}

// countSkipped counts a byte of an extension or a trailer.
func (c *chunkParser) countSkipped(limit int) error {
	if c.skipped++; c.skipped > limit {
		return errTrailers
	}
	return nil
}

// expect goes on to the state next if b is the byte that must come. If not, the state stays: where
// payload before the byte is delivered first, the byte is parsed once more and must fail again.
func (c *chunkParser) expect(b, want byte, next chunkState) error {
	if b != want {
		return errChunk
	}
	c.state = next
	return nil
}
