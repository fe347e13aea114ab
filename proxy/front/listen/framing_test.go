package listen

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// feedAll passes all bytes to the checker, even if they contain multiple requests.
func (f *framingChecker) feedAll(p []byte) {
	for len(p) > 0 {
		p = f.checkBytes(p)
	}
}

// TestFraming checks that the result depends only on the framing, not on how the bytes are split
// across reads.
func TestFraming(t *testing.T) {
	t.Parallel()
	const chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	good, bare, framing, foreign := error(nil), ErrBareLineEnd, ErrFraming, ErrNotHTTP
	for _, c := range []struct {
		text  string
		want  error
		begun uint32
	}{
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", good, 1},
		{"POST / HTTP/1.1\r\nContent-Length: 17\r\n\r\nbody\nof\rany\n\rkindGET / HTTP/1.1\r\n\r\n", good, 2},
		{"\r\n\r\nGET / HTTP/1.1\r\n\r\n", good, 1},
		{"GET / HTTP/1.1\r\nHost", good, 1},
		{"\x00\xff", foreign, 1},
		{"\x16\x03\x01\x00\xa5\x01\n", foreign, 1},
		{"\r\n\r\n\x16\x03", foreign, 1},
		{"GET / HTTP/1.1\r\n\r\n GET", foreign, 2},
		{"!#$%&'*+-.^_`|~9Az\x16", good, 1}, // a method may begin with any of these characters
		{"\r\n", good, 0},
		{strings.Repeat("\r\n", maxEmptyLines) + "GET / HTTP/1.1\r\n\r\n", good, 1},
		{"GET / HTTP/1.1\r\n\r\n" + strings.Repeat("\r\n", maxEmptyLines+1), ErrEmptyLines, 2},
		{"GET / HTTP/1.1\nHost: a\n\n", bare, 1},
		{"GET / HTTP/1.1\r\nHost: a\n\r\n", bare, 1},
		{"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", bare, 1},
		{"GET / HTTP/1.1\rHost: a\r\r", bare, 1},
		{"GET / HTTP/1.1\r\r\n\r\n", bare, 1},
		{"GET / HTTP/1.1\r\n\n", bare, 1},
		{"\n", bare, 1},
		{"\r\nG\n", bare, 1},
		{"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\n\n", bare, 2},

		{chunked + "2\r\n{}\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n", good, 2},
		{chunked + "2;a=b\r\n{}\r\n0 ;c\r\nX: y\r\nZ: \r\n\r\n", good, 1},
		{chunked + "00000A\r\n0123456789\r\n0\r\n\r\n", good, 1},
		{chunked + "00000A \r\n0123456789\r\n0\r\n\r\n", framing, 1},
		{chunked + "A;\r\n0123456789\r\n0\r\n\r\n", framing, 1},
		{chunked + "2\n{}\r\n0\r\n\r\n", framing, 1},
		{chunked + "2\r\n{}\n0\r\n\r\n", framing, 1},
		{chunked + "2\r\n{}0\r\n\r\n", framing, 1},
		{chunked + "2\r\n{}\r\n0\r\n\n", framing, 1},
		{chunked + "2\r\n{}\r\n0\r\nX: y\n\r\n", framing, 1},
		{chunked + "2;a\rb\r\n{}\r\n0\r\n\r\n", framing, 1},
		{chunked + "2;a\x00\r\n{}\r\n0\r\n\r\n", framing, 1},
		{chunked + "2;\ta\r\n{}\r\n0\r\nX: a\x7f\r\n\r\n", framing, 1},
		{chunked + "\r\n", framing, 1},
		{chunked + "+2\r\n{}\r\n0\r\n\r\n", framing, 1},
		{chunked + "0x2\r\n{}\r\n0\r\n\r\n", framing, 1},
		{chunked + "2 3\r\n{}\r\n0\r\n\r\n", framing, 1},
		{chunked + "1234567812345678\r\n", framing, 1},
		{chunked + "0\r\nX: y\r\n z\r\n\r\n", framing, 1},
		{chunked + "0\r\n\tX: y\r\n\r\n", framing, 1},
		{chunked + "2;" + strings.Repeat("a", maxExtraBytes+20) + "\r\n", framing, 1},
		{chunked + "0\r\n" + strings.Repeat("X: "+strings.Repeat("y", 997)+"\r\n", 17), framing, 1},
		{chunked + strings.Repeat("1;"+strings.Repeat("a", 999)+"\r\nx\r\n", 17), framing, 1},
		{strings.Repeat(chunked+"1;"+strings.Repeat("a", 9999)+"\r\nx\r\n0\r\nX: y\r\n\r\n", 2), good, 2},
		{chunked + "1;" + strings.Repeat("a", maxExtraBytes-1) + "\r\nx\r\n0\r\n\r\n", good, 1},

		{"POST / HTTP/1.1\r\nContent-Length: 2\r\ncontent-length: 2\r\n\r\n{}GET / HTTP/1.1\r\n\r\n", good, 2},
		{"POST / HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n", good, 2},
		{"POST / HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\nGET / HTTP/1.1\r\n\r\n", good, 1},
		{"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n", framing, 1},
		{"POST / HTTP/1.1\r\nContent-Length: 2, 2\r\n\r\n", framing, 1},
		{"POST / HTTP/1.1\r\nContent-Length: +2\r\n\r\n", framing, 1},
		{"POST / HTTP/1.1\r\nContent-Length: \r\n\r\n", framing, 1},
		{"POST / HTTP/1.1\r\nContent-Length : 18446744073709551617\r\n\r\n", framing, 1},
		{"POST / HTTP/1.1\r\nContent-Length: " + strings.Repeat(" ", 60) + "2\r\n\r\n", framing, 1},
		{"POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n", framing, 1},
		{"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", framing, 1},
		{"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", framing, 1},
		{"POST / HTTP/1.1\r\nConnection: close\r\nCookie: " + strings.Repeat("Content-Length: 5", 20) + "\r\n\r\n", good, 1},
	} {
		for size := 1; size <= len(c.text); size += 1 + size/50 {
			l := framingChecker{state: stateRequestLine}
			for piece := range slices.Chunk([]byte(c.text), size) {
				l.feedAll(piece)
			}
			if !errors.Is(l.err, c.want) || c.want == nil && l.err != nil || l.requestsBegun != c.begun {
				t.Errorf("%.200q in pieces of %d: %v, %d requests", c.text, size, l.err, l.requestsBegun)
			}
		}
	}
}

