package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"penstock/proxy/request/body"
	"penstock/proxy/request/endpoint"
	"penstock/translate/apierr"
)

// seenRequest is a request as a server has read it.
type seenRequest struct{ method, target, body string }

// witness records the requests that a server has read, by client address.
type witness struct {
	mu       sync.Mutex
	requests map[string][]seenRequest
	// cut contains the addresses whose last request had an unreadable body.
	cut map[string]bool
}

func newWitness() *witness {
	return &witness{requests: map[string][]seenRequest{}, cut: map[string]bool{}}
}

func (w *witness) add(addr string, s seenRequest, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests[addr] = append(w.requests[addr], s)
	w.cut[addr] = cut
}

func (w *witness) take(addr string) ([]seenRequest, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, cut := w.requests[addr], w.cut[addr]
	delete(w.requests, addr)
	delete(w.cut, addr)
	return s, cut
}

const (
	framingHead    = "POST /v1/chat/completions HTTP/1.1\r\nHost: e\r\n"
	framingChunked = framingHead + "Transfer-Encoding: chunked\r\n\r\n"
	framingSecond  = "GET /health HTTP/1.1\r\nHost: e\r\n\r\n"
)

// framingSeeds are inputs for FuzzFraming, each with the number of requests that the edge accepts.
var framingSeeds = []struct {
	seen int
	text string
}{
	// Valid requests, each followed by another request.
	{2, framingHead + "Content-Length: 2\r\n\r\n{}" + framingSecond},
	{2, framingHead + "content-length:2\r\nX:\r\n\r\n{}" + framingSecond},
	{2, framingHead + "Content-Length: 0\r\n\r\n" + framingSecond},
	{2, framingHead + "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n{}" + framingSecond},
	{3, framingHead + "Content-Length: 33\r\n\r\n" + framingSecond + framingSecond + framingSecond},
	{3, "\r\n" + framingSecond + framingSecond + "\r\n" + framingSecond},
	{2, framingChunked + "2\r\n{}\r\n0\r\n\r\n" + framingSecond},
	{2, framingChunked + "1\r\n{\r\n001;x=\"y\"\r\n}\r\n00\r\n\r\n" + framingSecond},
	{2, framingChunked + "0f\r\n0123456789abcde\r\n0\r\n\r\n" + framingSecond},
	{3, framingChunked + "1c\r\nGET /a HTTP/1.1\r\nHost: e\r\n\r\n\r\n0\r\n\r\n" + framingHead + "Content-Length: 2\r\n\r\n{}" + framingSecond},
	{3, framingChunked + "2;" + strings.Repeat("x", 2000) + "\r\n{}\r\n0\r\n\r\n" + framingHead + "Content-Length: 0\r\n\r\n" + framingSecond},
	{2, "GET / HTTP/1.1\r\nHost: e\r\nContent-Length: 5\r\n\r\nhello" + framingSecond},

	// Requests after which the edge closes the connection.
	{0, framingHead + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + framingSecond},
	{1, framingChunked + "2;a=\"b\"\r\n{}\r\n0\r\nX: y\r\n\r\n" + framingSecond},
	{1, "POST / HTTP/1.0\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n{}" + framingSecond},
	{1, "GET / HTTP/1.0\r\n\r\n" + framingSecond},
	{1, framingHead + "Connection: close\r\nContent-Length: 2\r\n\r\n{}" + framingSecond},

	{1, "GET / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + framingSecond},
	{2, "HEAD http://e/x HTTP/1.1\r\nHost: e\r\n\r\n" + framingSecond},

	// Requests that are rejected because of their heads. Their bodies contain requests.
	{0, framingHead + "Content-Type: text/plain\r\nContent-Length: 33\r\n\r\n" + framingSecond + framingSecond},
	{0, framingHead + "Content-Type: text/plain\r\nContent-Length: 9900\r\n\r\n" + strings.Repeat(framingSecond, 301)},
	{0, framingHead + "Content-Encoding: br\r\nTransfer-Encoding: chunked\r\n\r\n21\r\n" + framingSecond + "\r\n0\r\n\r\n" + framingSecond},

	// Heads that are rejected.
	{0, "GET /#x HTTP/1.1\r\nHost: e\r\n\r\n" + framingSecond},
	{0, "HEAD ftp://e/x HTTP/1.1\r\nHost: e\r\n\r\n" + framingSecond},
	{0, "GET * HTTP/1.1\r\nHost: e\r\n\r\n" + framingSecond},
	{0, "GET / HTTP/1.1\r\nHost: e\r\nHost: e\r\n\r\n" + framingSecond},
	{0, "GET / HTTP/1.1\r\nX: y\r\n\r\n" + framingSecond},
	{0, "GET / HTTP/1.1\r\nHost: e/x\r\n\r\n" + framingSecond},
	{0, "GET / HTTP/1.2\r\nHost: e\r\n\r\n" + framingSecond},
	{0, "GET / HTTP/2.0\r\nHost: e\r\n\r\n" + framingSecond},
	{0, "GET / HTTP/1.1\r\nHost: e\r\nX: y\r\n z\r\n\r\n" + framingSecond},
	{0, "GET / HTTP/1.1\r\n X: y\r\nHost: e\r\n\r\n" + framingSecond},
	{0, "GET / HTTP/1.1\r\nHost: e\r\n: y\r\n\r\n" + framingSecond},
	{0, "GET / HTTP/1.1\r\nHost: e\r\nX\r\n\r\n" + framingSecond},
	{0, "GET / HTTP/1.1\r\nHost: e\r\nX y: z\r\n\r\n" + framingSecond},
	{0, framingHead + "Content-Length : 2\r\n\r\n{}" + framingSecond},
	{0, "GET / HTTP/1.1\r\nHost: e\r\nX: a\x00b\r\n\r\n" + framingSecond},
	{0, "GET / HTTP/1.1\r\nHost: e\r\nX: a\x7f\r\n\r\n" + framingSecond},
	{0, "GET / HTTP/1.1\nHost: e\n\n" + framingSecond},
	{0, "GET / HTTP/1.1\r\nHost: e\nX: y\r\n\r\n" + framingSecond},
	{0, "GET / HTTP/1.1\r\nHost: e\r\nX: a\rb\r\n\r\n" + framingSecond},
	{1, framingSecond + "GET / HTTP/1.1\r\nHost: e\nX: y\r\n\r\n" + framingSecond},

	// Lengths that are rejected.
	{0, framingHead + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}" + framingSecond},
	{0, framingHead + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}" + framingSecond},
	{0, framingHead + "Content-Length: 2, 2\r\n\r\n{}" + framingSecond},
	{0, framingHead + "Content-Length: +2\r\n\r\n{}" + framingSecond},
	{0, framingHead + "Content-Length: -2\r\n\r\n{}" + framingSecond},
	{0, framingHead + "Content-Length: 0x2\r\n\r\n{}" + framingSecond},
	{0, framingHead + "Content-Length: 18446744073709551618\r\n\r\n{}" + framingSecond},
	{0, framingHead + "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}" + framingSecond},
	{0, framingHead + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + framingSecond},
	{0, framingHead + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + framingSecond},
	{0, framingHead + "Transfer-Encoding:\r\n chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + framingSecond},
	{0, framingHead + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + framingSecond},
	{0, framingHead + "Content-Length: 200\r\n\r\n{}"},

	// Chunks that are rejected.
	{0, framingChunked + "2\n{}\r\n0\r\n\r\n" + framingSecond},
	{0, framingChunked + "2\r\n{}\n0\r\n\r\n" + framingSecond},
	{0, framingChunked + "2\r\n{}0\r\n\r\n" + framingSecond},
	{0, framingChunked + "2\r\n{}\r\n0\r\n\n" + framingSecond},
	{0, framingChunked + "2\r\n{}\r\n0\r\nX: y\n\r\n" + framingSecond},
	{0, framingChunked + "2\r\n{}\r\n0\r\nX: a\rb\r\n\r\n" + framingSecond},
	{0, framingChunked + "2;x\ny\r\n{}\r\n0\r\n\r\n" + framingSecond},
	{0, framingChunked + "2;x\ry\r\n{}\r\n0\r\n\r\n" + framingSecond},
	{0, framingChunked + "2 3\r\n{}\r\n0\r\n\r\n" + framingSecond},
	{0, framingChunked + "\r\n{}\r\n0\r\n\r\n" + framingSecond},
	{0, framingChunked + "+2\r\n{}\r\n0\r\n\r\n" + framingSecond},
	{0, framingChunked + "0x2\r\n{}\r\n0\r\n\r\n" + framingSecond},
	{0, framingChunked + "10000000000000002\r\n{}\r\n0\r\n\r\n" + framingSecond},
	{0, framingChunked + "3\r\n{}\r\n0\r\n\r\n" + framingSecond},
	{0, framingChunked + strings.Repeat("1;"+strings.Repeat("x", 700)+"\r\n \r\n", 30) + "0\r\n\r\n" + framingSecond},
	{0, framingChunked + "2\r\n{}\r\n0\r\n" + strings.Repeat("X: "+strings.Repeat("y", 700)+"\r\n", 30) + "\r\n" + framingSecond},
	{0, framingChunked + "2\r\n{}"},
	{0, framingChunked + "2\r\n{}\r\n0\r\n"},
}

// TestFramingSeeds checks that the edge accepts the expected number of requests from each seed,
// whether the seed is sent in one piece or byte by byte.
func TestFramingSeeds(t *testing.T) {
	t.Parallel()
	w := newWitness()
	edge := witnessedEdge(t, w)
	for _, seed := range framingSeeds {
		from, _ := sendRaw(t, edge, []byte(seed.text))
		if got, _ := w.take(from); len(got) != seed.seen {
			t.Errorf("%d requests, want %d, of\n%.300q", len(got), seed.seen, seed.text)
		}
	}
}

// FuzzFraming sends the same bytes to the edge and to net/http. net/http must see every request
// that the edge sees, with the same method, target and body. The edge may reject more requests than
// net/http.
func FuzzFraming(f *testing.F) {
	for _, seed := range framingSeeds {
		f.Add([]byte(seed.text))
	}
	ours, theirs := newWitness(), newWitness()
	edge, other := witnessedEdge(f, ours), witnessedServer(f, theirs)
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 32<<10 || bytes.Contains(text, []byte("Upgrade")) {
			t.Skip()
		}
		if bytes.HasPrefix(text, []byte("\r\n")) || bytes.Contains(text, []byte("\r\n\r\n\r\n")) {
			t.Skip() // net/http does not skip empty lines before a request
		}
		from, _ := sendRaw(t, edge, text)
		mine, _ := ours.take(from)
		if len(mine) == 0 {
			return // the edge rejected the request
		}
		from, answers := sendRaw(t, other, text)
		reference, cut := theirs.take(from)
		refused := answers > len(reference) // the server rejected the head, and stopped reading
		for len(mine) > 0 {
			i := slices.Index(reference, mine[0])
			if i < 0 {
				break
			}
			mine, reference = mine[1:], reference[i+1:]
		}
		switch {
		case len(mine) == 0:
		case len(mine) == 1 && refused && mayNetHTTPReject(mine[0], text):
		// The body was malformed, so no request follows.
		case len(mine) == 1 && cut && len(reference) > 0:
		default:
			t.Fatalf("the edge alone sees %q in\n%q\nnet/http goes on to see %q", mine, text, reference)
		}
	})
}

