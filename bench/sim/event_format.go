package sim

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// eventFormat is the way events are written. The zero value is what every engine does; the rest is
// legal too.
type eventFormat struct {
	eol       string // "\n" when empty; "\r\n", "\r"
	nospace   bool   // no blank after the colon
	comments  bool   // a comment before every event
	multiline bool   // data in several lines
	fields    bool   // event, id and retry lines
	bom       bool   // a byte order mark first
	escaped   bool   // \u escapes for everything beyond ASCII
	openEnd   bool   // no blank line after the last event
}

// append writes the n-th event (from 1), with a name unless that is empty.
func (f *eventFormat) append(dst []byte, n int, name string, data []byte) []byte {
	if *f == (eventFormat{}) {
		if name != "" {
			dst = append(append(append(dst, "event: "...), name...), '\n')
		}
		dst = append(dst, "data: "...)
		dst = append(dst, data...)
		return append(dst, "\n\n"...)
	}
	eol := f.eol
	if eol == "" {
		eol = "\n"
	}
	if f.escaped {
		data = escapeAll(data)
	}
	if f.comments {
		dst = append(dst, ": ping "...)
		dst = strconv.AppendInt(dst, int64(n), 10)
		dst = append(dst, eol...)
		dst = append(dst, eol...)
		dst = append(dst, ':')
		dst = append(dst, eol...)
	}
	if name == "" && f.fields {
		name = "message"
	}
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), eol...)
	}
	if f.fields {
		dst = append(dst, "id: "...)
		dst = strconv.AppendInt(dst, int64(n), 10)
		dst = append(dst, eol...)
		dst = append(dst, "retry: 3000"...)
		dst = append(dst, eol...)
	}
	line := func(p []byte) {
		dst = append(dst, "data:"...)
		if !f.nospace {
			dst = append(dst, ' ')
		}
		dst = append(dst, p...)
		dst = append(dst, eol...)
	}
	if f.multiline && len(data) > 2 && data[0] == '{' && data[len(data)-1] == '}' {
		// A line break next to an outer brace means nothing to JSON.
		line(data[:1])
		line(data[1 : len(data)-1])
		line(data[len(data)-1:])
	} else {
		line(data)
	}
	if f.openEnd && bytes.Equal(data, doneMark) {
		return dst
	}
	return append(dst, eol...)
}

var doneMark = []byte("[DONE]")

// escapeAll writes every character beyond ASCII as \u escapes, in pairs where one is not enough.
func escapeAll(p []byte) []byte {
	dst := make([]byte, 0, len(p)+16)
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		switch {
		case r < utf8.RuneSelf:
			dst = append(dst, byte(r))
		case r > 0xffff:
			r -= 0x10000
			dst = appendU(dst, 0xd800+r>>10)
			dst = appendU(dst, 0xdc00+r&0x3ff)
		default:
			dst = appendU(dst, r)
		}
		p = p[n:]
	}
	return dst
}

func appendU(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

// appendString writes s as a JSON string.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

// appendEscaped writes s as the inside of a JSON string; what is not UTF-8 becomes U+FFFD.
func appendEscaped(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		if b >= 0x20 && b != '"' && b != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		}
		i++
		start = i
	}
	return append(dst, s[start:]...)
}
