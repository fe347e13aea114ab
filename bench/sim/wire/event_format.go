package wire

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// EventFormat is the format in which events are written. Every engine uses the zero value. All
// other formats are legal, too.
type EventFormat struct {
	EOL       string // "\r\n" or "\r"; "\n" if empty
	NoSpace   bool   // no space after the colon
	Comments  bool   // a comment before every event
	Multiline bool   // data on more than one line
	Fields    bool   // lines for event, id and retry
	BOM       bool   // a byte order mark at the start
	Escaped   bool   // \u escapes for all characters outside ASCII
	OpenEnd   bool   // no blank line after the last event
}

// Append appends event number n, counting from 1. If the name is empty, the event has no event
// line.
func (f *EventFormat) Append(dst []byte, n int, name string, data []byte) []byte {
	if *f == (EventFormat{}) {
		if name != "" {
			dst = append(append(append(dst, "event: "...), name...), '\n')
		}
		dst = append(dst, "data: "...)
		dst = append(dst, data...)
		return append(dst, "\n\n"...)
	}
	eol := f.EOL
	if eol == "" {
		eol = "\n"
	}
	if f.Escaped {
		data = escapeNonASCII(data)
	}
	if f.Comments {
		dst = append(dst, ": ping "...)
		dst = strconv.AppendInt(dst, int64(n), 10)
		dst = append(dst, eol...)
		dst = append(dst, eol...)
		dst = append(dst, ':')
		dst = append(dst, eol...)
	}
	if name == "" && f.Fields {
		name = "message"
	}
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), eol...)
	}
	if f.Fields {
		dst = append(dst, "id: "...)
		dst = strconv.AppendInt(dst, int64(n), 10)
		dst = append(dst, eol...)
		dst = append(dst, "retry: 3000"...)
		dst = append(dst, eol...)
	}
	line := func(p []byte) {
		dst = append(dst, "data:"...)
		if !f.NoSpace {
			dst = append(dst, ' ')
		}
		dst = append(dst, p...)
		dst = append(dst, eol...)
	}
	if f.Multiline && len(data) > 2 && data[0] == '{' && data[len(data)-1] == '}' {
		// In JSON, a line break next to an outer brace is insignificant.
		line(data[:1])
		line(data[1 : len(data)-1])
		line(data[len(data)-1:])
	} else {
		line(data)
	}
	if f.OpenEnd && bytes.Equal(data, DoneData) {
		return dst
	}
	return append(dst, eol...)
}

// DoneData is the data of the event that ends a stream.
var DoneData = []byte("[DONE]")

// escapeNonASCII escapes every character outside ASCII as \u, with a surrogate pair if necessary.
func escapeNonASCII(p []byte) []byte {
	dst := make([]byte, 0, len(p)+16)
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		switch {
		case r < utf8.RuneSelf:
			dst = append(dst, byte(r))
		case r > 0xffff:
			r -= 0x10000
			dst = appendUnicodeEscape(dst, 0xd800+r>>10)
			dst = appendUnicodeEscape(dst, 0xdc00+r&0x3ff)
		default:
			dst = appendUnicodeEscape(dst, r)
		}
		p = p[n:]
	}
	return dst
}

func appendUnicodeEscape(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
