package httptoken

import (
	"strings"
	"testing"
)

func TestIsToken(t *testing.T) {
	for c := range 256 {
		// RFC 9110, 5.6.2: any visible ASCII character except delimiters.
		want := c > ' ' && c < 0x7f && !strings.ContainsRune("\"(),/:;<=>?@[\\]{}", rune(c))
		one := []byte{byte(c)}
		if IsTokenByte(byte(c)) != want || IsToken(one) != want || IsToken("a"+string(one)) != want {
			t.Errorf("IsTokenByte and IsToken of %#x do not all say %v", c, want)
		}
	}
	if IsToken("") {
		t.Error("an empty token")
	}
}

func TestHasControl(t *testing.T) {
	for c := range 256 {
		want := (c < ' ' || c == 0x7f) && c != '\t'
		if one := []byte{'a', byte(c)}; HasControl(one) != want || HasControl(string(one)) != want {
			t.Errorf("HasControl of %#x is not %v", c, want)
		}
		for n := range 20 { // every offset in a word of eight bytes
			for at := range n {
				text := []byte(strings.Repeat("\t~\x80\xff ", 4)[:n])
				text[at] = byte(c)
				if HasControl(text) != want || HasControl(string(text)) != want {
					t.Errorf("%#x at %d of %d: not %v", c, at, n, want)
				}
			}
		}
		if IsBlank(byte(c)) != (c == ' ' || c == '\t') {
			t.Errorf("IsBlank(%#x) = %v, want %v", c, IsBlank(byte(c)), !IsBlank(byte(c)))
		}
	}
}

func TestTrimBlanks(t *testing.T) {
	for _, text := range []string{"", " ", "\t \t", "a", " a", "a\t", " \ta b\t ", "\ra\n"} {
		if got, want := TrimBlanks(text), strings.Trim(text, " \t"); got != want || string(TrimBlanks([]byte(text))) != want {
			t.Errorf("TrimBlanks(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestEqualFold(t *testing.T) {
	for _, c := range []struct {
		b, lower string
		want     bool
	}{
		{"", "", true},
		{"Host", "host", true},
		{"HOST", "host", true},
		{"hos", "host", false},
		{"hosts", "host", false},
		{"x-[a]", "x-[a]", true},
		{"x-{a}", "x-[a]", false}, // the bytes differ by 0x20, but are not letters
		{"\u212aey", "key", false},
		{"\u212a", "\u212a", true},
		{"Content-Type", "content-type", true},
		{"CONTENT-LENGTH", "content-length", true},
		{"Content\rType", "content-type", false}, // 0x20 apart
		{"content-typd", "content-type", false},
		{"cOntent{type", "content[type", false},
	} {
		if got := EqualFold([]byte(c.b), c.lower); got != c.want {
			t.Errorf("EqualFold(%q, %q) = %v, want %v", c.b, c.lower, got, c.want)
		}
	}
}

// TestEqualFoldOfAnyLength checks EqualFold for texts of every length up to four words. In each
// text, it replaces each byte with every other byte.
func TestEqualFoldOfAnyLength(t *testing.T) {
	const all = "content-[a]~z9-transfer-encoding"
	for n := range len(all) {
		lower := all[:n]
		for at := range n {
			for c := range 256 {
				text := []byte(strings.ToUpper(lower))
				text[at] = byte(c)
				if got, want := EqualFold(text, lower), equalFoldShort(text, lower); got != want || EqualFold(string(text), lower) != want {
					t.Errorf("%q and %q: %v", text, lower, got)
				}
			}
		}
	}
}
