package http1

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"penstock/config/testkit/raced"
	"penstock/config/testkit/rawserver"
)

// TestRequestBytes checks the bytes of requests on the wire.
func TestRequestBytes(t *testing.T) {
	plain := TransportOptions{URL: "http://%s"}
	full := TransportOptions{URL: "http://%s/base/", UserAgent: "penstock/1", APIKey: "k", Host: "engine.internal:80"}
	tests := []struct {
		name string
		o    TransportOptions
		r    Request
		want string
	}{
		{
			"chat", full,
			Request{
				Method: "POST", Path: "/v1/chat/completions", ContentType: "application/json", Accept: "text/event-stream",
				RequestID: []byte("req-1"), Traceparent: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
				Body: [][]byte{[]byte(`{"model":`), nil, []byte(`"m"}`)},
			},
			"POST /base/v1/chat/completions HTTP/1.1\r\nHost: engine.internal:80\r\nUser-Agent: penstock/1\r\nAccept-Encoding: identity\r\n" +
				"Authorization: Bearer k\r\nContent-Type: application/json\r\nContent-Length: 13\r\nAccept: text/event-stream\r\n" +
				"X-Request-Id: req-1\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n" + `{"model":"m"}`,
		},
		{
			"probe", plain,
			Request{Method: "GET", Path: "/metrics?model=a%20b"},
			"GET /metrics?model=a%20b HTTP/1.1\r\nHost: HOST\r\nUser-Agent: penstock\r\nAccept-Encoding: identity\r\n\r\n",
		},
		{
			"no body", plain,
			Request{Method: "POST", Path: "/load"},
			"POST /load HTTP/1.1\r\nHost: HOST\r\nUser-Agent: penstock\r\nAccept-Encoding: identity\r\nContent-Length: 0\r\n\r\n",
		},
		{
			"chunked reader", plain,
			Request{Method: "POST", Path: "/up", BodyReader: iotest.OneByteReader(strings.NewReader("ab"))},
			"POST /up HTTP/1.1\r\nHost: HOST\r\nUser-Agent: penstock\r\nAccept-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n" +
				"0001\r\na\r\n0001\r\nb\r\n0\r\n\r\n",
		},
		{
			"chunked reader that ends with its last bytes", plain,
			Request{Method: "POST", Path: "/up", BodyReader: iotest.DataErrReader(strings.NewReader("abcdefghijkl"))},
			"POST /up HTTP/1.1\r\nHost: HOST\r\nUser-Agent: penstock\r\nAccept-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n" +
				"000c\r\nabcdefghijkl\r\n0\r\n\r\n",
		},
		{
			"empty chunked reader", plain,
			Request{Method: "POST", Path: "/up", BodyReader: strings.NewReader("")},
			"POST /up HTTP/1.1\r\nHost: HOST\r\nUser-Agent: penstock\r\nAccept-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checkLeaks(t)
			var got bytes.Buffer
			s := rawserver.Serve(t, func(p *rawserver.Peer) {
				b := make([]byte, 4096)
				for got.Len() < len(tt.want)-4+len(p.LocalAddr().String())*strings.Count(tt.want, "HOST") {
					n, err := p.Read(b)
					got.Write(b[:n])
					if err != nil {
						return
					}
				}
				p.Send("HTTP/1.1 204 No Content\r\n\r\n")
			})
			tr := transportTo(t, "", func(o *TransportOptions) {
				*o = tt.o
				o.Upstream, o.URL = "gpu-a", strings.Replace(tt.o.URL, "%s", s.Listener.Addr().String(), 1)
			})
			if status, _, _, err := roundTrip(tr, &tt.r); err != nil || status != 204 {
				t.Fatal(status, err)
			}
			if d := cmp.Diff(strings.ReplaceAll(tt.want, "HOST", s.Listener.Addr().String()), got.String()); d != "" {
				t.Errorf("the request differs (-want +got):\n%s", d)
			}
		})
	}
}

