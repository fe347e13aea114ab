package httpserver

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/front/listen"
	"penstock/translate/apierr"
)

// canned is a connection whose client has sent a text and is waiting for the response.
type canned struct {
	net.Conn
	io.Reader
	answer bytes.Buffer
}

func (c *canned) Read(p []byte) (int, error)       { return c.Reader.Read(p) }
func (c *canned) Write(p []byte) (int, error)      { return c.answer.Write(p) }
func (c *canned) SetReadDeadline(time.Time) error  { return nil }
func (c *canned) SetWriteDeadline(time.Time) error { return nil }
func (c *canned) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *canned) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *canned) Close() error                     { return nil }

// TestRefusedHeads checks that an error describes what is wrong with the request headers, and does
// not repeat any bytes from the client.
func TestRefusedHeads(t *testing.T) {
	const line = "POST /v1/canary HTTP/1.1\r\n"
	for _, c := range []struct{ name, text, says string }{
		{"no method", " /v1/canary HTTP/1.1\r\nHost: a\r\n\r\n", "method"},
		{"one word", "canary\r\nHost: a\r\n\r\n", "method"},
		{"a method with a comma", "can,ary / HTTP/1.1\r\nHost: a\r\n\r\n", "The method"},
		{"two words", "POST /v1/canary\r\nHost: a\r\n\r\n", "three parts"},
		{"two blanks", "POST  /v1/canary HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1"},
		{"another version", "POST /v1/canary HTCANARY\r\nHost: a\r\n\r\n", "HTTP/1.1 or HTTP/1.0"},
		{"a control character in the target", "POST /v1/\x01canary HTTP/1.1\r\nHost: a\r\n\r\n", "target"},
		{"neither a path nor a URL", "POST canary HTTP/1.1\r\nHost: a\r\n\r\n", "target"},
		{"a fragment", "POST /v1#canary HTTP/1.1\r\nHost: a\r\n\r\n", "fragment"},
		{"no Host", line + "X: canary\r\n\r\n", "Host header"},
		{"an empty Host", line + "Host:\r\n\r\n", "Host header"},
		{"two Hosts", line + "Host: a\r\nHost: canary\r\n\r\n", "Host header"},
		{"a malformed Host", line + "Host: can/ary\r\n\r\n", "Host header"},
		{"an empty name", line + "Host: a\r\n: canary\r\n\r\n", "no name"},
		{"a blank before the colon", line + "Host: a\r\ncanary : a\r\n\r\n", "name of a header"},
		{"a blank in a name", line + "Host: a\r\nX canary: a\r\n\r\n", "name"},
		{"a NUL in a name", line + "Host: a\r\ncan\x00ary: a\r\n\r\n", "name"},
		{"a blank first", line + " Host: canary\r\nHost: a\r\n\r\n", "first header"},
		{"no colon", line + "Host: a\r\ncanary\r\n\r\n", "colon"},
		{"a NUL in a value", line + "Host: a\r\nX: can\x00ary\r\n\r\n", "value"},
		{"an escape in a value", line + "Host: a\r\nX: \x1bcanary\r\n\r\n", "value"},
		{"a folded line", line + "Host: a\r\nX: b\r\n canary\r\n\r\n", "Line 4"},
		{"two lengths", line + "Host: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "Content-Length"},
		{"no number", line + "Host: a\r\nContent-Length: canary\r\n\r\n", "Content-Length"},
		{"another coding", line + "Host: a\r\nTransfer-Encoding: canary\r\n\r\n", "Transfer-Encoding"},
		{"no coding", line + "Host: a\r\nTransfer-Encoding: identity\r\n\r\n", "Transfer-Encoding"},
		{"two codings", line + "Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding"},
		{"a coding in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding"},
		{"a length and a coding", line + "Host: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "Content-Length and a Transfer-Encoding"},
		{"a forbidden trailer", line + "Host: a\r\nTrailer: Content-Length\r\n\r\n", "Trailer header"},
		{"another expectation", line + "Host: a\r\nExpect: canary\r\n\r\n", "Expect header"},
	} {
		var got *apierr.Error
		s := &fasthttp.Server{
			SecureErrorLogMessage: true, Logger: discardLogger{},
			Handler:      func(ctx *fasthttp.RequestCtx) { got = CheckHead(&ctx.Request.Header) },
			ErrorHandler: func(ctx *fasthttp.RequestCtx, err error) { got, _ = RequestParseError(ctx, err) },
		}
		_ = s.ServeConn(&canned{Reader: bufio.NewReader(strings.NewReader(c.text))})
		switch {
		case got == nil:
			t.Errorf("%s: not refused", c.name)
		case !strings.Contains(got.Message, c.says) || strings.Contains(strings.ToLower(got.Message), "canary"):
			t.Errorf("%s: message = %q, want %q and no canary", c.name, got.Message, c.says)
		}
	}
}

// TestMisframed checks that an error describes what is wrong with the framing.
func TestMisframed(t *testing.T) {
	for err, says := range map[error]string{
		listen.ErrContentLength: "Content-Length", listen.ErrTransferEncoding: "Transfer-Encoding", listen.ErrChunkExtrasTooLarge: "trailers", listen.ErrFraming: "chunk",
		listen.ErrBareLineEnd: "CR LF", listen.ErrEmptyLines: "empty lines", listen.ErrNotHTTP: "TLS", listen.ErrUnexpectedProxyHeader: "PROXY", listen.ErrHTTP2: "HTTP/2",
	} {
		if e := FramingError(err); !strings.Contains(e.Message, says) {
			t.Errorf("FramingError(%v) = %q, want %q in it", err, e.Message, says)
		}
	}
}
