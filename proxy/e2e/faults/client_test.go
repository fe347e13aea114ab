package faults

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// newClient is an HTTP client with connections of its own, closed when the test ends.
func newClient(t testing.TB) *http.Client {
	tr := &http.Transport{
		MaxIdleConnsPerHost: 4096, DisableCompression: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // whose certificate it is, is looked at where that matters
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// reply is a whole answer, read to its end.
type reply struct {
	t      testing.TB
	status int
	header http.Header
	body   string
	err    error // how reading the body ended, nil for a whole one
	took   time.Duration
}

// post sends body as JSON under the key of the setup and reads the whole answer. header are further "Name: value" lines; one
// that names Authorization replaces the key, one without a value removes the header.
func (e *edge) post(path, body string, header ...string) *reply {
	e.t.Helper()
	return e.do("POST", path, body, header...)
}

// get is post for GET, without the key.
func (e *edge) get(path string, header ...string) *reply {
	e.t.Helper()
	return e.do("GET", path, "", append([]string{"Authorization: "}, header...)...)
}

func (e *edge) do(method, path, body string, header ...string) *reply {
	e.t.Helper()
	begun := time.Now()
	return e.read(e.open(context.Background(), method, path, body, header...), begun)
}

// fetch asks the admin listener, or any URL, without a key.
func (e *edge) fetch(method, url string) *reply {
	e.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, http.NoBody)
	if err != nil {
		e.t.Fatal(err)
	}
	begun := time.Now()
	res, err := e.client.Do(req)
	if err != nil {
		e.t.Fatalf("%s %s: %v", method, url, err)
	}
	return e.read(res, begun)
}

func (e *edge) read(res *http.Response, begun time.Time) *reply {
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return &reply{t: e.t, status: res.StatusCode, header: res.Header, body: string(b), err: err, took: time.Since(begun)}
}

// open sends a request and returns the answer unread. The caller closes its body.
func (e *edge) open(ctx context.Context, method, path, body string, header ...string) *http.Response {
	e.t.Helper()
	res, err := e.try(ctx, method, path, body, header...)
	if err != nil {
		e.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res
}

// try is open for requests that may fail.
func (e *edge) try(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, e.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+e.key)
	for _, h := range header {
		name, value, _ := strings.Cut(h, ":")
		if value = strings.TrimSpace(value); value == "" {
			req.Header.Del(name)
			continue
		}
		req.Header.Set(name, value)
	}
	return e.client.Do(req)
}

// wantStatus fails the test unless the status is the wanted one.
func (r *reply) wantStatus(want int) *reply {
	r.t.Helper()
	if r.status != want {
		r.t.Fatalf("status %d, want %d\n%.2000s", r.status, want, r.body)
	}
	return r
}

// stream is an answer that is being read event by event. Comments are skipped.
type stream struct {
	t      testing.TB
	res    *http.Response
	lines  *bufio.Reader
	cancel context.CancelFunc
}

// openStream sends a streamed request and returns when its head has come.
func (e *edge) openStream(path, body string, header ...string) *stream {
	e.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	e.t.Cleanup(cancel)
	res := e.open(ctx, "POST", path, body, header...)
	if res.StatusCode != 200 {
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		e.t.Fatalf("status %d\n%s", res.StatusCode, b)
	}
	return &stream{t: e.t, res: res, lines: bufio.NewReader(res.Body), cancel: cancel}
}

// next returns the next event; false at the end.
func (s *stream) next() (ev event, ok bool) {
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return ev, false
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" && ev.data != "":
			return ev, true
		case strings.HasPrefix(line, "event: "):
			ev.name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			ev.data += line[len("data: "):]
		}
	}
}

// leave closes the client's connection in the middle of the answer.
func (s *stream) leave() {
	s.cancel()
	s.res.Body.Close()
}

// raw is a plain connection to the edge, for clients that no library would be.
type raw struct {
	t testing.TB
	net.Conn
	in *bufio.Reader
}

// dial connects to the public listener. The connection is closed when the test ends.
func (e *edge) dial() *raw {
	e.t.Helper()
	c, err := net.Dial("tcp", e.addr)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return newRaw(e.t, c)
}

func newRaw(t testing.TB, c net.Conn) *raw { return &raw{t, c, bufio.NewReader(c)} }

// send writes text as it is. Failing is allowed: the edge may have hung up.
func (c *raw) send(text string) error {
	_, err := io.WriteString(c.Conn, text)
	return err
}

// reply reads one answer, also one that is cut.
func (c *raw) reply(method string) *reply {
	c.t.Helper()
	r, err := c.tryReply(method)
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	return r
}

// tryReply is reply for a connection that may be closed without one.
func (c *raw) tryReply(method string) (*reply, error) {
	begun := time.Now()
	for {
		res, err := http.ReadResponse(c.in, &http.Request{Method: method})
		if err != nil {
			return nil, err
		}
		if res.StatusCode == http.StatusContinue {
			continue
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		return &reply{t: c.t, status: res.StatusCode, header: withLength(res), body: string(b), err: err, took: time.Since(begun)}, nil
	}
}

// withLength puts the length back that http.ReadResponse takes out of the header.
func withLength(res *http.Response) http.Header {
	if res.ContentLength >= 0 && res.Header.Get("Content-Length") == "" {
		res.Header.Set("Content-Length", strconv.FormatInt(res.ContentLength, 10))
	}
	return res.Header
}

// closed reads what else comes until the edge closes the connection; false: it did not within limit.
func (c *raw) closed(limit time.Duration) (rest string, ok bool) {
	_ = c.SetReadDeadline(time.Now().Add(limit))
	b, err := io.ReadAll(c.in)
	var timeout net.Error
	return string(b), !(errors.As(err, &timeout) && timeout.Timeout())
}

// reset closes the connection with a RST.
func (c *raw) reset() {
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// head is a request's head up to the blank line, with the key.
func (e *edge) head(method, target string, header ...string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer " + e.key + "\r\n" +
		strings.Join(append(header, ""), "\r\n") + "\r\n"
}

// chat is the body of a chat request for the model "sim"; more is added as further members.
func (e *edge) chat(more string) string { return chatBody("sim", more) }

func chatBody(model, more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"model":"` + model + `","messages":[{"role":"user","content":"` + prompt + `"}]` + more + `}`
}

// request is a whole request as bytes: body sent to path, as JSON unless header says otherwise.
func (e *edge) request(path, body string, header ...string) string {
	h := append([]string{"Content-Length: " + strconv.Itoa(len(body))}, header...)
	if !slices.ContainsFunc(header, func(line string) bool { return strings.HasPrefix(line, "Content-Type:") }) {
		h = append(h, "Content-Type: application/json")
	}
	return e.head("POST", path, h...) + body
}
