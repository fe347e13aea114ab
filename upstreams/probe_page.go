package upstreams

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"
)

// probePage is an engine's answer to a GET of ours.
type probePage struct {
	status int
	body   []byte // valid until the next call of the same pageGetter
}

// pageGetter fetches pages from one engine. It allows timeout for the connection, and timeout again
// for the page: with one clock for both, an engine with slow handshakes (three round trips with
// TLS) would count as dead. It is a function, so that tests can play an engine without a socket.
type pageGetter func(ctx context.Context, path string, timeout time.Duration) (probePage, error)

// pageMax bounds a page; metrics of a busy vLLM are some 100 KB.
const pageMax = 4 << 20

var errPageTooLarge = errors.New("the page is larger than 4 MiB")

// newPageGetter returns a pageGetter over a transport. It reuses one buffer, so it is for one
// goroutine at a time.
func newPageGetter(t *Transport, id ID) pageGetter {
	buf := make([]byte, 0, 8<<10)
	return func(ctx context.Context, path string, timeout time.Duration) (probePage, error) {
		x := t.Exchange()
		defer x.Close()
		stop := context.AfterFunc(ctx, func() {
			defer t.guard.Catch(guardProbe, nil)
			x.Abort(ctx.Err())
		})
		defer stop()
		p := probePage{}
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