// TestSmallRequestIsOneWrite checks that the head and the body of a small request are sent in one
// segment.
func TestSmallRequestIsOneWrite(t *testing.T) {
	checkLeaks(t)
	for _, size := range []int{0, 1000, 15 << 10} {
		s := rawserver.Serve(t, rawserver.EchoRequests)
		tr := transportTo(t, s.URL())
		x := tr.NewExchange()
		c, failure := tr.connectOnce(t.Context())
		if failure != nil {
			t.Fatal(failure)
		}
		counter := &countingConn{Conn: c.nc}
		c.nc = counter
		if part := c.poll.sendPiecesFunc; part != nil {
			c.poll.sendPiecesFunc = func(fd uintptr) { counter.writes++; part(fd) }
		}
		if err := x.delivery.attach(&x.life, c, false); err != nil {
			t.Fatal(err)
		}
		x.delivery.setRequest(post(strings.Repeat("a", size)))
		if err := errors.Join(x.delivery.write(&x.life, &x.reply), x.Await(inThirtySeconds())); err != nil {
			t.Fatal(err)
		}
		if counter.writes != 1 {
			t.Errorf("a body of %d bytes took %d writes", size, counter.writes)
		}
		x.Close()
	}
}

// TestPromptIsSentAtOnce checks that non-blocking system calls write as much as the socket accepts,
// and that no deadline is changed.
func TestPromptIsSentAtOnce(t *testing.T) {
	checkLeaks(t)
	tr := transportTo(t, rawserver.Serve(t, rawserver.EchoRequests).URL())
	mustEcho(t, tr, "first")
	c := tr.idle.conns[0]
	if c.poll.sendPiecesFunc == nil || raced.Enabled {
		t.Skip("pieces are not written at once here")
	}
	counter := &countingConn{Conn: c.nc}
	c.nc, c.writeDeadline = counter, time.Time{}
	text := strings.Repeat("0123456789abcdef", 6<<10)
	r := post("")
	r.Body = [][]byte{[]byte(text[:10]), nil, []byte(text[10:20]), []byte(text[20:])}
	if _, got, x, err := roundTrip(tr, r); err != nil || got != text || !x.delivery.reusedConn {
		t.Fatalf("%d bytes came back, %v, reused %v", len(got), err, x.delivery.reusedConn)
	}
	if counter.writes > 0 || !c.writeDeadline.IsZero() {
		t.Errorf("%d writes that may wait, deadline %v", counter.writes, c.writeDeadline)
	}
}

// TestManyPieces checks a request that is too large for the socket buffer and has more pieces than
// one system call accepts.
func TestManyPieces(t *testing.T) {
	checkLeaks(t)
	tr := transportTo(t, rawserver.Serve(t, rawserver.EchoRequests).URL())
	var text strings.Builder
	r := post("")
	r.Body = nil
	for i := range 100 {
		piece := strings.Repeat(strconv.Itoa(i), i*i)
		text.WriteString(piece)
		r.Body = append(r.Body, []byte(piece))
	}
	for range 2 { // on a new connection, then on a reused connection
		if _, got, _, err := roundTrip(tr, r); err != nil || got != text.String() {
			t.Fatalf("%d bytes came back of %d, %v", len(got), text.Len(), err)
		}
	}
}

type countingConn struct {
	net.Conn
	writes int
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.writes++
	return c.Conn.Write(p)
}

