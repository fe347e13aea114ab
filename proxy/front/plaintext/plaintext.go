// Package plaintext makes untrusted text safe to print. All pages for terminals, all commands and
// the load tester use this package to print text from engines, result files and other edges.
//
// # Design
//
// A terminal interprets some characters as commands, which can move the cursor, set the title, send
// input as if the user had typed it, or reorder text. An attacker does not even need to control an
// engine, because users also exchange result files. Text is therefore cleaned where it is written,
// not where it is read, so that fields added later are covered too. Control characters (C0, DEL,
// C1), format characters (bidirectional marks, zero-width characters) and invalid UTF-8 are each
// replaced by a question mark. Letters of any script are unchanged. In EscapeJSON, these characters
// are escaped instead, so that values do not change.
package plaintext

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CleanLine cleans a text that must fit on a single line. Unlike CleanText, it replaces line breaks
// and tabs.
func CleanLine(s string) string { return cleanText(s, "") }

// CleanText cleans a text that may have multiple lines. It does not replace line breaks and tabs.
func CleanText(s string) string { return cleanText(s, "\n\t") }

func cleanText(s, but string) string {
	return strings.Map(func(r rune) rune {
		if isUnsafeRune(r) && !strings.ContainsRune(but, r) {
			return '?'
		}
		return r
	}, s) // converting to a string replaces invalid bytes with utf8.RuneError
}

// isUnsafeRune reports whether r may make a terminal do something other than display it.
func isUnsafeRune(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || r == utf8.RuneError
}

// EscapeJSON escapes the unsafe characters of a valid JSON document. Such characters can occur only
// in strings, whose values do not change.
func EscapeJSON(document []byte) []byte {
	out := make([]byte, 0, len(document))
	for _, r := range string(document) {
		switch {
		case r == '\n' || r == '\t' || r == '\r' || !isUnsafeRune(r):
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

// NewCleanWriter returns a writer that cleans each write with CleanText.
func NewCleanWriter(w io.Writer) io.Writer { return cleanWriter{w} }

type cleanWriter struct{ io.Writer }

func (w cleanWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, CleanText(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
