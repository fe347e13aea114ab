package upstreams

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"
)

// page is an engine's answer to a GET of ours.
type page struct {
	status int
	body   []byte // valid until the next get of the same getter
}

// getter fetches pages from one engine: the connection is to come within timeout, and the page within timeout of that. One clock for
// both would take an engine for dead whose handshakes, three round trips with TLS, are slow. It is a function so that tests can play an engine without a socket.
type getter func(ctx context.Context, path string, timeout time.Duration) (page, error)

// pageMax bounds a page; metrics of a busy vLLM are some 100 KB.
const pageMax = 4 << 20

var errPageTooLarge = errors.New("the page is larger than 4 MiB")

// pageGetter returns a getter over a transport. It reuses one buffer, so it is for one goroutine at a time.
func pageGetter(t *Transport, id ID) getter {
	buf := make([]byte, 0, 8<<10)
	return func(ctx context.Context, path string, timeout time.Duration) (page, error) {
		x := t.Exchange()
		defer x.Close()
		stop := context.AfterFunc(ctx, func() {
			defer t.guard.Catch(guardProbe, nil)
			x.Abort(ctx.Err())
		})
		defer stop()
		p := page{}
		err := x.Send(&Request{Method: "GET", Path: path, Accept: "*/*", ConnectTimeout: timeout, WriteTimeout: timeout})
		until := time.Now().Add(timeout)
		if err == nil {
			err = x.Await(until)
		}
		if err == nil {
			p.status = x.Status()
			buf, err = readPage(x, buf[:0], until)
			p.body = buf
		}
		if errors.Is(err, ErrNotYet) {
			err = &Failure{Kind: Timeout, Upstream: id, Clock: ClockAnswer, Reason: ReasonTimeout, Sent: true}
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
		case len(buf) > pageMax:
			x.Abort(errPageTooLarge)
			return buf, errPageTooLarge
		}
	}
}
