package body

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/access/limit"
)

// TestFillGrows checks that the memory for a body of known size grows as bytes arrive. The buffer
// starts with knownSizeReserve bytes and doubles whenever it is full, up to the body's size.
func TestFillGrows(t *testing.T) {
	for _, size := range []int{1, knownSizeReserve, knownSizeReserve + 1, 3 * knownSizeReserve, maxPooledBuffer + knownSizeReserve + 1} {
		for _, pooled := range []bool{false, true} {
			if pooled {
				recycleBuffer(newBuffer(maxPooledBuffer))
			}
			budget := limit.NewMemoryBudget(16 << 20)
			var b Body
			b.Reset(budget)
			if !b.reservation.Reserve(min(int64(size), knownSizeReserve)) {
				t.Fatal("no room")
			}
			text := bytes.Repeat([]byte("text"), size/4+1)[:size]
			src := &watchedReader{Reader: bytes.NewReader(text), beforeRead: func(read int) {
				if used := budget.UsedBytes(); used > max(int64(2*read), knownSizeReserve) || used > int64(size) || used < int64(read) {
					t.Fatalf("%d bytes are held for %d of %d", used, read, size)
				}
			}}
			ctx := &fasthttp.RequestCtx{}
			ctx.Init2(&net.TCPConn{}, nil, false)
			if e := b.readBytes(src, int64(size), &RequestSource{Ctx: ctx, Start: time.Now(), Limit: int64(size), Silence: time.Hour}); e != nil || !bytes.Equal(b.ClientBytes(), text) {
				t.Fatalf("fill of %d bytes: error %v, got %d bytes", size, e, len(b.ClientBytes()))
			}
			if b.reservation.reserved != int64(size) {
				t.Errorf("%d bytes are held for %d", b.reservation.reserved, size)
			}
			if b.Release(); budget.UsedBytes() != 0 {
				t.Errorf("%d bytes are left", budget.UsedBytes())
			}
		}
	}
}

// watchedReader reads a few bytes at a time. Before each read, it calls beforeRead with the number
// of bytes read so far.
type watchedReader struct {
	io.Reader
	read       int
	beforeRead func(read int)
}

func (w *watchedReader) Read(p []byte) (int, error) {
	w.beforeRead(w.read)
	n, err := w.Reader.Read(p[:min(len(p), 5000)])
	w.read += n
	return n, err
}