// TestEarlyAnswer checks that an engine may respond before it has received the whole request,
// whether or not it then reads the remaining bytes.
func TestEarlyAnswer(t *testing.T) {
	const refusal = "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbig!"
	const size = 16 << 20
	tests := []struct {
		name   string
		engine func(p *rawserver.Peer, hold <-chan bool)
		status int
		reason string
		plain  bool // the response is read early without TLS, but only after the write timeout with TLS
	}{
		{name: "and stops reading", status: 413, plain: true, engine: func(p *rawserver.Peer, hold <-chan bool) {
			_, _ = io.CopyN(io.Discard, p.Reader, 1000)
			p.Send(refusal)
			<-hold
		}},
		{name: "and closes, with the request unread", status: 413, engine: func(p *rawserver.Peer, hold <-chan bool) {
			_, _ = io.CopyN(io.Discard, p.Reader, 1000)
			p.Send(refusal)
		}},
		{name: "and reads on", status: 413, engine: func(p *rawserver.Peer, hold <-chan bool) {
			_, _ = io.CopyN(io.Discard, p.Reader, 1000)
			p.Send(refusal)
			p.ReadToEnd()
		}},
		{name: "in two parts, and closes its side", status: 413, plain: true, engine: func(p *rawserver.Peer, hold <-chan bool) {
			_, _ = io.CopyN(io.Discard, p.Reader, 1000)
			p.Send(refusal[:20])
			time.Sleep(120 * time.Millisecond)
			p.Send(refusal[20:])
			_ = p.TCP.CloseWrite()
			<-hold
		}},
		{name: "with interim replies only, and takes its time", status: 200, engine: func(p *rawserver.Peer, hold <-chan bool) {
			p.Send("HTTP/1.1 102 Processing\r\n\r\n")
			_, _ = io.CopyN(io.Discard, p.Reader, 1000)
			time.Sleep(120 * time.Millisecond)
			p.Send("HTTP/1.1 102 Processing\r\n\r\n")
			if n, _ := io.CopyN(io.Discard, p.Reader, size-1000); n == size-1000 {
				p.Send(rawserver.SizedResponse("done"))
			}
			p.ReadToEnd()
		}},
		{name: "not at all, and resets", reason: ReasonReset, engine: func(p *rawserver.Peer, hold <-chan bool) {
			_, _ = io.CopyN(io.Discard, p.Reader, 1000)
			p.ResetOnClose()
		}},
		{name: "with garbage", reason: ReasonInvalid, plain: true, engine: func(p *rawserver.Peer, hold <-chan bool) {
			_, _ = io.CopyN(io.Discard, p.Reader, 1000)
			p.Send("no idea what you want")
			<-hold
		}},
	}
	for _, mode := range []string{"pieces", "reader", "TLS"} {
		for _, tt := range tests {
			if mode == "TLS" && tt.plain {
				continue
			}
			t.Run(tt.name+", "+mode, func(t *testing.T) {
				checkLeaks(t)
				serve := rawserver.Serve
				if mode == "TLS" {
					serve = rawserver.ServeTLS
				}
				hold := make(chan bool)
				s := serve(t, func(p *rawserver.Peer) { tt.engine(p, hold) })
				defer close(hold)
				tr := transportTo(t, s.URL())
				r := post("")
				r.WriteTimeout = 5 * time.Second
				piece := bytes.Repeat([]byte("a"), size/8)
				r.Body = [][]byte{piece, piece, piece, piece, piece, piece, piece, piece}
				if mode == "reader" {
					r.BodyReader, r.Body = io.LimitReader(endlessReader{}, size), nil
				}
				x := tr.NewExchange()
				begin := time.Now()
				err := x.Send(r)
				if err == nil {
					err = x.Await(inThirtySeconds())
				}
				took := time.Since(begin)
				body := ""
				if err == nil {
					body, err = readAll(x)
				}
				if tt.status == 0 {
					if f := failureOf(t, err); f.Reason != tt.reason && !(mode == "TLS" && f.Reason == ReasonEOF) || !f.Sent {
						t.Errorf("failure %v, want reason %s", f, tt.reason)
					}
				} else if err != nil || x.Status() != tt.status || tt.status == 413 && body != "big!" {
					t.Errorf("status %d, body %q, error %v", x.Status(), body, err)
				}
				if tt.plain && took > 2*time.Second {
					t.Errorf("the answer was read after %v", took)
				}
				x.Close()
				if tt.status == 413 && len(tr.idle.conns) != 0 {
					t.Error("the connection was kept")
				}
			})
		}
	}
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

func TestWriteTimeout(t *testing.T) {
	run := func(t *testing.T, secure bool, reader bool) {
		checkLeaks(t)
		release := make(chan bool)
		script := func(p *rawserver.Peer) {
			if secure {
				_, _ = p.Reader.Peek(1)
			}
			<-release
		}
		s := rawserver.Serve(t, script)
		if secure {
			s = rawserver.ServeTLS(t, script)
		}
		defer close(release)
		r := post(strings.Repeat("a", 16<<20))
		r.WriteTimeout = 150 * time.Millisecond
		if reader {
			r.BodyReader, r.Body = endlessReader{}, nil
		}
		begin := time.Now()
		x := transportTo(t, s.URL()).NewExchange()
		defer x.Close()
		err := x.Send(r)
		took := time.Since(begin)
		if f := wantFailure(t, err, KindTimeout, ReasonTimeout); f.Clock != TimeoutWrite || !f.Sent {
			t.Errorf("clock %q, sent %v", f.Clock, f.Sent)
		}
		if took < 140*time.Millisecond || took > 20*time.Second {
			t.Errorf("Send gave up after %v", took)
		}
	}
	t.Run("plain", func(t *testing.T) { run(t, false, false) })
	t.Run("reader", func(t *testing.T) { run(t, false, true) })
	t.Run("TLS", func(t *testing.T) { run(t, true, false) })
}

// TestSlowEngineIsServed checks that the write timeout restarts whenever the engine accepts
// bytes.
func TestSlowEngineIsServed(t *testing.T) {
	checkLeaks(t)
	const size = 12 << 20
	s := rawserver.Serve(t, func(p *rawserver.Peer) {
		_ = p.TCP.SetReadBuffer(64 << 10)
		b, total := make([]byte, 512<<10), 0
		for total < size {
			time.Sleep(100 * time.Millisecond)
			n, err := io.ReadFull(p.Reader, b)
			if total += n; err != nil && err != io.ErrUnexpectedEOF {
				return
			}
		}
		p.Send(rawserver.SizedResponse("took my time"))
	})
	r := post(strings.Repeat("a", size))
	r.WriteTimeout = 1500 * time.Millisecond
	begin := time.Now()
	_, body, _, err := roundTrip(transportTo(t, s.URL()), r)
	if err != nil || body != "took my time" {
		t.Fatal(body, err)
	}
	if took := time.Since(begin); took < r.WriteTimeout {
		t.Errorf("the engine took only %v: nothing was tested", took)
	}
}

func TestBodyReaderFails(t *testing.T) {
	mine := errors.New("the client is too slow")
	for _, tt := range []struct {
		name   string
		reader io.Reader
		want   error
	}{
		{"at once", iotest.ErrReader(mine), mine},
		{"in the middle", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(mine)), mine},
		{"makes no progress", silentReader{}, io.ErrNoProgress},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkLeaks(t)
			whole := make(chan bool, 1)
			s := rawserver.Serve(t, func(p *rawserver.Peer) {
				_, _, ok := p.ReadRequest()
				whole <- ok
			})
			r := post("")
			r.Body, r.BodyReader = nil, tt.reader
			x := transportTo(t, s.URL()).NewExchange()
			defer x.Close()
			err := x.Send(r)
			wantFailure(t, err, KindAborted, ReasonBody)
			if !errors.Is(err, tt.want) {
				t.Errorf("the cause is %v, want %v", err, tt.want)
			}
			if <-whole {
				t.Error("the engine took the broken request for a whole one")
			}
		})
	}
}

