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
			t.Errorf("%#x: not %v", c, want)
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
			t.Errorf("%#x: not %v", c, want)
		}
		if IsBlank(byte(c)) != (c == ' ' || c == '\t') {
			t.Errorf("%#x: IsBlank", c)
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
		{"x-{a}", "x-[a]", false}, // 0x20 apart, and no letters
		{"\u212aey", "key", false},
		{"\u212a", "\u212a", true},
	} {
		if got := EqualFold([]byte(c.b), c.lower); got != c.want {
			t.Errorf("%q and %q: %v", c.b, c.lower, got)
		}
	}
}
