package sse

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"penstock/config/testkit/raced"
)

const chunk = `{"id":"chatcmpl-8f2a0c7d","object":"chat.completion.chunk","created":1733443200,"model":"llama-3.3-70b","choices":[{"index":0,"delta":{"content":" water"},"logprobs":null,"finish_reason":null}]}`

// repeatReader is a source that repeats the same text endlessly. Each read returns n bytes or, if n
// is 0, as many bytes as fit.
type repeatReader struct {
	text []byte
	pos  int
	n    int
}

func (l *repeatReader) Read(p []byte) (int, error) {
	if l.n > 0 {
		p = p[:min(l.n, len(p))]
	}
	for n := 0; n < len(p); {
		c := copy(p[n:], l.text[l.pos:])
		l.pos = (l.pos + c) % len(l.text)
		n += c
	}
	return len(p), nil
}

var streams = []struct {
	name string
	text string
}{
	{"chunk", "data: " + chunk + "\n\n"},
	{"named", "event: response.output_text.delta\ndata: " + chunk + "\n\n"},
	{"CRLF", "data: " + chunk + "\r\n\r\n"},
	{"joined", "data: " + chunk + "\nevent: x\ndata: " + chunk + "\n\n"},
	{"20KB", "data: " + strings.Repeat("x", 20_000) + "\n\n"},
	{"1MB", "data: " + strings.Repeat("x", 1<<20) + "\n\n"},
}

func BenchmarkReader(b *testing.B) {
	for _, s := range streams {
		for _, n := range []int{0, len(s.text)} {
			name := "full"
			if n > 0 {
				name = "perEvent"
			}
			b.Run(s.name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(s.text)))
				b.ReportAllocs()
				r := NewReader(&repeatReader{text: []byte(s.text), n: n}, 8<<20)
				for b.Loop() {
					if _, err := r.NextEvent(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	var dst []byte
	data := []byte(chunk)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendEvent(dst[:0], "message", data)
	}
}

// TestAllocs checks that reading does not allocate for any kind of event, as the package promises.
func TestAllocs(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector allocates")
	}
	var dst []byte
	for _, s := range streams {
		if len(s.text) > largeBufferBytes {
			continue // the buffer of such an event is not retained
		}
		for _, n := range []int{0, 7, len(s.text)} {
			r := NewReader(&repeatReader{text: []byte(s.text), n: n}, 8<<20)
			next := func() {
				ev, err := r.NextEvent()
				if err != nil {
					t.Fatal(err)
				}
				r.HasEvent()
				dst = AppendComment(AppendEvent(dst[:0], "x", ev.Data), "x")
			}
			for range 10 {
				next()
			}
			if got := testing.AllocsPerRun(100, next); got != 0 {
				t.Errorf("%s in reads of %d: %v allocations per event", s.name, n, got)
			}
		}
	}
	r := NewReader(nil, 0)
	src := bytes.NewReader(nil)
	text := []byte("data: a\n\n")
	got := testing.AllocsPerRun(100, func() {
		src.Reset(text)
		r.Reset(src, 100)
		if _, err := r.NextEvent(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.NextEvent(); err != io.EOF {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("Reset: %v allocations", got)
	}
}
