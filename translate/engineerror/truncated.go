package engineerror

import "bytes"

// maxMessageString exceeds the length of any message shown to clients, even if the message contains
// nested errors.
const maxMessageString = 16 << 10

// StringShortener truncates long strings in JSON that arrives in pieces. If the text is not JSON,
// only its start is retained. The zero value is ready for one body.
type StringShortener struct {
	text    bool
	skip    bool
	size    int  // bytes of the string so far
	escaped bool // the last byte was the backslash of an escape
	digits  int  // remaining digits of a numeric escape
}

// Append appends the retained part of the next piece.
func (s *StringShortener) Append(dst, p []byte) []byte {
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
		if s.size++; s.text && s.size > maxMessageString && !within {
			s.skip = true
		}
		if !s.skip {
			dst = append(dst, b)
		}
	}
	return dst
}

// closeContainers closes all open containers and a truncated string value. It omits the last member
// if its name or value is incomplete.
func closeContainers(body []byte) []byte {
	var (
		open []byte // closing brackets of the containers, the outermost first
		// All elements and members before this offset are complete, or closeContainers can complete them.
		whole   int
		depth   int
		text    bool
		begin   int
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
	if text && isMemberValue(body[:begin]) {
		out = append(bytes.ToValidUTF8(trimPartialEscape(body), nil), '"')
		depth = len(open)
	}
	for i := depth - 1; i >= 0; i-- {
		out = append(out, open[i])
	}
	return out
}

// isMemberValue reports whether a string that follows the text before is a member's value rather
// than its name.
func isMemberValue(before []byte) bool { return bytes.HasSuffix(bytes.TrimSpace(before), []byte{':'}) }

func trimPartialEscape(s []byte) []byte {
	for i := len(s) - 1; i >= 0 && i > len(s)-7; i-- {
		if s[i] != '\\' {
			continue
		}
		from := i
		for from > 0 && s[from-1] == '\\' {
			from--
		}
		if (i-from)%2 == 0 && (i == len(s)-1 || s[i+1] == 'u' && i+6 > len(s)) {
			return s[:i] // an odd number of backslashes: the last one starts an escape
		}
		break
	}
	return s
}
