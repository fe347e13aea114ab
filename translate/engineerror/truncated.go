package engineerror

import "bytes"

// maxText is how much a Shortener leaves of a string: more than is shown of a message, also
// where that has others in it.
const maxText = 16 << 10

// Shortener takes the ends of long strings out of JSON that comes in pieces. What was JSON is still
// JSON, and what is no JSON keeps its beginning. The zero value is ready for one body.
type Shortener struct {
	text    bool // within a string
	skip    bool // behind what is left of it
	size    int  // bytes of it so far
	escaped bool // the last byte was the backslash of an escape
	digits  int  // that are left of an escape by number
}

// Append appends what is left of the next piece.
func (s *Shortener) Append(dst, p []byte) []byte {
	for _, b := range p {
		within := s.escaped || s.digits > 0 || b&0xc0 == 0x80 // of an escape, or of a character
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

// closeOpen makes JSON of the beginning of one: the string that it breaks off in, if it is a value,
// and all that is open are closed; a member without a whole name or the beginning of its value is
// left out. What was no JSON is none after it.
func closeOpen(body []byte) []byte {
	var (
		open    []byte // what closes the containers, the outermost first
		whole   int    // up to here, and with as many of them as
		depth   int    // this, everything is a whole element or member, or can become one
		text    bool   // within a string
		begin   int    // where that began
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
			open = append(open, c+2) // its counterpart in ASCII
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

// isValue reports whether a string behind before is a member's value: its name would stand behind a
// comma or a brace.
func isValue(before []byte) bool { return bytes.HasSuffix(bytes.TrimSpace(before), []byte{':'}) }

// cutEscape returns the beginning of a string without the part of an escape that may be at its end.
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
			return s[:i] // of an odd number of backslashes the last one begins an escape
		}
		break
	}
	return s
}
