package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"penstock/config/testkit/raced"
)

// event is a copy of an Event.
type event struct{ name, data string }

// readAll reads r to the end and checks the invariants of every event.
func readAll(t testing.TB, r *Reader) (events []event, err error) {
	t.Helper()
	for {
		ev, err := r.NextEvent()
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return events, err
		}
		if ev.Data == nil {
			t.Fatal("an event without data")
		}
		e := event{string(ev.Name), string(ev.Data)}
		events = append(events, e)
		// HasEvent looks for the next event. It must not modify the current event.
		r.HasEvent()
		if got := (event{string(ev.Name), string(ev.Data)}); got != e {
			t.Fatalf("Ready changed %q to %q", e, got)
		}
	}
}

func TestForms(t *testing.T) {
	for _, c := range []struct {
		name, src string
		want      []event
	}{
		{"empty", "", nil},
		{"plain", "data: a\n\ndata: b\n\n", []event{{"", "a"}, {"", "b"}}},
		{"named", "event: x\ndata: a\n\n", []event{{"x", "a"}}},
		{"CRLF", "event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []event{{"x", "a"}, {"", "b"}}},
		{"CR", "event: x\rdata: a\r\rdata: b\r\r", []event{{"x", "a"}, {"", "b"}}},
		{"mixed", "data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", []event{{"", "a"}, {"", "b"}, {"", "c"}}},
		{"no space", "event:x\ndata:a\n\n", []event{{"x", "a"}}},
		{"two spaces", "event:  x\ndata:  a\n\n", []event{{" x", " a"}}},
		{"tab", "data:\ta\n\n", []event{{"", "\ta"}}},
		{"joined", "data: a\ndata:b\ndata\ndata: c\n\n", []event{{"", "a\nb\n\nc"}}},
		{"joined, name in between", "data: a\nevent: name\ndata: bcdefghijklmnopqrstuvw\n\n", []event{{"name", "a\nbcdefghijklmnopqrstuvw"}}},
		{"joined, two names in between", "data: a\nevent: one\ndata: b\nevent: two\ndata: c\n\ndata: a\nevent: x\ndata: b\n\n", []event{{"two", "a\nb\nc"}, {"x", "a\nb"}}},
		{"last name wins", "event: x\nevent: y\ndata: a\n\n", []event{{"y", "a"}}},
		{"name taken back", "event: x\nevent\ndata: a\n\n", []event{{"", "a"}}},
		{"name after data", "data: a\nevent: y\n\n", []event{{"y", "a"}}},
		{"empty data", "data\n\ndata:\n\ndata: \n\n", []event{{"", ""}, {"", ""}, {"", ""}}},
		{"no data", "event: x\n\nid: 1\n\n\n\ndata: a\n\n", []event{{"", "a"}}},
		{"comments", ": hi\n\n:\ndata: a\n: between\ndata: b\n\n: bye\n", []event{{"", "a\nb"}}},
		{"comment before", ": hi\ndata: a\n\n", []event{{"", "a"}}},
		{"id and retry", "id: 1\nretry: 10\ndata: a\nid: 2\n\n", []event{{"", "a"}}},
		{"unknown", "datas: x\ndat: x\nfoo\nevents: y\n data: z\ndata : z\nDATA: z\ndata: a\n\n", []event{{"", "a"}}},
		{"byte order mark", "\ufeffdata: a\n\n\ufeffdata: b\n\ndata: c\n\n", []event{{"", "a"}, {"", "c"}}},
		{"half a mark", "\xef\xbbdata: a\n\ndata: b\n\n", []event{{"", "b"}}},
		{"only a mark", "\ufeff", nil},
		{"part of a mark", "\xef\xbb", nil},
		{"no final blank line", "data: a\n\ndata: b\n", []event{{"", "a"}, {"", "b"}}},
		{"no final line end", "data: a\n\ndata: b", []event{{"", "a"}, {"", "b"}}},
		{"name at the end", "data: a\n\nevent: b", []event{{"", "a"}}},
		{"blank lines", "\n\r\n\r\r\ndata: a\n\n\n\n", []event{{"", "a"}}},
		{"colons", "data: a: b\n\n", []event{{"", "a: b"}}},
		{"large", "data: " + strings.Repeat("x", 2<<20) + "\n\ndata: y\n\n", []event{{"", strings.Repeat("x", 2<<20)}, {"", "y"}}},
		{"many lines", strings.Repeat("data:x\r", 100_000) + "\rdata: y\n\n", []event{{"", strings.Repeat("x\n", 99_999) + "x"}, {"", "y"}}},
		{"not UTF-8", "data: \xff\x00\n\n", []event{{"", "\xff\x00"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, src := range map[string]io.Reader{
				"whole":        strings.NewReader(c.src),
				"data and EOF": iotest.DataErrReader(strings.NewReader(c.src)),
				"halves":       iotest.HalfReader(strings.NewReader(c.src)),
				"bytes":        iotest.OneByteReader(strings.NewReader(c.src)),
			} {
				if name == "bytes" && len(c.src) > 1<<19 && raced.Enabled {
					continue
				}
				got, err := readAll(t, NewReader(src, 8<<20))
				if err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("%s: got %.200q, %v, want %.200q", name, got, err, c.want)
				}
			}
		})
	}
}

func TestTooLong(t *testing.T) {
	const limit = 5000
	for _, c := range []struct {
		name, src string
		before    int // number of events before the error
		ok        bool
	}{
		{"at the limit", "data: " + strings.Repeat("x", limit-7) + "\n\n", 1, true},
		{"above", "data: " + strings.Repeat("x", limit-6) + "\n\n", 0, false},
		{"after others", "data: a\n\ndata: b\n\ndata: " + strings.Repeat("x", limit) + "\n\n", 2, false},
		{"no line end", strings.Repeat("x", limit+1), 0, false},
		{"comment", ":" + strings.Repeat("x", limit), 0, false},
		{"many lines", strings.Repeat("data: x\n", limit/8) + strings.Repeat("\n", 2), 1, true},
		{"too many lines", strings.Repeat("data: x\n", limit/8+1) + "\n", 0, false},
		{"endless comments are nothing", strings.Repeat(": x\n", limit) + "data: a\n\n", 1, true},
	} {
		for _, split := range []bool{false, true} {
			var src io.Reader = strings.NewReader(c.src)
			if split {
				src = iotest.OneByteReader(src)
			}
			r := NewReader(src, limit)
			events, err := readAll(t, r)
			if len(events) != c.before || (err == nil) != c.ok || err != nil && err != ErrTooLong {
				t.Errorf("%s: got %d events, %v, want %d and success %v", c.name, len(events), err, c.before, c.ok)
			}
			if !c.ok {
				if _, err := r.NextEvent(); err != ErrTooLong || r.HasEvent() {
					t.Errorf("%s: the error is not final: %v", c.name, err)
				}
			}
			if len(r.in.buf) > 2*limit+minReadSpace {
				t.Errorf("%s: a buffer of %d bytes", c.name, len(r.in.buf))
			}
		}
	}
	if _, err := NewReader(endless{}, 8<<20).NextEvent(); err != ErrTooLong {
		t.Errorf("endless line: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// script is a source that plays steps. A step returns its string as data, its error, or both.
type script [][2]any

func (s *script) Read(p []byte) (n int, err error) {
	if len(*s) == 0 {
		return 0, io.EOF
	}
	step := &(*s)[0]
	if data, ok := step[0].(string); ok {
		n = copy(p, data)
		if n < len(data) {
			step[0] = data[n:]
			return n, nil
		}
	}
	err, _ = step[1].(error)
	*s = (*s)[1:]
	return n, err
}

func TestResume(t *testing.T) {
	notYet := os.ErrDeadlineExceeded
	r := NewReader(&script{
		{nil, notYet},
		{"da", nil},
		{nil, notYet},
		{"ta: a\r", notYet},
		{"\n\r", nil},
		{"\ndata: b\n\nda", notYet},
		{"ta: c", nil},
		{"\n\n", io.EOF},
	}, 100)
	var got []string
	for {
		ev, err := r.NextEvent()
		switch {
		case err == nil:
			got = append(got, string(ev.Data))
		case errors.Is(err, notYet):
			got = append(got, "-")
		default:
			if err != io.EOF {
				t.Fatal(err)
			}
			if s := strings.Join(got, " "); s != "- - - a b - c" {
				t.Error(s)
			}
			if _, err := r.NextEvent(); err != io.EOF || r.HasEvent() {
				t.Error("the end is not final")
			}
			return
		}
	}
}

func TestReady(t *testing.T) {
	reads := 0
	src := &script{
		{"data: a\n\ndata: b\ndata: c\n\n: x\n\ndata: d\n", nil},
		{"\n", nil},
		{"data: e", nil},
	}
	r := NewReader(readFunc(func(p []byte) (int, error) { reads++; return src.Read(p) }), 100)
	if r.HasEvent() || reads != 0 {
		t.Error("ready before the first read")
	}
	for _, want := range []struct {
		data  string
		reads int
		ready bool // whether an event is ready afterwards
	}{{"a", 1, true}, {"b\nc", 1, false}, {"d", 2, false}, {"e", 4, false}} {
		ev, err := r.NextEvent()
		if err != nil || string(ev.Data) != want.data || reads != want.reads {
			t.Errorf("got %q, %v after %d reads, want %q after %d", ev.Data, err, reads, want.data, want.reads)
		}
		if ready, again := r.HasEvent(), r.HasEvent(); ready != want.ready || again != want.ready || reads != want.reads || string(ev.Data) != want.data {
			t.Errorf("after %q: Ready is not %v, or it reads, or it changes the event", want.data, want.ready)
		}
	}
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestBadSources(t *testing.T) {
	calls := 0
	none := readFunc(func([]byte) (int, error) { calls++; return 0, nil })
	if _, err := NewReader(none, 100).NextEvent(); err != io.ErrNoProgress || calls != maxEmptyReads {
		t.Errorf("%v after %d reads", err, calls)
	}
	for _, n := range []int{-1, 1 << 20} {
		wrong := readFunc(func([]byte) (int, error) { return n, nil })
		if _, err := NewReader(wrong, 100).NextEvent(); err != errInvalidCount {
			t.Errorf("a count of %d: got %v, want errInvalidCount", n, err)
		}
	}
}

func TestBuffer(t *testing.T) {
	var src bytes.Buffer
	r := NewReader(&src, 8<<20)
	if r.in.buf != nil {
		t.Error("a Reader has a buffer before it reads")
	}
	next := func(n int) {
		t.Helper()
		src.Write(AppendEvent(nil, "", bytes.Repeat([]byte("x"), n)))
		if ev, err := r.NextEvent(); err != nil || len(ev.Data) != n {
			t.Fatalf("%d of %d bytes, %v", len(ev.Data), n, err)
		}
	}
	next(10)
	if len(r.in.buf) != smallBufferBytes {
		t.Errorf("the first buffer has %d bytes", len(r.in.buf))
	}
	next(20_000)
	grown := &r.in.buf[0]
	if len(r.in.buf) == smallBufferBytes {
		t.Fatal("not grown")
	}
	r.PrepareForWait()
	next(20_000)
	if &r.in.buf[0] != grown {
		t.Error("a buffer that is in use was given up")
	}
	next(10)
	next(10)
	if len(r.in.buf) != smallBufferBytes {
		t.Error("the grown buffer is kept")
	}
	next(1 << 20)
	if _, err := r.NextEvent(); err != io.EOF {
		t.Fatal(err)
	}
	if len(r.in.buf) != smallBufferBytes {
		t.Error("a huge buffer is kept while the stream is silent")
	}
	r.Reset(nil, 0)
	if r.src != nil || r.in.buf != nil {
		t.Error("Reset keeps the source or the buffer")
	}
	r.Reset(strings.NewReader("\ufeffdata: a\n\n"), 100)
	if ev, err := r.NextEvent(); err != nil || string(ev.Data) != "a" {
		t.Errorf("after Reset: %q, %v", ev.Data, err)
	}
	var zero Reader
	zero.Reset(strings.NewReader("data: a\n\n"), 100)
	if ev, err := zero.NextEvent(); err != nil || string(ev.Data) != "a" {
		t.Errorf("a zero Reader: %q, %v", ev.Data, err)
	}
}

// TestLargeEventsTakeLinearTime checks that reading and writing large events takes linear time.
func TestLargeEventsTakeLinearTime(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector is slow")
	}
	for name, of := range map[string]func(n int) string{
		"one line":    func(n int) string { return "data: " + strings.Repeat("x", n) + "\n\n" },
		"CR":          func(n int) string { return strings.Repeat("data\r", n/5) + "\r" },
		"comments":    func(n int) string { return strings.Repeat(":\n", n/2) + "\n" },
		"CR, then LF": func(n int) string { return strings.Repeat("x\r", n/2) + "\n" },
	} {
		wantLinear(t, name, of, func(src string) {
			for _, r := range []io.Reader{&pieces{src, 200}, strings.NewReader(src)} {
				if _, err := readAll(t, NewReader(r, 8<<20)); err != nil {
					t.Errorf("%s: got the error %v, want none", name, err)
				}
			}
		})
	}
	var out []byte // reused, because allocating new memory takes as long as the work
	for name, end := range map[string]string{"many LF": "\n", "many CR": "\r", "many CR LF": "\r\n"} {
		lines := func(n int) string { return strings.Repeat(end, n/len(end)) }
		wantLinear(t, name+", one line", lines, func(src string) { ReplaceLineEnds([]byte(src)) })
		wantLinear(t, name+", written", lines, func(src string) { out = AppendEvent(out[:0], "", []byte(src)) })
	}
}

// wantLinear measures the work for one large text, and for sixteen texts of the same total length.
// Quadratic work would take sixteen times as long for the large text. A busy machine slows down
// both measurements, so wantLinear compares the fastest of its tries.
func wantLinear(t *testing.T, name string, of func(n int) string, work func(src string)) {
	t.Helper()
	const bytes, parts, tries, most = 2 << 20, 16, 20, 8
	took := func(src string, times int) time.Duration {
		begin := time.Now()
		for range times {
			work(src)
		}
		return time.Since(begin)
	}
	one, many := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for n := 0; n < tries && (n < 5 || one > most*many); n++ {
		one, many = min(one, took(of(bytes), 1)), min(many, took(of(bytes/parts), parts))
	}
	if one > most*many {
		t.Errorf("%s: %v, and %v for as much in %d parts", name, one, many, parts)
	}
}

type pieces struct {
	s string
	n int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.s == "" {
		return 0, io.EOF
	}
	n := copy(b, p.s[:min(p.n, len(p.s))])
	p.s = p.s[n:]
	return n, nil
}

// TestLong checks long streams of random parts. They make the buffer grow, shrink and be compacted
// in all states.
func TestLong(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var b strings.Builder
		for b.Len() < 60_000 {
			b.WriteString([]string{"data: ", "data:", "event: ", ": ", "id: 7", "data", "x"}[rnd.IntN(7)])
			n := rnd.IntN(60)
			if rnd.IntN(100) == 0 {
				n = rnd.IntN(15_000)
			}
			b.WriteString(strings.Repeat(string(rune('a'+rnd.IntN(26))), n))
			b.WriteString([]string{"\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "\n"}[rnd.IntN(6)])
		}
		cuts := make([]byte, 3000)
		for i := range cuts {
			cuts[i] = byte(rnd.IntN(256))
		}
		compareReads(t, b.String(), cuts, 20_000+rnd.IntN(2)*40_000)
	}
}

// cutReader returns pieces whose lengths are in cuts. It repeats the last length until the end.
type cutReader struct {
	r    *strings.Reader
	cuts []byte
}

func (c *cutReader) Read(p []byte) (int, error) {
	n := len(p)
	if len(c.cuts) > 0 {
		n = min(n, int(c.cuts[0]))
		if len(c.cuts) > 1 {
			c.cuts = c.cuts[1:]
		}
	}
	n, err := c.r.Read(p[:n])
	if n == 0 && err == nil && len(c.cuts) == 1 && c.cuts[0] == 0 {
		c.cuts = nil
	}
	return n, err
}

// TestPrepareForWait checks that PrepareForWait releases only empty buffers, however the reads
// split the text.
func TestPrepareForWait(t *testing.T) {
	const whole = "\ufeffdata: a\r\n\r\nevent: x\ndata: b\ndata: c\n\n: note\n\ndata: d\r\rdata: e"
	for size := 1; size <= len(whole); size++ {
		src := strings.NewReader(whole)
		notYet := errors.New("not yet")
		pause := false
		r := NewReader(readFunc(func(p []byte) (int, error) {
			if pause = !pause; pause {
				return 0, notYet
			}
			return src.Read(p[:min(size, len(p))])
		}), 100)
		var got []string
		for {
			ev, err := r.NextEvent()
			if err == io.EOF {
				break
			}
			if err == nil {
				got = append(got, string(ev.Name)+" "+string(ev.Data))
			}
			empty := r.in.start == r.in.end && !r.HasEvent()
			if r.PrepareForWait(); empty != (r.in.buf == nil) {
				t.Fatalf("reads of %d: it rests %v with %d bytes of an event", size, r.in.buf == nil, r.in.end-r.in.start)
			}
		}
		if want := []string{" a", "x b\nc", " d", " e"}; !slices.Equal(got, want) {
			t.Errorf("reads of %d: %q, want %q", size, got, want)
		}
	}
}

// budget is a source that limits the reader's buffer.
type budget struct {
	io.Reader
	maxBytes int
	asked    []int
}

var errNoRoom = errors.New("no room")

func (b *budget) LendBytes() []byte { return nil }

func (b *budget) ReserveBuffer(n int) error {
	b.asked = append(b.asked, n)
	if n > b.maxBytes {
		return errNoRoom
	}
	return nil
}

// TestReaderBudget checks that the Reader calls ReserveBuffer before it allocates memory for a
// large event, and again when it releases the memory. If ReserveBuffer returns an error, the stream
// continues: NextEvent returns the event once ReserveBuffer grants the memory.
func TestReaderBudget(t *testing.T) {
	t.Parallel()
	large := "data: " + strings.Repeat("x", 300<<10) + "\n\n"
	src := &budget{Reader: strings.NewReader("data: a\n\n" + large + "data: b\n\n"), maxBytes: 200 << 10}
	r := NewReader(src, 1<<20)
	if ev, err := r.NextEvent(); err != nil || string(ev.Data) != "a" || len(src.asked) > 0 {
		t.Fatalf("got %q, %v, want a; asked for %v", ev.Data, err, src.asked)
	}
	for range 2 {
		if _, err := r.NextEvent(); !errors.Is(err, errNoRoom) || len(r.in.buf) > src.maxBytes {
			t.Fatalf("%v with a buffer of %d", err, len(r.in.buf))
		}
	}
	src.maxBytes = 1 << 20
	if ev, err := r.NextEvent(); err != nil || len(ev.Data) != 300<<10 {
		t.Fatalf("got %d bytes, %v, want %d", len(ev.Data), err, 300<<10)
	}
	if ev, err := r.NextEvent(); err != nil || string(ev.Data) != "b" {
		t.Fatalf("got %q, %v, want b", ev.Data, err)
	}
	if _, err := r.NextEvent(); err != io.EOF {
		t.Fatal(err)
	}
	if last := src.asked[len(src.asked)-1]; last > smallBufferBytes || len(r.in.buf) > smallBufferBytes {
		t.Errorf("asked %v, holds %d", src.asked, len(r.in.buf))
	}
}