type silentReader struct{}

func (silentReader) Read([]byte) (int, error) { return 0, nil }

// TestLargeBodies checks body sizes near the thresholds above which a request is written
// differently.
func TestLargeBodies(t *testing.T) {
	checkLeaks(t)
	s := rawserver.Serve(t, rawserver.EchoRequests)
	tr := transportTo(t, s.URL())
	for _, size := range []int{maxSmallBody - 1, maxSmallBody, maxSmallBody + 1, maxStreamPiece, maxStreamPiece + 1, 300 << 10} {
		body := strings.Repeat("0123456789abcdef!", size/17+1)[:size]
		mustEcho(t, tr, body)
		r := post("")
		r.Body, r.BodyReader = nil, strings.NewReader(body)
		if _, got, _, err := roundTrip(tr, r); err != nil || got != body {
			t.Fatalf("reader of %d bytes: %d bytes came back, %v", size, len(got), err)
		}
	}
}

// TestBodyIsNotChanged checks that the exchange does not modify the caller's slices, even if they
// are written in pieces.
func TestBodyIsNotChanged(t *testing.T) {
	checkLeaks(t)
	s := rawserver.Serve(t, rawserver.EchoRequests)
	r := post("")
	r.Body = [][]byte{bytes.Repeat([]byte("a"), 20000), []byte("b"), bytes.Repeat([]byte("c"), 20000)}
	if _, body, _, err := roundTrip(transportTo(t, s.URL()), r); err != nil || len(body) != 40001 {
		t.Fatal(len(body), err)
	}
	if len(r.Body) != 3 || len(r.Body[0]) != 20000 || len(r.Body[1]) != 1 || len(r.Body[2]) != 20000 {
		t.Error("the request's list of pieces was consumed")
	}
}