// mayNetHTTPReject reports whether net/http may reject a request that the edge accepts: net/http
// parses the target and rejects unknown expectations.
func mayNetHTTPReject(s seenRequest, text []byte) bool {
	_, err := url.ParseRequestURI(s.target)
	return err != nil || bytes.Contains(bytes.ToLower(text), []byte("expect"))
}

// sendRaw sends text over a new connection. It returns the local address of the connection and the
// number of final responses.
func sendRaw(t *testing.T, addr string, text []byte) (from string, answers int) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Skip("no port is free: ", err)
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetLinger(0) // prevents ports from staying in TIME_WAIT
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = c.Write(text) // the server may have closed the connection
	_ = c.(*net.TCPConn).CloseWrite()
	all, err := io.ReadAll(c)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Fatalf("%s hangs over\n%q", addr, text)
	}
	for line := range strings.Lines(string(all)) {
		if strings.HasPrefix(line, "HTTP/1.") && !strings.HasPrefix(line, "HTTP/1.1 100") {
			answers++
		}
	}
	return c.LocalAddr().String(), answers
}

// witnessedEdge returns the address of an edge with one endpoint. The endpoint only reads the
// request bodies.
func witnessedEdge(f testing.TB, w *witness) string {
	e, public := fuzzedEdge(f)
	p := &publicAPI{services: e.services, draining: e.shutdown.draining.Load}
	e.server.Handler = p.withRequestChecks(func(ctx *fasthttp.RequestCtx) {
		ep := *endpoint.EndpointByPath([]byte("/v1/chat/completions"))
		ep.New = func() endpoint.Request { return witnessRequest{ctx: ctx, w: w} }
		e.services.Handler(&ep)(ctx)
	})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = e.server.Serve(e.listener)
	}()
	f.Cleanup(func() {
		_ = e.server.Shutdown()
		<-served
	})
	return public.Addr().String()
}

