package listen

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestLines: the verdict is the same however the bytes are cut, and it is about the head alone.
func TestLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		good bool
	}{
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\nbody\nof\rany\n\rkind", true},
		{"\r\n\r\nGET / HTTP/1.1\r\n\r\n\n", true},
		{"GET / HTTP/1.1\r\nHost", true},
		{"\x00\xff", true},
		{"GET / HTTP/1.1\nHost: a\n\n", false},
		{"GET / HTTP/1.1\r\nHost: a\n\r\n", false},
		{"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", false},
		{"GET / HTTP/1.1\rHost: a\r\r", false},
		{"GET / HTTP/1.1\r\r\n\r\n", false},
		{"GET / HTTP/1.1\r\n\n", false},
		{"\n", false},
		{"\r\nG\n", false},
	} {
		for size := 1; size <= len(c.text); size++ {
			l, good := lines{at: linesAwait}, true
			for rest := []byte(c.text); len(rest) > 0 && good; {
				n := min(size, len(rest))
				l.look(rest[:n])
				good, rest = !l.bare, rest[n:]
			}
			if good != c.good {
				t.Errorf("%q in pieces of %d: %v", c.text, size, good)
			}
		}
	}
}

// FuzzLines: a head is good exactly when each of its lines ends in CR LF and has no other CR or LF.
func FuzzLines(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\nx\ny"), uint8(3))
	f.Add([]byte("\r\nGET / HTTP/1.1\r\nHost: a\n\n"), uint8(1))
	f.Add([]byte("GET /\r"), uint8(5))
	f.Fuzz(func(t *testing.T, text []byte, cut uint8) {
		head := bytes.TrimLeft(text, "\r\n")
		lead := text[:len(text)-len(head)]
		if i := bytes.Index(head, []byte("\r\n\r\n")); i >= 0 {
			head = head[:i+4]
		}
		bare := func(b []byte) bool { return bytes.ContainsAny(bytes.ReplaceAll(b, []byte("\r\n"), nil), "\r\n") }
		want := !bare(lead) && !bare(bytes.TrimSuffix(head, []byte{'\r'}))
		if len(head) == 0 { // a CR at the end may be half of a line's end
			want = !bare(bytes.TrimSuffix(lead, []byte{'\r'}))
		}
		l := lines{at: linesAwait}
		at := min(int(cut), len(text))
		l.look(text[:at])
		if !l.bare {
			l.look(text[at:])
		}
		if l.bare == want {
			t.Fatalf("%q: bare %v, want %v", text, l.bare, !want)
		}
	})
}

// TestLinesOfAConnection: what was read together with the request before is not looked at, since where a head in it begins is
// not known.
func TestLinesOfAConnection(t *testing.T) {
	t.Parallel()
	accepted, dialed := pair(t, open(t, Options{}))
	read := func(text string) error {
		t.Helper()
		if _, err := dialed.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(text); {
			m, err := accepted.Read(make([]byte, 100))
			if err != nil {
				return err
			}
			n += m
		}
		return nil
	}
	Idle(accepted)
	if err := read("GET / HTTP/1.1\r\nHost: a\r\n\r\n{\n}"); err != nil {
		t.Fatal(err)
	}
	if got := string(Target(accepted)); got != "/" {
		t.Errorf("the target is %q", got)
	}
	Idle(accepted)
	Active(accepted) // its first byte was there already
	if err := read("\r\n\r\n{\n}"); err != nil {
		t.Fatal(err)
	}
	if got := Target(accepted); got != nil {
		t.Errorf("the target is %q", got)
	}
	Idle(accepted)
	if err := read("POST /v1/messages?x=y HTTP/1.1\r\nHost: a\r\n"); err != nil || Target(accepted) != nil {
		t.Fatalf("%v, target %q", err, Target(accepted))
	}
	if err := read("\r\n"); err != nil || string(Target(accepted)) != "/v1/messages" {
		t.Fatalf("%v, target %q", err, Target(accepted))
	}
	Idle(accepted)
	if err := read("GET "); err != nil {
		t.Fatal(err)
	}
	Active(accepted)
	if err := read(strings.Repeat("/", 90) + "\n"); err != nil || !BareLine(accepted) {
		t.Errorf("a bare LF: %v", err)
	}
	if _, err := accepted.Read(make([]byte, 1)); !errors.Is(err, ErrBareLine) {
		t.Errorf("behind a bare LF: %v", err)
	}
}