// TestFramingBeforeARequest checks that a bare line end before a request is replaced with a byte
// that the server cannot skip, and that no other byte changes.
func TestFramingBeforeARequest(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\n":                   "\x00",
		"\r\n\n\n":             "\r\n\x00\n",
		"\r\r\n":               "\x00\r\n",
		"\rG":                  "\x00G",
		"G\n":                  "G\n",
		"GET / HTTP/1.1\r\n\n": "GET / HTTP/1.1\r\n\n",
		"GET / HTTP/1.1\r\n\r\n\nGET / HTTP/1.1\r\n": "GET / HTTP/1.1\r\n\r\n\x00GET / HTTP/1.1\r\n",
	} {
		l, got := framingChecker{state: stateRequestLine}, []byte(text)
		if l.feedAll(got); string(got) != want || !errors.Is(l.err, ErrBareLineEnd) {
			t.Errorf("%q is shown as %q (%v), want %q", text, got, l.err, want)
		}
	}
}

// TestRequestTruncated checks that a request counts as truncated if the client closes its side
// before the end of the request, but not if a read deadline expires.
func TestRequestTruncated(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": false,
		"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n{\n":           true,
		"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n{\n}":          false,
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n":     true,
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\r\n": false, // malformed
		"POST / HTTP/1.1\r\nHost":                                   true,
		// The request being served is complete.
		"GET / HTTP/1.1\r\n\r\nGET": false,
	} {
		accepted, dialed := pair(t, open(t, Options{}))
		SetConnIdle(accepted)
		SetConnActive(accepted)
		read := func() (err error) {
			for err == nil {
				_, err = accepted.Read(make([]byte, 100))
			}
			return err
		}
		if _, err := dialed.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		_ = accepted.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if err := read(); IsRequestTruncated(accepted) {
			t.Errorf("%q: cut by %v", text, err)
		}
		_ = accepted.SetReadDeadline(time.Time{})
		_ = dialed.Close()
		if err := read(); IsRequestTruncated(accepted) != want {
			t.Errorf("%q, then %v: cut is %v", text, err, !want)
		}
	}
}

