package http1

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"penstock/config/testkit/rawserver"
)

// pieceConn is a connection that delivers a response in pieces of given sizes and then ends. Before
// each piece, one wait returns without data.
type pieceConn struct {
	net.Conn
	data   []byte
	sizes  []byte // length of each piece minus one; if empty, there is a single piece
	at     int
	waited bool
}

func (p *pieceConn) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := len(p.data)
	if len(p.sizes) > 0 {
		if p.waited = !p.waited; p.waited {
			return 0, os.ErrDeadlineExceeded
		}
		n = min(n, 1+int(p.sizes[p.at%len(p.sizes)]))
		p.at++
	}
	n = copy(b, p.data[:n])
	p.data = p.data[n:]
	return n, nil
}

func (p *pieceConn) SetReadDeadline(time.Time) error { return nil }

// outcome contains all properties of a response that the caller of an exchange can observe.
type outcome struct {
	Status  int
	Headers map[string]string
	Length  int64
	Framed  bool
	Body    string
	Kind    FailureKind
	Reason  string
	interim int
	minor   byte
	chunked bool
}

// receive reads a response that arrives in pieces of the given sizes. room is the size of the
// reads. If takes is true, receive calls WaitReadable and TakeBuffered for each piece.
func receive(t *testing.T, reply []byte, method string, sizes []byte, room int, takes bool) outcome {
	t.Helper()
	x := &Exchange{}
	hosts := NewHostWatch(nil)
	x.Begin(&Transport{upstream: "gpu-a", hosts: hosts, idle: idlePool{rejectsConns: true, hosts: hosts}}, nil)
	x.delivery.req, x.delivery.sendCount = &Request{Method: method}, 1
	x.delivery.c = &conn{nc: &pieceConn{data: reply, sizes: sizes}, sock: &net.TCPConn{}}
	defer x.Close()
	past := time.Unix(1, 0)
	var o outcome
	fail := func(err error) outcome {
		f := failureOf(t, err)
		o.Kind, o.Reason = f.Kind, f.Reason
		return o
	}
	for {
		err := x.Await(past)
		if err == nil {
			break
		}
		if err != ErrNoBytesYet {
			return fail(err)
		}
	}
	o = outcome{Status: x.Status(), Length: x.ContentLength(), Framed: x.IsFramed(), Headers: map[string]string{}, interim: int(x.reply.head.interim), minor: x.reply.head.minor, chunked: x.reply.head.isChunked}
	for _, name := range []string{"Content-Type", "Retry-After", "X-Request-Id", "Content-Disposition"} {
		o.Headers[name] = string(x.Header(name))
	}
	p := make([]byte, room)
	for {
		if r := &x.reply; takes {
			if b := &r.body; r.received.isEmpty() && !b.isDone && b.deferredErr == nil && r.readErr == nil {
				r.release()
				_ = r.fillBuffer(x.delivery.c, past) // like WaitReadable; Read returns the error
			}
			o.Body += string(x.TakeBuffered())
		}
		n, err := x.Read(p, past)
		o.Body += string(p[:n])
		if n > 0 && err != nil {
			t.Fatalf("%d bytes together with the error %v", n, err)
		}
		switch err {
		case nil:
			if n == 0 {
				t.Fatal("a read of nothing that is not an error")
			}
		case ErrNoBytesYet:
		case io.EOF:
			if x.isReusable() && x.reply.received.end != x.reply.received.pos {
				t.Fatal("surplus bytes would be taken for the next reply")
			}
			return o
		default:
			return fail(err)
		}
	}
}

// FuzzReply checks that the outcome does not depend on the pieces in which a response arrives. If
// net/http also accepts the response, the outcomes must agree.
func FuzzReply(f *testing.F) {
	for _, reply := range []string{
		rawserver.SizedResponse("hello"),
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n5\r\nhello\r\n6;x=\"y\"\r\n world\r\n0\r\nT: x\r\n\r\n",
		"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 429 No\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\nno",
		"HTTP/1.0 200 OK\r\nX-Request-Id: r\r\n\r\nuntil the end",
		"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 200 OK\nContent-Length: 3\nContent-Length: 3\n\nabc",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
		"HTTP/1.1 999 No\r\n\r\n",
	} {
		f.Add([]byte(reply), []byte{0, 3, 1}, uint16(7), false)
	}
	f.Fuzz(func(t *testing.T, reply []byte, sizes []byte, room uint16, bodiless bool) {
		method := "POST"
		if bodiless {
			method = "HEAD"
		}
		want := receive(t, reply, method, nil, 8192, false)
		for _, got := range []outcome{
			receive(t, reply, method, []byte{0}, 1, false),
			receive(t, reply, method, sizes, 1+int(room)%9000, false),
			receive(t, reply, method, nil, 1+int(room)%9000, false),
			receive(t, reply, method, sizes, 8192, true),
			receive(t, reply, method, nil, 1, true),
		} {
			if d := cmp.Diff(want, got, cmp.AllowUnexported(outcome{})); d != "" {
				t.Fatalf("the reply depends on how it is cut (-whole +cut):\n%s", d)
			}
		}
		if want.Kind != 0 || want.interim > 0 || want.minor == 0 && want.chunked {
			return // net/http returns interim responses, and does not decode chunks in HTTP/1.0
		}
		theirs, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(reply)), &http.Request{Method: method})
		if err != nil {
			return
		}
		body, err := io.ReadAll(theirs.Body)
		if err != nil {
			return
		}
		if theirs.StatusCode != want.Status || string(body) != want.Body || theirs.Header.Get("Content-Type") != want.Headers["Content-Type"] {
			t.Fatalf("net/http reads status %d, type %q, body %q; this reads %+v", theirs.StatusCode, theirs.Header.Get("Content-Type"), body, want)
		}
	})
}
