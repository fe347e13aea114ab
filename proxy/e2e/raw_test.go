package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Clients that no library would be.

// raw is a plain connection to the edge, for clients that no library would be.
type raw struct {
	t testing.TB
	net.Conn
	in *bufio.Reader
}

// dial connects to the public listener. The connection is closed when the test ends.
func (p *penstock) dial() *raw {
	p.t.Helper()
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &raw{p.t, c, bufio.NewReader(c)}
}

// send writes text as it is. Failing is allowed: the edge may have hung up.
func (c *raw) send(text string) error {
	_, err := io.WriteString(c.Conn, text)
	return err
}

// sendf is send with a format.
func (c *raw) sendf(format string, args ...any) error { return c.send(fmt.Sprintf(format, args...)) }

// reply reads one answer, also one that is cut.
func (c *raw) reply(method string) *reply {
	c.t.Helper()
	r, err := c.tryReply(method)
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	return r
}

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

// rest reads what else comes until the edge closes the connection; false: it did not within limit.
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
func (p *penstock) head(method, target string, header ...string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer " + p.key + "\r\n" +
		strings.Join(append(header, ""), "\r\n") + "\r\n"
}

// request is a whole chat request as bytes.
func (p *penstock) request(body string, header ...string) string {
	h := append([]string{"Content-Type: application/json", "Content-Length: " + strconv.Itoa(len(body))}, header...)
	return p.head("POST", "/v1/chat/completions", h...) + body
}
