package chunked

import (
	"bytes"
	"errors"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
)

// Limits for requests and responses that are small enough for the tests.
var (
	strict  = &ExtraLimits{MaxDigits: 16, MaxExtensions: 8, MaxTrailers: 8, Folded: true}
	lenient = &ExtraLimits{MaxDigits: 15, MaxExtensions: 16, MaxTrailers: 16, Total: true}
)

// decode passes a body to a Decoder in pieces of n bytes, like a reader that consumes payload from
// its buffer.
func decode(b []byte, n int, r *ExtraLimits) (payload []byte, rest int, err error) {
	var d Decoder
	for len(b) > 0 && !d.HasEnded() {
		piece := b[:min(n, len(b))]
		for at := 0; at < len(piece); {
			m, err := d.SkipFraming(piece[at:], r)
			if at += m; err != nil {
				return payload, len(b) - at, err
			}
			if d.HasEnded() {
				return payload, len(b) - at, nil
			}
			m = int(min(d.PayloadLeft(), int64(len(piece)-at)))
			payload = append(payload, piece[at:at+m]...)
			if at += m; m > 0 {
				d.Consume(int64(m))
			}
		}
		b = b[len(piece):]
	}
	if !d.HasEnded() {
		err = io.ErrUnexpectedEOF
	}
	return payload, len(b), err
}

func TestBodies(t *testing.T) {
	const cut = "cut"
	for _, c := range []struct{ body, payload, strict, lenient string }{
		{body: "0\r\n\r\n"},
		{body: "3\r\nabc\r\n0\r\n\r\n", payload: "abc"},
		{body: "3\r\nabc\r\n1;x\r\nd\r\n000\r\nX: y\r\n\r\n", payload: "abcd"},
		{body: "A\r\n0123456789\r\n0\r\n\r\n", payload: "0123456789"},
		{body: "3\r\nab", payload: "ab", strict: cut, lenient: cut},
		{body: "0\r\n", strict: cut, lenient: cut},
		// sizes
		{body: "\r\n", strict: "malformed", lenient: "malformed"},
		{body: "-1\r\n", strict: "malformed", lenient: "malformed"},
		{body: "0x1\r\na\r\n", strict: "malformed", lenient: "malformed"},
		{body: " 1\r\na\r\n", strict: "malformed", lenient: "malformed"},
		{body: "000000000000001\r\na\r\n0\r\n\r\n", payload: "a"},
		{body: "0000000000000001\r\na\r\n0\r\n\r\n", payload: "a", lenient: "malformed"},
		{body: "00000000000000001\r\na\r\n0\r\n\r\n", strict: "malformed", lenient: "malformed"},
		{body: "3fffffffffffffff\r\na", payload: "a", strict: cut, lenient: "malformed"},
		{body: "4000000000000000\r\na", strict: "malformed", lenient: "malformed"},
		{body: "fffffffffffffff\r\na", payload: "a", strict: cut, lenient: cut},
		// line ends
		{body: "1\na\r\n", strict: "malformed", lenient: "malformed"},
		{body: "1\r\ra", strict: "malformed", lenient: "malformed"},
		{body: "1\r\na\n0\r\n\r\n", payload: "a", strict: "malformed", lenient: "malformed"},
		{body: "1\r\nab\r\n0\r\n\r\n", payload: "a", strict: "malformed", lenient: "malformed"},
		{body: "0\r\n\n", strict: "malformed", lenient: "malformed"},
		{body: "0\r\nX: y\n\r\n", strict: "malformed", lenient: "malformed"},
		// spaces, tabs and extensions
		{body: "1 \r\na\r\n0\r\n\r\n", strict: "malformed", lenient: "malformed"},
		{body: "1;\r\na\r\n0\r\n\r\n", strict: "malformed", lenient: "malformed"},
		{body: "1;x[=y\r\na\r\n0\r\n\r\n", strict: "malformed", lenient: "malformed"},
		{body: "1; x = \"y\"\r\na\r\n0\r\n\r\n", payload: "a", strict: "large"},
		{body: "1;x;y=z\r\na\r\n0\r\n\r\n", payload: "a"},
		{body: "1;x;\r\na\r\n0\r\n\r\n", strict: "malformed", lenient: "malformed"},
		{body: "1 \t ;x\r\na\r\n0\r\n\r\n", payload: "a"},
		{body: "1 x\r\na\r\n", strict: "malformed", lenient: "malformed"},
		{body: "1;\x01\r\na\r\n", strict: "malformed", lenient: "malformed"},
		{body: "1;2345678\r\na\r\n0\r\n\r\n", payload: "a"},
		{body: "1;23456789\r\na\r\n0\r\n\r\n", payload: "a", strict: "large"},
		{body: "1;2345678\r\na\r\n1;2345678\r\nb\r\n0\r\n\r\n", payload: "ab"},
		{body: "1;2345678\r\na\r\n1;2345678\r\nb\r\n0;x\r\n\r\n", payload: "ab", lenient: "large"},
		{body: "1;2345678\r\na\r\n0\r\n12345678\r\n\r\n", payload: "a"},
		{body: "1;2345678\r\na\r\n0;x\r\n12345678\r\n\r\n", payload: "a", lenient: "large"},
		// trailers
		{body: "0\r\n1234\r\n5678\r\n\r\n"},
		{body: "0\r\n1234\r\n56789\r\n\r\n", strict: "large"},
		{body: "0\r\na\x00\r\n\r\n", strict: "malformed", lenient: "malformed"},
		{body: "0\r\na\r\n b\r\n\r\n", lenient: "malformed"},
	} {
		for rules, want := range map[*ExtraLimits]string{strict: c.strict, lenient: c.lenient} {
			for n := 1; n <= len(c.body); n++ {
				payload, _, err := decode([]byte(c.body), n, rules)
				got := ""
				switch {
				case errors.Is(err, ErrMalformed):
					got = "malformed"
				case errors.Is(err, ErrTooLarge):
					got = "large"
				case err != nil:
					got = cut
				}
				if got != want || want == "" && string(payload) != c.payload || !strings.HasPrefix(c.payload, string(payload)) {
					t.Errorf("%q in pieces of %d (strict: %v): %q and %q, want %q and %q", c.body, n, rules == strict, payload, got, c.payload, want)
				}
			}
		}
	}
}

