package plaintext

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestText(t *testing.T) {
	for given, want := range map[string]string{
		"":                                 "",
		"llama-3.3-70b (vLLM 0.9)":         "llama-3.3-70b (vLLM 0.9)",
		"größe 東京 🚰":                       "größe 東京 🚰",
		"\x1b]0;title\x07":                 "?]0;title?",
		"\x1b[2Ja\rb\x08":                  "?[2Ja?b?",
		"\u009b31mred":                     "?31mred",
		"\xff\xfe":                         "??",
		"exe.\u202etxt":                    "exe.?txt",
		"zero\u200bwidth\ufeff":            "zero?width?",
		"line\u2028separator":              "line?separator",
		"two\n\tlines":                     "two\n\tlines",
		"\x7f":                             "?",
		"\U000e0041tag, which is a format": "?tag, which is a format",
	} {
		if got := CleanText(given); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
		if got := CleanLine(given); got != strings.NewReplacer("\n", "?", "\t", "?").Replace(want) {
			t.Errorf("%q becomes the line %q", given, got)
		}
	}
}

// TestHarmless checks that no output contains terminal commands, that clean text does not change,
// and that EscapeJSON does not change JSON values.
func TestHarmless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		line := CleanLine(s)
		if i := strings.IndexFunc(line, isUnsafeRune); i >= 0 {
			t.Fatalf("CleanLine(%q) = %q, want no character that acts as a command", s, line)
		}
		if CleanLine(line) != line || CleanText(line) != line {
			t.Fatalf("%q is cleaned twice", line)
		}
		var w bytes.Buffer
		if n, err := io.WriteString(NewCleanWriter(&w), s); n != len(s) || err != nil || w.String() != CleanText(s) {
			t.Fatalf("Writer wrote %d bytes of %q, %v: %q; want %q", n, s, err, w.String(), CleanText(s))
		}
		value := strings.ToValidUTF8(s, "")
		document, err := json.Marshal([]string{value})
		if err != nil {
			t.Fatal(err)
		}
		var back []string
		safe := EscapeJSON(document)
		if err := json.Unmarshal(safe, &back); err != nil || back[0] != value {
			t.Fatalf("JSON of %q = %q, %v; want the same value", value, safe, err)
		}
		if i := bytes.IndexFunc(safe, isUnsafeRune); i >= 0 {
			t.Fatalf("JSON of %q = %q, want no character that acts as a command", value, safe)
		}
	})
}
