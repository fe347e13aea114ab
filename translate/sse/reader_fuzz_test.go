package sse

import (
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// referenceParse is a simple parser that follows the specification.
func referenceParse(src string, limit int) (events []event, err error) {
	src = strings.TrimPrefix(src, "\ufeff")
	var name, data string
	hasData, hasName := false, false
	start, pos := 0, 0
	flush := func() {
		if hasData {
			events = append(events, event{name, data})
		}
		name, data, hasData, hasName = "", "", false, false
	}
	for pos < len(src) {
		stop := pos
		for stop < len(src) && src[stop] != '\n' && src[stop] != '\r' {
			stop++
		}
		if stop-start > limit {
			return events, ErrTooLong
		}
		line := src[pos:stop]
		pos = stop
		if pos < len(src) {
			pos++
			if src[stop] == '\r' && pos < len(src) && src[pos] == '\n' {
				pos++
			}
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			flush()
		case field == "event":
			name, hasName = value, true
		case field == "data" && hasData:
			data += "\n" + value
		case field == "data":
			data, hasData = value, true
		}
		if !hasData && !hasName {
			start = pos
		}
	}
	flush()
	return events, nil
}

// compareReads reads src with different kinds of reads and compares the events with those from
// referenceParse.
func compareReads(t *testing.T, src string, cuts []byte, limit int) {
	t.Helper()
	want, wantErr := referenceParse(src, limit)
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(src),
		"bytes": iotest.OneByteReader(strings.NewReader(src)),
		"cut":   &cutReader{strings.NewReader(src), cuts},
	} {
		got, err := readAll(t, NewReader(r, limit))
		if err != wantErr || !slices.Equal(got, want) {
			t.Fatalf("%s: got %q, %v, want %q, %v", name, got, err, want, wantErr)
		}
	}
	got, err := readLent(t, &lender{cutReader: cutReader{strings.NewReader(src), cuts}, buf: make([]byte, 4<<10)}, limit)
	if err != wantErr || !slices.Equal(got, want) {
		t.Fatalf("lent: got %q, %v, want %q, %v", got, err, want, wantErr)
	}
}

// lender lends two of every three pieces, and overwrites a lent piece as early as possible.
type lender struct {
	cutReader

	buf   []byte
	turns int
}

func (l *lender) LendBytes() []byte {
	l.takeBack()
	if l.turns++; l.turns%3 == 0 {
		return nil
	}
	n, _ := l.cutReader.Read(l.buf)
	return l.buf[:n:n]
}

func (l *lender) Read(p []byte) (int, error) {
	l.takeBack()
	return l.cutReader.Read(p)
}

func (l *lender) ReserveBuffer(int) error { return nil }

func (l *lender) takeBack() {
	for i := range l.buf {
		l.buf[i] = '\n'
	}
}

// readLent does the same as readAll, but calls PrepareForWait whenever possible.
func readLent(t *testing.T, src *lender, limit int) (events []event, err error) {
	t.Helper()
	r := NewReader(src, limit)
	for {
		ev, err := r.NextEvent()
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, event{string(ev.Name), string(ev.Data)})
		if !r.HasEvent() {
			if err := r.PrepareForWait(); err != nil {
				t.Fatal(err)
			}
			src.takeBack()
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{
		"data: a\n\nevent: x\r\ndata:b\r\rdata\ndata: c\n\n", "\ufeff: c\n\ndata: a\nevent: name\ndata: b\n\n",
		"\ufeffdata: a\n\ndata: b\n\n", "event: x\nevent\ndata: a\n\n", "event:x\nevent:\ndata:\n\n", "data: 1234\n\ndata: 12345678901234567890\n\n", "data:  a\n\nevent:  b\ndata\n\n",
		"event: e\nevent: f\nid: 1\nretry: 2\ndata: x\nfoo\n\ndata", "\r\n\r\r\n\n\rdata: a\r", "\xef\xbb",
	} {
		f.Add(s, []byte{1, 2, 3, 0, 255}, 100, uint8(0))
		f.Add(s, []byte{}, 8, uint8(255))
		f.Add("data: a\n\n"+s, []byte{9}, 100, uint8(3))
		for limit := range 24 { // some of these limits are one byte too low
			f.Add(s, []byte{3, 1}, limit, uint8(0))
		}
	}
	f.Fuzz(func(t *testing.T, src string, cuts []byte, limit int, times uint8) {
		if len(src) < 1<<10 { // long enough for the buffer to be compacted and to grow
			src = strings.Repeat(src, int(times)+1)
		}
		compareReads(t, src, cuts, max(limit, 0)%20_000)
	})
}
