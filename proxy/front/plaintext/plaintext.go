// Package plaintext makes foreign text safe to print. Text from engines, result files and other
// edges reaches terminals only through it. The edge's pages for
// terminals, the commands and the load tester use it.
//
// # Design
//
// A terminal executes some characters as commands. It moves its cursor, sets its title, answers as
// if the user had typed, or shows text in a different order. An attacker does not need to control
// an engine, because users also pass result files around. So all text is cleaned where it is
// written, not where each name is read. This also covers names that are added later. Control
// characters (C0, DEL, C1), format characters (marks that reverse the direction of text, zero
// widths) and invalid UTF-8 each become one question mark. Letters of any script stay. In JSON the
// same characters are escaped, so no value changes.
package plaintext

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line cleans a text that must fit on one line. It also replaces line breaks and tabs.
func Line(s string) string { return clean(s, "") }

// Text cleans a text of several lines. It keeps line breaks and tabs.
func Text(s string) string { return clean(s, "\n\t") }

func clean(s, but string) string {
	return strings.Map(func(r rune) rune {
		if drives(r) && !strings.ContainsRune(but, r) {
			return '?'
		}
		return r
	}, s) // the conversion to runes replaces invalid bytes with replacement characters
}

// drives reports whether r may make a terminal do something other than display it.
func drives(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || r == utf8.RuneError
}

// JSON escapes the unprintable characters of a valid JSON document. These characters occur only in
// strings, whose values stay the same.
func JSON(document []byte) []byte {
	out := make([]byte, 0, len(document))
	for _, r := range string(document) {
		switch {
		case r == '\n' || r == '\t' || r == '\r' || !drives(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// Writer returns a writer that applies Text to each written piece and passes it to w.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ io.Writer }

func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
