package upstreams

const (
	maxSizeDigits = 16
	maxExtension  = 1 << 10 // bytes after the size of one chunk
	maxTrailers   = 8 << 10 // bytes after the last chunk
)

// chunkState is where in the framing of a chunked body the next byte stands.
type chunkState uint8

const (
	chunkSize      chunkState = iota // in the digits of a size
	chunkBlank                       // after them, in blanks that only an extension may follow
	chunkExtension                   // in what follows the size
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

// chunks takes the framing off a chunked body, byte by byte, so that it can be interrupted anywhere. Lines end in CRLF and
// nothing else. The zero value is at the beginning of a body.
type chunks struct {
	state  chunkState
	digits uint8
	extra  int   // bytes of this line's extension, or of all trailers
	left   int64 // payload of the current chunk that has not been taken
}

// take consumes framing at the beginning of b until payload, the end of the body or the end of b is reached, and returns
// how much it was. The payload itself is consumed by its reader, with took.
func (c *chunks) take(b []byte) (n int, err error) {
	for n < len(b) && c.state != chunkData && c.state != chunkEnd {
		if err := c.step(b[n]); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// took tells that n bytes of payload were consumed.
func (c *chunks) took(n int64) {
	if c.left -= n; c.left == 0 {
		c.state = chunkDataCR
	}
}

func (c *chunks) step(b byte) error {
	switch c.state {
	case chunkSize:
		return c.size(b)
	case chunkBlank:
		if b == ';' {
			c.state = chunkExtension
		} else if !blank(b) {
			return errChunk
		}
		return c.spend(maxExtension)
	case chunkExtension:
		if b == '\r' {
			c.state = chunkSizeLF
			return nil
		}
		if b < 0x20 && b != '\t' || b == 0x7f {
			return errChunk
		}
		return c.spend(maxExtension)
	case chunkSizeLF:
		c.digits, c.extra = 0, 0
		if c.left == 0 {
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

func (c *chunks) size(b byte) error {
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
	case blank(b):
		c.state = chunkBlank
		return nil
	default:
		return errChunk
	}
	if c.digits++; c.digits > maxSizeDigits || c.left>>58 != 0 { // four more bits must leave a positive number
		return errChunk
	}
	c.left = c.left<<4 | int64(digit)
	return nil
}

func (c *chunks) trailing(b byte) error {
	if b == '\r' {
		c.state = chunkTrailerLF
		return nil
	}
	if b < 0x20 && b != '\t' || b == 0x7f {
		return errChunk
	}
	return c.spend(maxTrailers)
}

// spend counts a byte of what is skipped.
func (c *chunks) spend(limit int) error {
	if c.extra++; c.extra > limit {
		return errTrailers
	}
	return nil
}

// expect goes on to a state if b is the byte that must come. If not it stays: the byte is looked at once more when payload before
// it was delivered first, and must be refused again.
func (c *chunks) expect(b, want byte, next chunkState) error {
	if b != want {
		return errChunk
	}
	c.state = next
	return nil
}
