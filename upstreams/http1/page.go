package http1

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"
)

// Page is the response to a GET.
type Page struct {
	Status int
	Body   []byte // valid until the next call of the same GetPageFunc
}

// GetPageFunc fetches pages from one engine. The timeout applies separately to connecting and to
// reading the page. If it applied to both together, an engine with slow handshakes (three round
// trips with TLS) would count as dead. GetPageFunc is a function type so that tests can simulate an
// engine without a socket. The error is a *Failure, ErrPageTooLarge or the error of ctx.
type GetPageFunc func(ctx context.Context, path string, timeout time.Duration) (Page, error)

// maxPageBytes is the maximum size of a page. The metrics page of a busy vLLM server has about 100 KB.
const maxPageBytes = 4 << 20

// ErrPageTooLarge is returned for a page larger than maxPageBytes.
var ErrPageTooLarge = errors.New("the page is larger than 4 MiB")

// PageFetcher returns a GetPageFunc over the transport. Only one goroutine at a time may use it,
// because it reuses a buffer.
func (t *Transport) PageFetcher() GetPageFunc {
	buf := make([]byte, 0, 8<<10)
	return func(ctx context.Context, path string, timeout time.Duration) (Page, error) {
		x, end := t.ExchangeWithContext(ctx)
		defer end()
		p := Page{}
		err := x.Send(&Request{Method: "GET", Path: path, Accept: "*/*", ConnectTimeout: timeout, WriteTimeout: timeout})
		until := time.Now().Add(timeout)
		if err == nil {
			err = x.Await(until)
		}
		if err == nil {
			p.Status = x.Status()
			buf, err = readPage(x, buf[:0], until)
			p.Body = buf
		}
		if errors.Is(err, ErrNoBytesYet) {
			err = &Failure{Kind: KindTimeout, Upstream: t.upstream, Clock: TimeoutAnswer, Reason: ReasonTimeout, Sent: true}
		}
		return p, err
	}
}

func readPage(x *Exchange, buf []byte, until time.Time) ([]byte, error) {
	for {
		buf = slices.Grow(buf, 4<<10)
		n, err := x.Read(buf[len(buf):cap(buf)], until)
		buf = buf[:len(buf)+n]
		switch {
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return buf, err
		case len(buf) > maxPageBytes:
			x.Abort(ErrPageTooLarge)
			return buf, ErrPageTooLarge
		}
	}
}
