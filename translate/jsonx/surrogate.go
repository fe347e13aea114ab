package jsonx

import "bytes"

const escapeLength = len(`\u0000`)

// HasLoneSurrogate reports whether v is a string with a \u escape for half a surrogate pair.
func (v Value) HasLoneSurrogate() bool { return v.IsString() && v.node().flags&flagLoneSurrogate != 0 }

// ReplaceLoneSurrogates replaces each \u escape for half a surrogate pair in text with \ufffd,
// which has the same length. text must be valid JSON or a piece of valid JSON that splits no
// escape.
func ReplaceLoneSurrogates(text []byte) {
	for i := 0; ; {
		n := bytes.IndexByte(text[i:], '\\')
		if n < 0 {
			return
		}
		switch i += n; {
		case !isSurrogate(text[i:]):
			i += 2
		case isPairedSurrogate(text, i):
			i += 2 * escapeLength
		default:
			i += copy(text[i:], `\ufffd`)
		}
	}
}

func isSurrogate(s []byte) bool {
	return len(s) >= escapeLength && s[1] == 'u' && s[2]|0x20 == 'd' && s[3] >= '8'
}

// SplitHighSurrogate splits a trailing escape for the first half of a surrogate pair off the
// contents of a JSON string.
func SplitHighSurrogate(contents []byte) (text, high []byte) {
	n := len(contents) - escapeLength
	if n < 0 || contents[n] != '\\' || !isSurrogate(contents[n:]) || contents[n+3]|0x20 >= 'c' {
		return contents, nil
	}
	i := n
	for i > 0 && contents[i-1] == '\\' {
		i--
	}
	if (n-i)%2 != 0 { // an escaped backslash and the letter u
		return contents, nil
	}
	return contents[:n], contents[n:]
}