// originForm removes the scheme and the authority from a target.
func originForm(target string) string {
	scheme, rest, found := strings.Cut(target, "://")
	if !found || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return target
	}
	path := strings.IndexAny(rest, "/?")
	switch {
	case path < 0:
		return "/"
	case rest[path] == '?':
		return "/" + rest[path:]
	}
	return rest[path:]
}

type witnessRequest struct {
	endpoint.Request
	ctx *fasthttp.RequestCtx
	w   *witness
}

func (r witnessRequest) Decode(in endpoint.DecodeInput) error {
	r.w.add(r.ctx.RemoteAddr().String(), seenRequest{string(in.Header.Method()), string(in.Header.RequestURI()), string(in.Body.Bytes())}, false)
	return apierr.Invalid("model", apierr.CodeMissingParameter, "enough seen")
}

func (witnessRequest) Form() *body.Form { return nil }
func (witnessRequest) Release()         {}
func (witnessRequest) Recycle()         {}

func witnessedServer(f *testing.F, w *witness) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	s := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          zap.NewStdLog(zap.NewNop()),
		Handler: http.HandlerFunc(func(res http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(bufio.NewReader(r.Body))
			w.add(r.RemoteAddr, seenRequest{r.Method, originForm(r.RequestURI), string(body)}, err != nil)
			res.Header().Set("Content-Length", "0")
			if err != nil {
				res.Header().Set("Connection", "close")
				res.WriteHeader(fasthttp.StatusBadRequest)
			}
		}),
	}
	go func() { _ = s.Serve(ln) }()
	f.Cleanup(func() { _ = s.Close() })
	return ln.Addr().String()
}
