package httpserver

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/front/listen"
	"penstock/proxy/telemetry/guard"
)

// plainHeads lists requests and whether their headers are plain.
var plainHeads = []struct {
	text  string
	plain bool
}{
	{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
	{"GET / HTTP/1.1\r\nhost:a\r\nX:\r\nY: \r\nZ: b: c\r\nAccept: */*\r\n\r\n", true},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", true},
	{"GET / HTTP/1.0\r\n\r\n", true},
	{"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
	{"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("y", 200) + "\r\n\r\n", true},
	{"GET / HTTP/1.1\r\nHost: a\r\nX:b c\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\tc\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a\r\nX:\r\n \r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a\r\nX y: z\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a\r\nX : z\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a\r\nX y:z\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost:\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nX: y\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a\r\nX\x01: y\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a\r\nX\xe4: y\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a\r\nX: y\rz\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nExpect: canary\r\nContent-Length: 2\r\n\r\n{}", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n", false},
}

// headServer serves a public listener. It calls judge for each request that reaches its handler.
func headServer(tb testing.TB, judge func(plain bool, h *fasthttp.RequestHeader)) (addr string) {
	tb.Helper()
	public, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	g := guard.New()
	l, err := listen.New(public, listen.Options{Guard: g})
	if err != nil {
		tb.Fatal(err)
	}
	s := New(&config.File{}, g)
	s.ReadTimeout = 10 * time.Second
	s.StreamRequestBody = true
	s.HeaderReceived = func(h *fasthttp.RequestHeader) (conf fasthttp.RequestConfig) {
		ToOriginForm(h)
		return conf
	}
	s.Handler = func(ctx *fasthttp.RequestCtx) {
		judge(listen.FramingError(ctx.Conn()) == nil && listen.HasPlainHeaders(ctx.Conn()), &ctx.Request.Header)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(l)
	}()
	tb.Cleanup(func() {
		_ = s.Shutdown()
		<-served
		_ = l.StopDisconnectWatch()
	})
	return public.Addr().String()
}

func send(tb testing.TB, addr string, text []byte) {
	tb.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Skip("no port is free: ", err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = c.Write(text) // the server may already have closed the connection
	_ = c.(*net.TCPConn).CloseWrite()
	_, err = io.Copy(io.Discard, c)
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		tb.Fatalf("the server hangs over\n%q", text)
	}
}

func TestPlainHead(t *testing.T) {
	plain := false
	addr := headServer(t, func(is bool, _ *fasthttp.RequestHeader) { plain = is })
	for _, c := range plainHeads {
		plain = false
		if send(t, addr, []byte(c.text)); plain != c.plain {
			t.Errorf("plain is %v: %.300q", plain, c.text)
		}
	}
}

// FuzzPlainHead checks that the strict scan finds no error in plain headers that fasthttp has
// accepted.
func FuzzPlainHead(f *testing.F) {
	for _, c := range plainHeads {
		f.Add([]byte(c.text))
		f.Add([]byte(c.text + c.text))
	}
	wrong := make(chan string, 1)
	addr := headServer(f, func(plain bool, h *fasthttp.RequestHeader) {
		hosts, reason := scanHead(h.RawHeaders())
		if plain && (reason != "" || hosts > 1 || hosts == 0 && h.IsHTTP11()) {
			select {
			case wrong <- reason:
			default:
			}
		}
	})
	f.Fuzz(func(t *testing.T, text []byte) {
		send(t, addr, text)
		select {
		case reason := <-wrong:
			t.Fatalf("a plain head is refused (%q):\n%q", reason, text)
		default:
		}
	})
}
