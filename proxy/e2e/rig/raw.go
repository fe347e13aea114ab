package rig

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Raw is a plain connection to the edge, for clients that no library would be.
type Raw struct {
	net.Conn
	T  testing.TB
	In *bufio.Reader // what comes
}

// Dial connects to the public listener. The connection is closed when the test ends, and has
// Patience until its deadline.
func (e *Edge) Dial() *Raw {
	e.T.Helper()
	c, err := net.Dial("tcp", e.Addr)
	if err != nil {
		e.T.Fatal(err)
	}
	e.T.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(Patience))
	return NewRaw(e.T, c)
}

// NewRaw is a Raw over a connection that the caller has made, and closes.
func NewRaw(t testing.TB, c net.Conn) *Raw { return &Raw{c, t, bufio.NewReader(c)} }

// Send writes text as it is. Failing is allowed: the edge may have hung up.
func (c *Raw) Send(text string) error {
	_, err := io.WriteString(c.Conn, text)
	return err
}

// Sendf is Send with a format.
func (c *Raw) Sendf(format string, args ...any) error { return c.Send(fmt.Sprintf(format, args...)) }

// Drip sends a byte at a time until the other side has hung up.
func (c *Raw) Drip(text string, gap time.Duration) {
	for i := range text {
		if c.Send(text[i:i+1]) != nil {
			return
		}
		time.Sleep(gap) // the pace is the subject
	}
}

// Reply reads one answer, also one that is cut.
func (c *Raw) Reply(method string) *Reply {
	c.T.Helper()
	r, err := c.TryReply(method)
	if err != nil {
		c.T.Fatalf("no answer: %v", err)
	}
	return r
}

// TryReply is Reply for a connection that may be closed without one.
func (c *Raw) TryReply(method string) (*Reply, error) {
	begun := time.Now()
	for {
		res, err := http.ReadResponse(c.In, &http.Request{Method: method})
		if err != nil {
			return nil, err
		}
		if res.StatusCode == http.StatusContinue {
			continue
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		return &Reply{
			T: c.T, Status: res.StatusCode, Header: withLength(res), Body: string(b), Err: err,
			Took: time.Since(begun),
		}, nil
	}
}

// withLength puts the length back that http.ReadResponse takes out of the header.
func withLength(res *http.Response) http.Header {
	if res.ContentLength >= 0 && res.Header.Get("Content-Length") == "" {
		res.Header.Set("Content-Length", strconv.FormatInt(res.ContentLength, 10))
	}
	return res.Header
}

// Closed reads what else comes until the edge closes the connection; false: it did not within
// limit.
func (c *Raw) Closed(limit time.Duration) (rest string, ok bool) {
	_ = c.SetReadDeadline(time.Now().Add(limit))
	b, err := io.ReadAll(c.In)
	var timeout net.Error
	return string(b), !(errors.As(err, &timeout) && timeout.Timeout())
}

// Reset closes the connection with a RST.
func (c *Raw) Reset() {
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// Head is a request's head up to the blank line, with the key.
func (e *Edge) Head(method, target string, header ...string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer " + e.Key + "\r\n" +
		strings.Join(append(header, ""), "\r\n") + "\r\n"
}

// Request is a whole request as bytes: body sent to path, as JSON unless header says otherwise.
func (e *Edge) Request(path, body string, header ...string) string {
	h := append([]string{"Content-Length: " + strconv.Itoa(len(body))}, header...)
	if !slices.ContainsFunc(header, func(line string) bool { return strings.HasPrefix(line, "Content-Type:") }) {
		h = append(h, "Content-Type: application/json")
	}
	return e.Head("POST", path, h...) + body
}