// FuzzFraming checks that the checker accepts the same requests as net/http, up to the first
// request that one of them rejects. The sizes of the reads must not matter.
func FuzzFraming(f *testing.F) {
	const chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\nx\ny",
		"\r\nGET / HTTP/1.1\r\nHost: a\n\n",
		"GET /\r",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		chunked + "2;x\r\n{}\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		chunked + "a\r\n0123456789\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		chunked + "2\r\n{}\r\n0\r\n\n",
	} {
		f.Add([]byte(text), uint8(3))
		f.Add([]byte(text), uint8(200))
	}
	f.Fuzz(func(t *testing.T, text []byte, cut uint8) {
		if bytes.Count(text, []byte("HTTP/")) != bytes.Count(text, []byte("HTTP/1.1")) || bytes.HasPrefix(text, []byte("\r")) || bytes.Contains(text, []byte("\r\n\r\n\r\n")) {
			t.Skip() // net/http supports chunks only in HTTP/1.1, and skips no empty lines
		}
		l, pieces := framingChecker{state: stateRequestLine}, framingChecker{state: stateRequestLine}
		l.feedAll(slices.Clone(text))
		for piece := range slices.Chunk(slices.Clone(text), int(cut)+1) {
			pieces.feedAll(piece)
		}
		if fmt.Sprint(l.err, l.requestsBegun, l.state, l.bodyLeft, l.chunks) != fmt.Sprint(pieces.err, pieces.requestsBegun, pieces.state, pieces.bodyLeft, pieces.chunks) {
			t.Fatalf("%q: %v and %d requests at once, %v and %d in pieces of %d", text, l.err, l.requestsBegun, pieces.err, pieces.requestsBegun, cut)
		}
		whole := l.requestsBegun // the newest request is complete unless it is malformed or truncated
		if l.err != nil || l.inHeaders || l.state != stateRequestLine {
			whole--
		}
		in, theirs := bufio.NewReader(bytes.NewReader(text)), uint32(0)
		for {
			r, err := http.ReadRequest(in)
			if err == nil {
				_, err = io.Copy(io.Discard, r.Body)
			}
			if err != nil {
				if theirs < whole && bytes.Contains(text, []byte("HTTP/1.1")) && rejectsOnlyFraming(text) {
					t.Fatalf("%q: net/http reads %d requests (%v), here %d are whole", text, theirs, err, whole)
				}
				break
			}
			if theirs++; theirs > whole && l.err == nil {
				t.Fatalf("%q: net/http reads %d requests, here %d are whole", text, theirs, whole)
			}
		}
	})
}

// rejectsOnlyFraming reports whether framing is the only reason for net/http to reject text.
func rejectsOnlyFraming(text []byte) bool {
	first := true
	for line := range strings.Lines(string(text)) {
		switch line = strings.TrimSuffix(line, "\r\n"); {
		case line == "":
			first = true
		case first && (line == "GET / HTTP/1.1" || line == "POST / HTTP/1.1"):
			first = false
		case first || line != "Host: a" && line != "Transfer-Encoding: chunked":
			return false
		}
	}
	return true
}

