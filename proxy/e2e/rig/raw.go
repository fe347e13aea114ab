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

// RawConn is a client connection that can violate HTTP.
type RawConn struct {
	net.Conn
	T  testing.TB
	In *bufio.Reader
}

// Dial connects to the public listener. The connection is closed when the test ends. Its deadline
// is three times WaitTimeout from now, because waits may take that long on a busy machine.
func (e *Edge) Dial() *RawConn {
	e.T.Helper()
	c, err := net.Dial("tcp", e.Addr)
	if err != nil {
		e.T.Fatal(err)
	}
	e.T.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(3 * WaitTimeout))
	return NewRawConn(e.T, c)
}

// NewRawConn returns a RawConn for a connection that the caller has opened and will close.
func NewRawConn(t testing.TB, c net.Conn) *RawConn { return &RawConn{c, t, bufio.NewReader(c)} }

// Send writes text unchanged. It fails if the edge has closed the connection.
func (c *RawConn) Send(text string) error {
	_, err := io.WriteString(c.Conn, text)
	return err
}

// Sendf is like Send, but formats the text.
func (c *RawConn) Sendf(format string, args ...any) error {
	return c.Send(fmt.Sprintf(format, args...))
}

// SendSlowly sends text one byte at a time, with the given pause after each byte. It stops if the other
// side closes the connection.
func (c *RawConn) SendSlowly(text string, gap time.Duration) {
	for i := range text {
		if c.Send(text[i:i+1]) != nil {
			return
		}
		time.Sleep(gap) // the bytes must arrive at this pace
	}
}

// ReadReply reads one response, even if it is truncated.
func (c *RawConn) ReadReply(method string) *Reply {
	c.T.Helper()
	r, err := c.TryReadReply(method)
	if err != nil {
		c.T.Fatalf("no answer: %v", err)
	}
	return r
}

// TryReadReply is like ReadReply, but the connection may be closed without a response.
func (c *RawConn) TryReadReply(method string) (*Reply, error) {
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

// withLength restores the Content-Length that http.ReadResponse removes from the header.
func withLength(res *http.Response) http.Header {
	if res.ContentLength >= 0 && res.Header.Get("Content-Length") == "" {
		res.Header.Set("Content-Length", strconv.FormatInt(res.ContentLength, 10))
	}
	return res.Header
}

// WaitClosed reads until the edge closes the connection. ok is false if the edge does not close it
// within limit.
func (c *RawConn) WaitClosed(limit time.Duration) (rest string, ok bool) {
	begun := StartWatch()
	for step := limit; ; step = time.Second {
		_ = c.SetReadDeadline(time.Now().Add(step))
		b, err := io.ReadAll(c.In)
		rest += string(b)
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			return rest, true
		}
		if begun.exceeds(limit) {
			return rest, false
		}
	}
}

// Reset closes the connection with a RST.
func (c *RawConn) Reset() {
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// RequestHead returns the head of a request with the key, including the blank line.
func (e *Edge) RequestHead(method, target string, header ...string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer " + e.Key + "\r\n" +
		strings.Join(append(header, ""), "\r\n") + "\r\n"
}

// RequestBytes returns the bytes of a complete request. The body is JSON unless header has a
// Content-Type.
func (e *Edge) RequestBytes(path, body string, header ...string) string {
	h := append([]string{"Content-Length: " + strconv.Itoa(len(body))}, header...)
	if !slices.ContainsFunc(header, func(line string) bool { return strings.HasPrefix(line, "Content-Type:") }) {
		h = append(h, "Content-Type: application/json")
	}
	return e.RequestHead("POST", path, h...) + body
}