// TestAnySplitDecodesEqually checks that the result does not depend on how a body is cut into
// pieces, or on whether its payload is moved or copied. If the standard library accepts the body,
// it must read the same payload.
func TestAnySplitDecodesEqually(t *testing.T) {
	for body, want := range map[string]string{
		"3\r\nabc\r\n": "abc", "a\r\n0123456789\r\n": "0123456789", "00A\r\n0123456789\r\n": "0123456789",
		"": "", "3": "", "3\r\n": "", "3\r\nabc": "", "3\r\nabc\r": "", "3\r\nabcd\r": "", "3\r\nabc\r\n0": "", "3\nabc\r\n": "",
		"3;x\r\nabc\r\n": "", "0\r\n\r\n": "", "\r\nabc\r\n": "", "ffffff\r\n\r\n": "", "0000003\r\nabc\r\n": "",
	} {
		if got := new(Decoder).SingleChunkPayload([]byte(body)); string(got) != want || cap(got) != len(got) {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
	var d Decoder
	if _, err := d.SkipFraming([]byte("3\r\n"), strict); err != nil {
		t.Fatal(err)
	}
	if got := d.SingleChunkPayload([]byte("3\r\nabc\r\n")); got != nil {
		t.Errorf("within a chunk: %q, want nothing", got)
	}
	d = Decoder{}
	if _, err := d.SkipFraming([]byte("0"), strict); err != nil {
		t.Fatal(err)
	}
	if got := d.SingleChunkPayload([]byte("3\r\nabc\r\n")); got != nil {
		t.Errorf("within a size: %q, want nothing", got)
	}
}

func FuzzBodies(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n"), uint8(0), true)
	for _, s := range []string{"3\r\nabc\r\n1;x\r\nd\r\n0\r\nX: y\r\n\r\nmore", "1 ;x = \"y\";z\r\na\r\n0\r\n\r\n", "4000000000000000\r\na"} {
		f.Add([]byte(s), uint8(0), true)
		f.Add([]byte(s), uint8(3), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, n uint8, tight bool) {
		rules := lenient
		if tight {
			rules = strict
		}
		want, rest, wantErr := decode(body, len(body)+1, rules)
		if got, left, err := decode(body, int(n)+1, rules); !bytes.Equal(got, want) || left != rest || !errors.Is(err, wantErr) {
			t.Errorf("in pieces of %d: %q, %d left, %v; at once: %q, %d left, %v", int(n)+1, got, left, err, want, rest, wantErr)
		}
		var d Decoder
		moved := bytes.Clone(body)
		payload, read, err := d.Unframe(moved, rules)
		if err == nil && !d.HasEnded() {
			err = io.ErrUnexpectedEOF
		}
		if !bytes.Equal(moved[:payload], want) || len(body)-read != rest || !errors.Is(err, wantErr) {
			t.Errorf("moved: %q, %d left, %v; copied: %q, %d left, %v", moved[:payload], len(body)-read, err, want, rest, wantErr)
		}
		if whole := new(Decoder).SingleChunkPayload(body); whole != nil && (!bytes.Equal(whole, want) || d != Decoder{}) {
			t.Errorf("as a whole chunk: %q, want %q; and the position %v", whole, want, d)
		}
		if wantErr != nil {
			return
		}
		if std, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body))); err == nil && !bytes.Equal(std, want) {
			t.Errorf("%q, and the standard library reads %q", want, std)
		}
	})
}

func TestEndsBefore(t *testing.T) {
	for body, want := range map[string]bool{
		"":                                   false,
		"3\r\none\r\n":                       false,
		"3\r\none\r\n0\r\n\r\n":              false,
		"3\r\none\r\n0\r\n\r\nHTTP/1.1":      true,
		"0\r\n\r\nH":                         true,
		"3;a=b\r\none\r\n0\r\nX: y\r\n\r\nH": true,
		"ff\r\n0\r\n\r\nH":                   false,
		"3\r\noneH":                          false,
	} {
		if got := HasBytesAfterBody([]byte(body), strict); got != want {
			t.Errorf("%q: %v, want %v", body, got, want)
		}
	}
}
