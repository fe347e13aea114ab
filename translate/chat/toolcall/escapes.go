package toolcall

import "bytes"

// HasEscapes reports whether arguments may contain an escape that ReplaceLoneEscapes examines, or
// end with the start of one. arguments are the contents of a JSON string.
func HasEscapes(arguments []byte) bool {
	return bytes.HasSuffix(arguments, escapedBackslash) || bytes.Contains(arguments, argumentEscapePrefix)
}

var (
	escapedBackslash     = []byte(`\\`)
	argumentEscapePrefix = []byte(`\\u`)
)

// ReplaceLoneEscapes replaces escapes of lone surrogates within the arguments with \ufffd. Unless
// this is the last piece, the meaning of an escape at the end depends on the next piece.
// ReplaceLoneEscapes returns the offset of such an escape, or the length of the arguments.
func ReplaceLoneEscapes(arguments []byte, last bool) int {
	for i := 0; ; {
		n := bytes.IndexByte(arguments[i:], '\\')
		if n < 0 || i+n+1 == len(arguments) {
			return len(arguments)
		}
		i += n
		if arguments[i+1] != '\\' { // an escape of the outer string
			i += len(`\n`)
			continue
		}
		size, kind := parseArgumentEscape(arguments[i:])
		switch kind {
		case escapeCut:
			if !last {
				return i
			}
			return len(arguments)
		case escapeHigh:
			next, kind := parseArgumentEscape(arguments[i+size:])
			switch {
			case kind == escapeLow:
				size += next
			case !last && (i+size == len(arguments) || kind == escapeCut):
				return i
			default:
				copy(arguments[i+len(`\\u`):], "fffd")
			}
		case escapeLow:
			copy(arguments[i+len(`\\u`):], "fffd")
		case escapeOther:
		}
		i += size
	}
}

type escapeKind uint8

const (
	escapeOther escapeKind = iota // not half of a pair, or not an escape
	escapeHigh
	escapeLow
	escapeCut // the escape is incomplete
)

func parseArgumentEscape(text []byte) (size int, kind escapeKind) {
	const begin, whole = len(`\\u`), len(`\\u0000`)
	switch {
	case !bytes.HasPrefix(text, escapedBackslash):
		return 0, escapeOther
	case len(text) < begin:
		return len(text), escapeCut
	case text[begin-1] == '\\': // a backslash or a quote
		return begin + 1, escapeOther
	case text[begin-1] != 'u':
		return begin, escapeOther
	}
	for i := begin; i < whole; i++ {
		if i == len(text) {
			return i, escapeCut
		}
		if c := text[i] | 0x20; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return begin, escapeOther
		}
	}
	switch c := text[begin+1] | 0x20; {
	case text[begin]|0x20 != 'd' || c < '8':
		return whole, escapeOther
	case c < 'c':
		return whole, escapeHigh
	}
	return whole, escapeLow
}
