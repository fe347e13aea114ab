package sse

import (
	"bytes"
	"strings"
	"testing"
)

func TestAppendEvent(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"", "a", "data: a\n\n"},
		{"", "", "data: \n\n"},
		{"ping", `{"type":"ping"}`, "event: ping\ndata: {\"type\":\"ping\"}\n\n"},
		{"", "a\nb", "data: a\ndata: b\n\n"},
		{"", "a\r\nb\rc\n", "data: a\ndata: b\ndata: c\ndata: \n\n"},
		{"", "\r", "data: \ndata: \n\n"},
		{"", "\r\n", "data: \ndata: \n\n"},
		{"", " a", "data:  a\n\n"},
		{"x\ndata: y", "a", "event: x\ndata: a\n\n"},
		{"\r", "a", "data: a\n\n"},
	} {
		if got := AppendEvent([]byte(">"), c.name, []byte(c.data)); string(got) != ">"+c.want {
			t.Errorf("AppendEvent(%q, %q) = %q, want %q", c.name, c.data, got, ">"+c.want)
		}
	}
}

func TestAppendComment(t *testing.T) {
	for text, want := range map[string]string{
		"":             ": \n\n",
		"keep-alive":   ": keep-alive\n\n",
		"a\ndata: b\r": ": a\n: data: b\n: \n\n",
	} {
		if got := AppendComment(nil, text); string(got) != want {
			t.Errorf("AppendComment(%q) = %q, want %q", text, got, want)
		}
		if ev, err := NewReader(bytes.NewReader(AppendComment(nil, text)), 100).NextEvent(); err == nil {
			t.Errorf("%q is an event: %q", text, ev.Data)
		}
	}
}

func FuzzAppendEvent(f *testing.F) {
	f.Add("message_start", "a\r\nb\rc\n\n")
	f.Fuzz(func(t *testing.T, name, data string) {
		out := AppendEvent(nil, name, []byte(data))
		r := NewReader(bytes.NewReader(out), 1<<20)
		ev, err := r.NextEvent()
		if err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexAny(name, "\r\n"); i >= 0 {
			name = name[:i]
		}
		data = strings.ReplaceAll(strings.ReplaceAll(data, "\r\n", "\n"), "\r", "\n")
		if string(ev.Name) != name || string(ev.Data) != data {
			t.Fatalf("%q was read as %q %q, want %q %q", out, ev.Name, ev.Data, name, data)
		}
		if ev, err := r.NextEvent(); err == nil {
			t.Fatalf("%q holds a second event: %q %q", out, ev.Name, ev.Data)
		}
	})
}
