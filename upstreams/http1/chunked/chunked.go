// Package chunked decodes the chunked transfer coding of requests and responses (RFC 9112, 7.1).
// It is a state machine without I/O. It parses the framing byte by byte, so a body can arrive in
// pieces of any size. Lines must end in CR LF. ExtraLimits configures the limits, which differ
// between requests and responses.
package chunked

import (
	"errors"

	"penstock/upstreams/http1/httptoken"
)

// Errors for a malformed or oversized body.
var (
	ErrMalformed = errors.New("malformed chunk")
	ErrTooLarge  = errors.New("chunk extension or trailers too large")
)

// ExtraLimits contains limits in addition to the grammar. Extensions and trailers are skipped, so their
// size is limited and they must not contain control characters.
type ExtraLimits struct {
	MaxDigits     uint8 // maximum number of digits of a chunk size; at most 16
	MaxExtensions int   // maximum number of bytes between the chunk size and the end of its line
	MaxTrailers   int   // maximum total size of all trailers in bytes, not counting line ends
	// Total applies each limit to the sum over the whole body: to the extensions of all chunks, and
	// to all trailers.
	Total bool
	// Folded accepts a trailer line that starts with a space or tab and therefore continues the
	// previous line (RFC 9112, 5.2).
	Folded bool
}

// decoderState is the decoder's state before the next byte.
type decoderState uint8

const (
	stateInSize          decoderState = iota // in the digits of a size
	stateInBlanks                            // in the spaces or tabs after a size
	stateAtExtension                         // after a semicolon, before the extension's name
	stateInExtensionName                     // in the extension's name
	stateInExtension                         // after the extension's name
	stateAtSizeLF                            // at the LF that ends the line with the size
	stateInPayload
	stateAtPayloadCR // at the CR after the payload
	stateAtPayloadLF
	stateAtTrailer // at the start of a line after the last chunk
	stateInTrailer // within a line after the last chunk
	stateAtTrailerLF
	stateAtEndLF // at the LF of the empty line that ends the body
	stateAtEnd
)

// Decoder is a position in a body. The zero value is the start of a body.
type Decoder struct {
	state   decoderState
	digits  uint8
	skipped int32 // skipped bytes of extensions and trailers that count towards ExtraLimits
	payload int64 // payload bytes left in the current chunk
}

// HasEnded reports whether the end of the body was read.
func (d *Decoder) HasEnded() bool { return d.state == stateAtEnd }

// PayloadLeft returns how many payload bytes precede the next framing.
func (d *Decoder) PayloadLeft() int64 {
	if d.state != stateInPayload {
		return 0
	}
	return d.payload
}

// Consume advances the position by n payload bytes.
func (d *Decoder) Consume(n int64) {
	if d.payload -= n; d.payload == 0 {
		d.state = stateAtPayloadCR
	}
}