func TestUnfitRequests(t *testing.T) {
	tr := transportTo(t, "http://127.0.0.1:1")
	for name, change := range map[string]func(r *Request){
		"method":        func(r *Request) { r.Method = "GET /x" },
		"no method":     func(r *Request) { r.Method = "" },
		"path":          func(r *Request) { r.Path = "/x HTTP/1.1\r\nX: y" },
		"blank in path": func(r *Request) { r.Path = "/x y" },
		"relative path": func(r *Request) { r.Path = "x" },
		"content type":  func(r *Request) { r.ContentType = "a\r\nX: y" },
		"accept":        func(r *Request) { r.Accept = "a\nb" },
		"request id":    func(r *Request) { r.RequestID = []byte("a\rb") },
		"traceparent":   func(r *Request) { r.Traceparent = []byte("a\x00b") },
		"tracestate":    func(r *Request) { r.Tracestate = []byte("a\r\nb: c") },
	} {
		r := post("q")
		change(r)
		_, _, _, err := roundTrip(tr, r)
		if f := wantFailure(t, err, KindAborted, ReasonRequest); f.Sent {
			t.Errorf("%s: the request was sent, want a refusal before that", name)
		}
	}
}

func TestTransportOptions(t *testing.T) {
	for name, o := range map[string]TransportOptions{
		"no url":             {},
		"scheme":             {URL: "ftp://host"},
		"no host":            {URL: "http://"},
		"not a url":          {URL: "http://[::1"},
		"secret in no url":   {URL: "http://me:secret@[::1"},
		"user":               {URL: "http://me:secret@host"},
		"query":              {URL: "http://host/?a=b"},
		"fragment":           {URL: "http://host/#a"},
		"host with CR":       {URL: "http://host", Host: "a\rb"},
		"host with path":     {URL: "http://host", Host: "a/b"},
		"agent with LF":      {URL: "http://host", UserAgent: "a\nb"},
		"credential with LF": {URL: "http://host", APIKey: "secret\n"},
	} {
		o.Upstream = "gpu-a"
		_, err := NewTransport(o)
		if err == nil || !strings.Contains(err.Error(), "gpu-a") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: NewTransport: %v, want an error that names gpu-a and no secret", name, err)
		}
	}
	for url, want := range map[string]string{
		"http://host":                  "Host: host\r\n",
		"http://host:8000/":            "Host: host:8000\r\n",
		"http://[::1]:8000/v":          "Host: [::1]:8000\r\n",
		"http://[fe80::1%25eth0]:8000": "Host: [fe80::1]:8000\r\n",
		"https://[fe80::1%25eth0]":     "Host: [fe80::1]\r\n",
	} {
		tr := transportTo(t, url)
		if !bytes.HasPrefix(tr.fixedHeaders, []byte(want)) {
			t.Errorf("%s: fixed lines = %q, want them to begin with %q", url, tr.fixedHeaders, want)
		}
	}
}

// TestEngineEndsDuringUpload checks that if the engine closes the connection between two pieces of
// a slow upload, the edge detects this before the next write.
func TestEngineEndsDuringUpload(t *testing.T) {
	for _, tt := range []struct {
		name   string
		engine func(p *rawserver.Peer)
		status int
		reason string
	}{
		{"answers", func(p *rawserver.Peer) { p.Send("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"); p.ReadToEnd() }, 413, ""},
		{"closes", func(p *rawserver.Peer) { _ = p.TCP.CloseWrite(); p.ReadToEnd() }, 0, ReasonEOF},
		{"resets", func(p *rawserver.Peer) { p.ResetOnClose() }, 0, ReasonReset},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkLeaks(t)
			s := rawserver.Serve(t, func(p *rawserver.Peer) {
				_, _ = p.Reader.ReadString('!')
				tt.engine(p)
			})
			reads := 0
			r := post("")
			r.Body = nil
			r.BodyReader = readerFunc(func(p []byte) (int, error) {
				if reads++; reads == 2 {
					time.Sleep(50 * time.Millisecond) // the engine closes the connection in the meantime
				}
				return copy(p, "a piece!"), nil
			})
			tr := transportTo(t, s.URL())
			x := tr.NewExchange()
			defer x.Close()
			err := x.Send(r)
			if err == nil {
				err = x.Await(inThirtySeconds())
			}
			if reads > 3 {
				t.Errorf("%d pieces were read for an engine that is gone", reads)
			}
			if tt.status != 0 {
				if err != nil || x.Status() != tt.status {
					t.Fatalf("status = %d, %v; want %d", x.Status(), err, tt.status)
				}
				if _, err := readAll(x); err != nil {
					t.Fatal(err)
				}
				if x.isReusable() {
					t.Error("a connection with half a request on it would be kept")
				}
				return
			}
			if f := wantFailure(t, err, KindUnreachable, tt.reason); !f.Sent {
				t.Error("Sent is false")
			}
		})
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
