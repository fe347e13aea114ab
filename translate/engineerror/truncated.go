package engineerror

import "bytes"

// maxText is the number of bytes of a string that a Shortener keeps. It is more than is shown of a
// message, even if the message contains other errors.
const maxText = 16 << 10

// Shortener truncates long strings in JSON that arrives in pieces. JSON stays JSON. Of any other
// text only the start is kept. The zero value is ready for one body.
type Shortener struct {
	text    bool // inside a string
	skip    bool // past the kept part of the string
	size    int  // bytes of the string so far
	escaped bool // the last byte was the backslash of an escape
	digits  int  // remaining digits of a numeric escape
}

// Append appends what is kept of the next piece.
func (s *Shortener) Append(dst, p []byte) []byte {
	for _, b := range p {
		within := s.escaped || s.digits > 0 || b&0xc0 == 0x80 // inside an escape or a character
		switch {
		case !s.text:
			s.text, s.skip, s.size = b == '"', false, 0
		case s.escaped:
			if s.escaped = false; b == 'u' {
				s.digits = 4
			}
		case s.digits > 0:
			s.digits--
		case b == '"':
			s.text, s.skip = false, false
		case b == '\\':
			s.escaped = true
		}
		if s.size++; s.text && s.size > maxText && !within {
			s.skip = true
		}
		if !s.skip {
			dst = append(dst, b)
		}
	}
	return dst
}

// closeOpen completes a truncated JSON text. It closes all open containers. If the text breaks off
// in a string that is a value, it also closes that string. It omits a last member whose name is
// incomplete or whose value is missing. A text that was not JSON does not become JSON.
func closeOpen(body []byte) []byte {
	var (
		open    []byte // closing brackets of the containers, the outermost first
		whole   int    // up to here every element and member is complete or can be completed
		depth   int    // number of open containers there
		text    bool   // inside a string
		begin   int    // start of the string
		escaped bool
	)
	for i, c := range body {
		switch {
		case escaped:
			escaped = false
		case text && c == '\\':
			escaped = true
		case c == '"':
			if text = !text; text {
				begin = i
			}
		case text:
		case c == '{', c == '[':
			open = append(open, c+2) // the closing bracket in ASCII
			whole, depth = i+1, len(open)
		case c == '}', c == ']':
			if len(open) == 0 {
				return nil
			}
			open = open[:len(open)-1]
			whole, depth = i+1, len(open)
		case c == ',':
			whole, depth = i, len(open)
		}
	}
	out := bytes.Clone(body[:whole])
	if text && isValue(body[:begin]) {
		out = append(bytes.ToValidUTF8(cutEscape(body), nil), '"')
		depth = len(open)
	}
	for i := depth - 1; i >= 0; i-- {
		out = append(out, open[i])
	}
	return out
}

// isValue reports whether the string after the text before is a member's value. A name would follow
// a comma or a brace.
func isValue(before []byte) bool { return bytes.HasSuffix(bytes.TrimSpace(before), []byte{':'}) }

// cutEscape removes an incomplete escape from the end of a truncated string.
func cutEscape(s []byte) []byte {
	for i := len(s) - 1; i >= 0 && i > len(s)-7; i-- {
		if s[i] != '\\' {
			continue
		}
		from := i
		for from > 0 && s[from-1] == '\\' {
			from--
		}
		if (i-from)%2 == 0 && (i == len(s)-1 || s[i+1] == 'u' && i+6 > len(s)) {
			return s[:i] // the last of an odd number of backslashes starts an escape
		}
		break
	}
	return s
}
