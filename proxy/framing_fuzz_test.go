package proxy

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/translate/apierr"
	"penstock/upstreams"
)

// seen is a request as a server has understood it.
type seen struct{ method, target, body string }

// witness keeps what a server has seen, by the client's address.
type witness struct {
	mu sync.Mutex
	of map[string][]seen
	// cut are the addresses whose last request had a body that could not be read.
	cut map[string]bool
}

func newWitness() *witness { return &witness{of: map[string][]seen{}, cut: map[string]bool{}} }

func (w *witness) add(addr string, s seen, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of[addr] = append(w.of[addr], s)
	w.cut[addr] = cut
}

func (w *witness) take(addr string) ([]seen, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, cut := w.of[addr], w.cut[addr]
	delete(w.of, addr)
	delete(w.cut, addr)
	return s, cut
}

// FuzzFraming has the same bytes read by the edge and by net/http. Whatever the edge takes for a request, net/http has to see
// as well, with the same method, target and body and in the same order: the edge may refuse more, and see less.
func FuzzFraming(f *testing.F) {
	const head = "POST /v1/chat/completions HTTP/1.1\r\nHost: e\r\n"
	const second = "GET /health HTTP/1.1\r\nHost: e\r\n\r\n"
	for _, text := range []string{
		head + "Content-Length: 2\r\n\r\n{}" + second,
		head + "Content-Length: 3\r\n\r\n{}" + second,
		head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + second,
		head + "Transfer-Encoding: chunked\r\n\r\n2;a=\"b\"\r\n{}\r\n0\r\nX: y\r\n\r\n" + second,
		head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX y: z\r\n\r\n" + second,
		head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + second,
		head + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}" + second,
		head + "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}" + second,
		head + "Transfer-Encoding:\r\n chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + second,
		head + "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n{}" + second,
		"GET / HTTP/1.1\r\nHost: e\r\nContent-Length: 5\r\n\r\nhello" + second,
		"GET / HTTP/1.0\r\n\r\n" + second,
		"GET / HTTP/1.1\nHost: e\n\n" + second,
		"\r\n" + second + second + "\r\n" + second,
		"HEAD http://e/x HTTP/1.1\r\nHost: e\r\n\r\n" + second,
	} {
		f.Add([]byte(text))
	}
	ours, theirs := newWitness(), newWitness()
	edge, other := witnessedEdge(f, ours), witnessedServer(f, theirs)
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 8<<10 || bytes.Contains(text, []byte("Upgrade")) {
			t.Skip()
		}
		from, _ := converse(t, edge, text)
		mine, _ := ours.take(from)
		if len(mine) == 0 {
			return // refused
		}
		from, answers := converse(t, other, text)
		reference, cut := theirs.take(from)
		refused := answers > len(reference) // by the head: then it has not looked further
		for len(mine) > 0 {
			i := slices.Index(reference, mine[0])
			if i < 0 {
				break
			}
			mine, reference = mine[1:], reference[i+1:]
		}
		switch {
		case len(mine) == 0, refused:
		case len(mine) == 1 && cut && len(reference) > 0: // it got that far, and the body was no good; nothing follows here
		default:
			t.Fatalf("the edge alone sees %q in\n%q\nnet/http goes on to see %q", mine, text, reference)
		}
	})
}

// converse sends text over a connection of its own and reads to the end. It returns the address it came from and how many
// final answers there were.
func converse(t *testing.T, addr string, text []byte) (from string, answers int) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Skip("no port is free: ", err)
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetLinger(0) // keeps no port
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = c.Write(text) // it may have hung up
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

// witnessedEdge is an edge whose every path is one endpoint, which takes no request further than its body.
func witnessedEdge(f *testing.F, w *witness) string {
	public, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	const text = `
auth: none
admin: { listen: "" }
upstreams: [{ name: up, url: "http://127.0.0.1:1", engine: sim, probe: { interval: 1h } }]
models: [{ id: m, deployments: [{ upstream: up }] }]
`
	c, problems := config.ParseValid("test.yaml", []byte(text), config.Known{Engines: upstreams.EngineNames(nil)})
	if c == nil {
		f.Fatal(problems)
	}
	e, err := New(Options{Config: c, Log: zap.NewNop(), MemoryLimit: 1 << 30, Public: public})
	if err != nil {
		f.Fatal(err)
	}
	ep := *endpointChat
	ep.decode = func(c *Call, body []byte) error {
		h := &c.ctx.Request.Header
		w.add(c.ctx.RemoteAddr().String(), seen{string(h.Method()), string(h.RequestURI()), string(body)}, false)
		return apierr.Invalid("model", apierr.CodeMissingParameter, "enough seen")
	}
	e.public.Handler = e.guard(e.generate(&ep))
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = e.public.Serve(e.watch)
	}()
	f.Cleanup(func() {
		_ = e.public.Shutdown()
		<-served
		_ = e.set.Close(context.Background())
		_ = e.watch.Release()
	})
	return public.Addr().String()
}

// witnessedServer is the reference.
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
			w.add(r.RemoteAddr, seen{r.Method, r.RequestURI, string(body)}, err != nil)
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