// TestFramingOfAConnection checks that the results refer to the request being served, even if more
// bytes have been read.
func TestFramingOfAConnection(t *testing.T) {
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
	SetConnIdle(accepted)
	SetConnActive(accepted)
	if err := read("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n{\n}"); err != nil {
		t.Fatal(err)
	}
	wantTarget := func(path string, whole bool) {
		t.Helper()
		if got, all := RequestPath(accepted); string(got) != path || all != whole {
			t.Errorf("the target is %q, the head whole: %v; want %q, %v", got, all, path, whole)
		}
	}
	wantTarget("/", true)
	if err := BodyFramingError(accepted); err != nil {
		t.Errorf("a body that has come: %v", err)
	}
	SetConnIdle(accepted)
	SetConnActive(accepted)
	if err := read("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"); err != nil || !errors.Is(BodyFramingError(accepted), ErrFraming) || FramingError(accepted) != nil {
		t.Errorf("half of a body: %v, %v, %v", err, BodyFramingError(accepted), FramingError(accepted))
	}
	if err := read("\r\n"); err != nil || BodyFramingError(accepted) != nil {
		t.Errorf("all of it: %v, %v", err, BodyFramingError(accepted))
	}
	SetConnIdle(accepted)
	SetConnActive(accepted)
	if err := read("POST /v1/messages?x=y HTT"); err != nil {
		t.Fatal(err)
	}
	wantTarget("/v1/messages", false)
	if err := read("P/1.1\r\nHost: a\r\n"); err != nil {
		t.Fatal(err)
	}
	wantTarget("/v1/messages", false)
	if err := read("\r\n"); err != nil {
		t.Fatal(err)
	}
	wantTarget("/v1/messages", true)
	if err := read("GET /" + strings.Repeat("/", 90) + "\n"); err != nil { // these bytes belong to the next request
		t.Fatal(err)
	}
	if err := FramingError(accepted); err != nil {
		t.Errorf("the request before a broken one: %v", err)
	}
	wantTarget("", false)
	SetConnIdle(accepted)
	SetConnActive(accepted)
	if err := FramingError(accepted); !errors.Is(err, ErrBareLineEnd) {
		t.Errorf("a bare LF: %v", err)
	}
	if _, err := accepted.Read(make([]byte, 1)); !errors.Is(err, ErrBareLineEnd) {
		t.Errorf("behind a bare LF: %v", err)
	}
}

func TestRequestComplete(t *testing.T) {
	const first = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
	const chunked = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	for _, request := range []string{first, chunked, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"} {
		for behind, text := range []string{"", "\r\n", "G", first} {
			l := framingChecker{state: stateRequestLine}
			whole := request + text
			l.beginServing()
			for i := range whole {
				l.feedAll([]byte(whole[i : i+1]))
				if got, want := l.isRequestComplete(), i >= len(request)-1; got != want {
					t.Fatalf("%q, followed by case %d: arrived %v at byte %d of %d", request, behind, got, i+1, len(request))
				}
			}
			l = framingChecker{state: stateRequestLine}
			l.beginServing()
			if l.feedAll([]byte(whole)); !l.isRequestComplete() {
				t.Errorf("%q, followed by case %d, in one piece: not arrived", request, behind)
			}
		}
	}
}

// TestFramingReleasesLines checks that the stored lines are released between two requests, that
// they are kept in the middle of a line, and that the next request is read as before.
func TestFramingReleasesLines(t *testing.T) {
	t.Parallel()
	f := framingChecker{state: stateRequestLine}
	feed := func(pieces ...string) {
		for _, piece := range pieces {
			f.checkBytes([]byte(piece))
		}
	}
	feed("GET /a HTTP/1.1\r\nHo")
	f.beginServing()
	f.releaseLines()
	if got := f.requestPath(); string(got) != "/a" {
		t.Errorf("in the middle of a line, the path is %q, want /a", got)
	}
	feed("st: a\r\n\r\n")
	f.releaseLines()
	if got := f.requestPath(); f.lines != nil || got != nil {
		t.Errorf("after the request, the path is %q, want none", got)
	}
	feed("P", "OST /b HTTP/1.1\r\nContent-Len", "gth: 3\r\n\r\n{}")
	f.beginServing()
	if got := f.requestPath(); string(got) != "/b" || f.bodyLeft != 1 {
		t.Errorf("the next request has the path %q and %d more bytes, want /b and 1", got, f.bodyLeft)
	}
}
