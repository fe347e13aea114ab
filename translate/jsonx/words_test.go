package jsonx

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// scanBytewise does the same as scanString, but examines each byte separately.
func scanBytewise(s []byte, i int) (end int, flags uint8, reason string) {
	for i < len(s) {
		switch c := s[i]; {
		case c == '"':
			return i + 1, flags, ""
		case c < ' ':
			return i, 0, reasonControl
		case c == '\\':
			flags |= flagEscaped
			if i+1 == len(s) {
				return len(s), 0, reasonEnd
			}
			if strings.IndexByte(`"\/bfnrt`, s[i+1]) >= 0 {
				i += 2
				continue
			}
			var lone bool
			if i, lone, reason = scanUnicodeEscape(s, i); reason != "" {
				return i, 0, reason
			}
			if lone {
				flags |= flagLoneSurrogate
			}
		case c < utf8.RuneSelf:
			i++
		default:
			flags |= flagNonASCII
			r, n := utf8.DecodeRune(s[i:])
			if r == utf8.RuneError && n == 1 {
				return i, 0, reasonUTF8
			}
			i += n
		}
	}
	return len(s), 0, reasonEnd
}

// compareBytewise checks that the scans with and without vector code return the same results as
// scanBytewise.
func compareBytewise(t *testing.T, text []byte) {
	t.Helper()
	type result struct {
		end    int
		flags  uint8
		reason string
	}
	var want, got result
	want.end, want.flags, want.reason = scanBytewise(text, 1)
	for _, vector := range slices.Compact([]bool{false, hasVectorText}) {
		had := hasVectorText
		hasVectorText = vector
		got.end, got.flags, got.reason = scanString(text, 1)
		hasVectorText = had
		if got != want {
			t.Fatalf("vectors %v: %q: got %+v, want %+v", vector, text, got, want)
		}
	}
}

// TestSkipBlocksByWord checks valid and invalid bytes at every position in a block, between blocks of each
// kind.
func TestSkipBlocksByWord(t *testing.T) {
	kinds := []string{"a", `a\n`, "aä", `ä\"`, "Ж", "水", `\\`, "a€", "\U0001f600", `\u00e4`}
	items := []string{
		"ä", "Ж", "\u00df\u07ff", "水", "\U0001f600", `\n`, `\"`, `\\`, `\u00e4`, `\ud800`, `\ud83d\ude00`, `"`,
		"\x80", "\xc3", "\xc3(", "\xc0\x80", "\xc1\xbf", "\xc2\x80", "\xdf\xbf", "\xc3\xa4\xa4", "\xe0\x80\x80", "\xed\xa0\x80",
		"\xf5\x80\x80\x80", "\xff", "\x00", "\x1f", "\x7f", `\`, `\x`, "\\\x01", `\ä`, `\u00`, "!", " ", "#", "[", "]",
	}
	for _, before := range kinds {
		for _, item := range items {
			for at := range 70 {
				pad := strings.Repeat(before, 128/len(before)+1)
				text := fmt.Sprintf(`"%s%s%sc\n%s"`, pad, strings.Repeat("b", at), item, pad)
				compareBytewise(t, []byte(text))
			}
		}
	}
}

func FuzzSkipBlocksByWord(f *testing.F) {
	for _, body := range bodies {
		f.Add(body.src[:min(len(body.src), 1000)])
	}
	f.Add([]byte(`\\\\\"ä\né` + "\xc3\x28\x1f"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, n := range []int{0, 31, 62, 63, 64} {
			pad := strings.Repeat("a", n)
			compareBytewise(t, []byte(`"`+pad+string(text)+pad+strings.Repeat("ä", 40)+`"`))
		}
	})
}