// SkipFraming parses the framing at the start of b. It stops at payload, at the end of the body or
// at the end of b. It returns the number of parsed bytes. If err is not nil, b[n] is the invalid
// byte. Parsing that byte again returns the same error.
func (d *Decoder) SkipFraming(b []byte, r *ExtraLimits) (n int, err error) {
	for n < len(b) && d.state != stateInPayload && d.state != stateAtEnd {
		if m := d.skipUsualFraming(b[n:], r); m > 0 {
			n += m
			continue
		}
		if err := d.decodeByte(b[n], r); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// skipUsualFraming is a fast path for the line end after a payload, and for the line before a
// payload if it has no extension. It returns the number of bytes it has parsed, or 0 if b starts
// with anything else.
func (d *Decoder) skipUsualFraming(b []byte, r *ExtraLimits) int {
	switch {
	case d.state == stateAtPayloadCR && len(b) > 1 && b[0] == '\r' && b[1] == '\n':
		d.state = stateInSize
		return 2
	case d.state != stateInSize || d.digits != 0:
		return 0
	}
	size, start := parseSizeLine(b)
	if size == 0 || start-len("\r\n") > int(r.MaxDigits) {
		return 0
	}
	if d.state, d.payload = stateInPayload, int64(size); !r.Total {
		d.skipped = 0
	}
	return start
}

// parseSizeLine returns the size in the line at the start of b, and the length of the line. Both
// are 0 unless b starts with at most 6 digits and CR LF.
func parseSizeLine(b []byte) (size, length int) {
	for i, c := range b {
		if digit := hexDigits[c]; digit > 0 && i < 6 {
			size = size<<4 | int(digit-1)
			continue
		}
		if i == 0 || c != '\r' || i+1 == len(b) || b[i+1] != '\n' {
			break
		}
		return size, i + 2
	}
	return 0, 0
}

// SingleChunkPayload returns the payload of b if b is exactly one chunk without extensions and the
// decoder is at the start of a chunk. Otherwise, it returns nil, and the caller must call Unframe.
// Streams usually send one event per chunk, and a read usually returns one chunk. The decoder's
// state does not change, because it is the same before and after a whole chunk.
func (d *Decoder) SingleChunkPayload(b []byte) []byte {
	if d.state != stateInSize || d.digits != 0 {
		return nil
	}
	size, start := parseSizeLine(b)
	end := start + size
	if size == 0 || len(b) != end+2 || b[end] != '\r' || b[end+1] != '\n' {
		return nil
	}
	return b[start:end:end]
}

// hexDigits maps each hexadecimal digit to its value plus one, and other bytes to 0.
var hexDigits = func() (t [256]uint8) {
	for i := range 16 {
		t["0123456789abcdef"[i]], t["0123456789ABCDEF"[i]] = uint8(i+1), uint8(i+1)
	}
	return t
}()

// Unframe moves the payload in b to the start of b. It returns the payload's length and the number
// of bytes parsed. It parses all of b unless the body ends or an error occurs.
func (d *Decoder) Unframe(b []byte, r *ExtraLimits) (payload, read int, err error) {
	for read < len(b) && d.state != stateAtEnd {
		if d.state != stateInPayload {
			n, err := d.SkipFraming(b[read:], r)
			if read += n; err != nil {
				return payload, read, err
			}
			continue
		}
		n := int(min(int64(len(b)-read), d.payload))
		if payload != read {
			copy(b[payload:], b[read:read+n])
		}
		payload += n
		read += n
		d.Consume(int64(n))
	}
	return payload, read, nil
}

// HasBytesAfterBody reports whether b contains a complete body followed by more bytes.
func HasBytesAfterBody(b []byte, r *ExtraLimits) bool {
	var d Decoder
	for len(b) > 0 && !d.HasEnded() {
		n, err := d.SkipFraming(b, r)
		if err != nil {
			return false
		}
		b = b[n:]
		if n = int(min(d.PayloadLeft(), int64(len(b)))); n > 0 {
			d.Consume(int64(n))
			b = b[n:]
		}
	}
	return d.HasEnded() && len(b) > 0
}

func (d *Decoder) decodeByte(b byte, r *ExtraLimits) error {
	switch d.state {
	case stateInSize:
		return d.parseSizeByte(b, r)
	case stateInBlanks:
		switch {
		case b == ';':
			d.state = stateAtExtension
		case !httptoken.IsBlank(b):
			return ErrMalformed
		}
		return d.acceptSkippedByte(b, r.MaxExtensions)
	case stateAtExtension:
		switch {
		case httptoken.IsTokenByte(b):
			d.state = stateInExtensionName
		case !httptoken.IsBlank(b):
			return ErrMalformed
		}
		return d.acceptSkippedByte(b, r.MaxExtensions)
	case stateInExtensionName, stateInExtension:
		switch {
		case b == '\r':
			d.state = stateAtSizeLF
			return nil
		case d.state == stateInExtensionName && (b == '=' || httptoken.IsBlank(b)):
			d.state = stateInExtension // values may be quoted strings, so they are skipped
		case d.state == stateInExtensionName && b == ';':
			d.state = stateAtExtension
		case d.state == stateInExtensionName && !httptoken.IsTokenByte(b):
			return ErrMalformed
		}
		return d.acceptSkippedByte(b, r.MaxExtensions)
	case stateAtSizeLF:
		d.digits = 0
		if !r.Total {
			d.skipped = 0
		}
		if d.payload == 0 {
			return d.expectByte(b, '\n', stateAtTrailer)
		}
		return d.expectByte(b, '\n', stateInPayload)
	case stateAtPayloadCR:
		return d.expectByte(b, '\r', stateAtPayloadLF)
	case stateAtPayloadLF:
		return d.expectByte(b, '\n', stateInSize)
	case stateAtTrailer:
		switch {
		case b == '\r':
			d.state = stateAtEndLF
			return nil
		case httptoken.IsBlank(b) && !r.Folded:
			return ErrMalformed
		}
		d.state = stateInTrailer
		return d.parseTrailerByte(b, r)
	case stateInTrailer:
		return d.parseTrailerByte(b, r)
	case stateAtTrailerLF:
		return d.expectByte(b, '\n', stateAtTrailer)
	case stateAtEndLF:
		return d.expectByte(b, '\n', stateAtEnd)
	}
	panic("BUG: chunk framing is not read in its payload or after its end")
}

func (d *Decoder) parseSizeByte(b byte, r *ExtraLimits) error {
	var digit byte
	switch {
	case '0' <= b && b <= '9':
		digit = b - '0'
	case 'a' <= b|0x20 && b|0x20 <= 'f':
		digit = b | 0x20 - 'a' + 10
	case d.digits == 0:
		return ErrMalformed
	case b == '\r':
		d.state = stateAtSizeLF
		return nil
	case b == ';':
		d.state = stateAtExtension
		return d.acceptSkippedByte(b, r.MaxExtensions)
	case httptoken.IsBlank(b):
		d.state = stateInBlanks
		return d.acceptSkippedByte(b, r.MaxExtensions)
	default:
		return ErrMalformed
	}
	// Four more bits must fit in a positive int64.
	if d.digits++; d.digits > r.MaxDigits || d.payload>>58 != 0 {
		return ErrMalformed
	}
	d.payload = d.payload<<4 | int64(digit)
	return nil
}

func (d *Decoder) parseTrailerByte(b byte, r *ExtraLimits) error {
	if b == '\r' {
		d.state = stateAtTrailerLF
		return nil
	}
	return d.acceptSkippedByte(b, r.MaxTrailers)
}

// acceptSkippedByte counts a byte of an extension or trailer.
func (d *Decoder) acceptSkippedByte(b byte, limit int) error {
	if b < ' ' && b != '\t' || b == 0x7f {
		return ErrMalformed
	}
	if d.skipped++; int(d.skipped) > limit {
		return ErrTooLarge
	}
	return nil
}

// expectByte changes to the state next if b is the required byte. Otherwise the state does not
// change, so that parsing the same byte again returns the same error. The caller can therefore
// first return the payload that precedes the error.
func (d *Decoder) expectByte(b, want byte, next decoderState) error {
	if b != want {
		return ErrMalformed
	}
	d.state = next
	return nil
}
