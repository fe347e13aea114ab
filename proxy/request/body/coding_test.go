package body

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"

	"penstock/proxy/access/limit"
)

func encode(t testing.TB, c contentCoding, text []byte) []byte {
	t.Helper()
	if c == codingZstd {
		w, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		return w.EncodeAll(text, nil)
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// decoded decodes a body. It returns status 200 and the text, or only the error status.
func decoded(t testing.TB, c contentCoding, encoded []byte, most, memory int64) (status int, text []byte) {
	t.Helper()
	budget := limit.NewMemoryBudget(memory)
	var b Body
	b.Reset(budget)
	if !b.reservation.Reserve(int64(len(encoded))) {
		t.Fatal("no room for the body itself")
	}
	b.client = newBuffer(int64(len(encoded)))
	*b.client = append(*b.client, encoded...)
	e := b.decompress(c, most)
	text = bytes.Clone(b.ClientBytes())
	held := b.reservation.reserved
	b.Release()
	if used := budget.UsedBytes(); used != 0 {
		t.Errorf("%d bytes stay reserved", used)
	}
	if e != nil {
		return e.Status, nil
	}
	if held < int64(len(text))-maxSmallBuffer {
		t.Errorf("%d bytes reserved for %d", held, len(text))
	}
	return 200, text
}

// TestDecode checks the three limits on the decoded length: the size limit, the available memory,
// and a hundred times the compressed length.
func TestDecode(t *testing.T) {
	noise := make([]byte, 3<<20)
	r := rand.NewChaCha8([32]byte{})
	_, _ = r.Read(noise)
	for i := range noise {
		noise[i] = "0123456789abcdef"[noise[i]&15]
	}
	spaces := bytes.Repeat([]byte(" "), 3<<20)
	for _, c := range []struct {
		name         string
		text         []byte
		most, memory int64
		status       int
	}{
		{"short", []byte(`{"model":"m"}`), 1 << 20, 1 << 20, 200},
		{"empty", nil, 1 << 20, 1 << 20, 200},
		{"long", noise, 4 << 20, 16 << 20, 200},
		{"just the limit", noise[:1<<20], 1 << 20, 16 << 20, 200},
		{"above the limit", noise[:1<<20+1], 1 << 20, 16 << 20, 413},
		{"little of much", spaces[:1<<20], 4 << 20, 16 << 20, 200},
		{"a bomb", spaces, 4 << 20, 16 << 20, 413},
		{"no memory", noise, 4 << 20, 4 << 20, 503},
	} {
		for _, coding := range []contentCoding{codingGzip, codingZstd} {
			status, text := decoded(t, coding, encode(t, coding, c.text), c.most, c.memory)
			if status != c.status || status == 200 && !bytes.Equal(text, c.text) {
				t.Errorf("%s in %s: %d, %d bytes; want %d", c.name, coding, status, len(text), c.status)
			}
		}
	}
	var wide bytes.Buffer // the length is unknown, so the frame header contains the window size
	w, err := zstd.NewWriter(&wide, zstd.WithWindowSize(16<<20))
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		_, _ = w.Write(noise)
	}
	_ = w.Close()
	if status, _ := decoded(t, codingZstd, wide.Bytes(), 64<<20, 256<<20); status != 400 {
		t.Errorf("a window of 16 MiB: %d", status)
	}
}

// TestDecode_Damaged checks that a body is rejected if it is truncated at any position or followed
// by an extra byte.
func TestDecode_Damaged(t *testing.T) {
	text := []byte(`{"model":"m","messages":[{"role":"user","content":"Say hello, hello, hello."}]}`)
	for _, coding := range []contentCoding{codingGzip, codingZstd} {
		whole := encode(t, coding, text)
		for n := 1; n < len(whole); n++ {
			if status, _ := decoded(t, coding, whole[:n], 1<<20, 1<<20); status != 400 {
				t.Errorf("%s, the first %d of %d bytes: %d", coding, n, len(whole), status)
			}
		}
		if status, _ := decoded(t, coding, append(whole, 'x'), 1<<20, 1<<20); status != 400 {
			t.Errorf("%s with a byte behind it: %d", coding, status)
		}
	}
}

func TestRequestContentCoding(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  contentCoding
	}{
		{nil, codingIdentity},
		{[]string{"identity"}, codingIdentity},
		{[]string{"gzip"}, codingGzip},
		{[]string{"GZip"}, codingGzip},
		{[]string{"zstd"}, codingZstd},
		{[]string{"br"}, codingOther},
		{[]string{"x-gzip"}, codingOther},
		{[]string{"gzip, zstd"}, codingOther},
		{[]string{"gzip", "gzip"}, codingOther},
		{[]string{"identity", "gzip"}, codingOther},
	} {
		var h fasthttp.RequestHeader
		for _, name := range c.names {
			h.Add("Content-Encoding", name)
		}
		if got := requestCoding(&h); got != c.want {
			t.Errorf("%q: %s, want %s", c.names, got, c.want)
		}
		h.SetMethod("POST")
		if e := CheckBodyHeaders(&h, true); (e == nil) != (c.want == codingIdentity) {
			t.Errorf("a form in %q: %v", c.names, e)
		}
	}
}

// FuzzDecode checks that decoding arbitrary bytes yields a body or an error, and releases all
// memory.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{"", "{}", `{"model":"m","messages":[]}`} {
		f.Add(encode(f, codingGzip, []byte(text)), false)
		f.Add(encode(f, codingZstd, []byte(text)), true)
	}
	f.Fuzz(func(t *testing.T, encoded []byte, zstd bool) {
		c := codingGzip
		if zstd {
			c = codingZstd
		}
		status, text := decoded(t, c, encoded, 1<<20, 8<<20)
		switch {
		case status == 200 && len(text) <= 1<<20:
		case status == 400, status == 413, status == 503:
		default:
			t.Errorf("%d with %d bytes", status, len(text))
		}
	})
}
