package wire

import (
	"strconv"
	"unicode/utf8"
)

// AppendString appends s as a JSON string.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = AppendEscaped(dst, s)
	return append(dst, '"')
}

// AppendEscaped appends s in the form that it has inside a JSON string. It replaces invalid UTF-8
// with U+FFFD.
func AppendEscaped(dst []byte, s string) []byte {
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

// JSONBuilder is JSON text that is written piece by piece.
type JSONBuilder []byte

// AddRaw appends JSON text unchanged.
func (o *JSONBuilder) AddRaw(texts ...string) *JSONBuilder {
	for _, t := range texts {
		*o = append(*o, t...)
	}
	return o
}

// Quote appends v as a JSON string.
func (o *JSONBuilder) Quote(v string) *JSONBuilder {
	*o = AppendString(*o, v)
	return o
}

// QuoteOrNull appends v as a JSON string, or null if v is empty.
func (o *JSONBuilder) QuoteOrNull(v string) *JSONBuilder {
	if v == "" {
		return o.AddRaw("null")
	}
	return o.Quote(v)
}

// Int appends a number.
func (o *JSONBuilder) Int(n int) *JSONBuilder {
	*o = strconv.AppendInt(*o, int64(n), 10)
	return o
}
