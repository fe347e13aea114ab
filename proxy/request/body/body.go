package body

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/access/limit"
	"penstock/proxy/front/listen"
	"penstock/translate/apierr"
)

// Body holds the bytes of a JSON request: what the client wrote, and its translation to a chat
// request.
type Body struct {
	memory     Reservation
	client     *[]byte // nil: there is none, or it was released
	chat       *[]byte // nil: there is no translation
	clientHeld int64   // of memory, for client
	came       int64
	waited     time.Duration
}

// Begin makes b an empty body whose memory comes from budget.
func (b *Body) Begin(budget *limit.Memory) { *b = Body{memory: Reservation{budget: budget}} }

// Source is where a body comes from, and the limits that its client must keep.
type Source struct {
	Ctx     *fasthttp.RequestCtx
	Start   time.Time     // of the request
	Limit   int64         // on the body's bytes, and on those that it is decoded to
	Silence time.Duration // how long the client may be silent
	Rate    int64         // bytes a second at which a large body must arrive; 0: any
	Reading *atomic.Int64 // what incomplete bodies of the client's key hold; nil: not counted
}

const (
	// slowBody is the rate in bytes per second that a JSON body must keep after its first
	// slowGrace, so that a client that drips bytes is ended, too. A large body must also fill the
	// memory that is reserved for it within slowFill, or arrive at limits.upload_rate if that is
	// slower. Otherwise a few clients that announce much and send little would lock out all others.
	slowBody  = 1 << 10
	slowGrace = 10 * time.Second
	slowFill  = 2 * time.Minute
)

// Read reads a request's body to its end, and decodes a compressed one.
func (b *Body) Read(from *Source) *apierr.Error {
	n := Announced(&from.Ctx.Request.Header)
	if n == 0 {
		return nil
	}
	if n < 0 || !listen.RequestComplete(from.Ctx.Conn()) {
		b.memory.reading = from.Reading
		defer b.memory.Complete()
	}
	if !b.memory.Reserve(max(n, 0)) {
		return MemoryFull()
	}
	src := from.Ctx.RequestBodyStream()
	if src == nil {
		return nil
	}
	e := b.fill(src, n, from)
	b.came = int64(len(*b.client))
	if e != nil {
		return e
	}
	if n < 0 {
		if err := listen.BodyFramingError(from.Ctx.Conn()); err != nil {
			return Broken(from.Ctx.Conn(), err)
		}
	}
	if c := codingOf(&from.Ctx.Request.Header); c != identity {
		e = b.decode(c, from.Limit)
		b.came = int64(len(*b.client))
	}
	return e
}

// fill reads src to its end: n bytes, or until EOF when n is negative.
func (b *Body) fill(src io.Reader, n int64, from *Source) *apierr.Error {
	b.client = newBuffer(n)
	buf := (*b.client)[:0]
	conn := from.Ctx.Conn()
	var armed time.Time // the deadline for the first byte was set with the head
	reads, arrived := 0, n > 0 && listen.RequestComplete(conn)
	for int64(len(buf)) != n {
		if len(buf) == cap(buf) { // a chunked body: others have their full size from the start
			var ok bool
			if buf, ok = b.memory.grow(buf); !ok {
				*b.client = buf
				return MemoryFull()
			}
		}
		if len(buf) > 0 && !arrived {
			now := time.Now()
			if now.Sub(armed) > min(time.Second, from.Silence/8) {
				// Moved only now and then: a deadline costs more than a read.
				if Drips(now.Sub(from.Start), int64(len(buf)), b.memory.held, from.Rate) {
					*b.client = buf
					return slowClient(nil)
				}
				_ = conn.SetReadDeadline(now.Add(from.Silence))
				armed = now
			}
		}
		m, err := src.Read(buf[len(buf):cap(buf)])
		reads++
		buf = buf[:len(buf)+m]
		if int64(len(buf)) > from.Limit {
			*b.client = buf
			return apierr.TooLarge(from.Limit)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			*b.client = buf
			return Broken(conn, err)
		}
	}
	*b.client = buf
	if reads > 1 && !arrived { // a single read brings what came with the head
		b.waited = time.Since(from.Start)
	}
	if n >= 0 && int64(len(buf)) < n {
		return Broken(conn, io.ErrUnexpectedEOF)
	}
	return nil
}

// Drips reports whether a JSON body comes too slowly. came is how many of its bytes have arrived in
// the time after, held how many bytes of memory are reserved for it, and rate that of Source.
func Drips(after time.Duration, came, held, rate int64) bool {
	late := after - slowGrace
	return late > 0 && came < int64(late.Seconds())*max(slowBody, min(held/int64(slowFill/time.Second), rate))
}

// Came returns the length of the body as it was read and decoded.
func (b *Body) Came() int64 { return b.came }

// Waited returns how long the edge waited for bytes that did not come with the head.
func (b *Body) Waited() time.Duration { return b.waited }

// Held reports whether there are bytes to send to an engine.
func (b *Body) Held() bool { return b.client != nil || b.chat != nil }

// Client returns the bytes that the client wrote, decoded; nil without a body and after DropClient.
func (b *Body) Client() []byte { return bytesOf(b.client) }

// Bytes returns the translation if there is one, and otherwise the client's bytes.
func (b *Body) Bytes() []byte {
	if b.chat != nil {
		return *b.chat
	}
	return bytesOf(b.client)
}

func bytesOf(buf *[]byte) []byte {
	if buf == nil {
		return nil
	}
	return *buf
}

// translationMore is how much longer than the body a translation may be before more memory is
// reserved.
const translationMore = 1 << 10

// Translate keeps what write makes of the client's bytes, beside these bytes. It first reserves as
// much memory as they take, and then corrects the reservation to the length of the translation.
// write appends to dst.
func (b *Body) Translate(write func(dst []byte) ([]byte, error)) error {
	b.clientHeld = b.memory.held
	var n int64
	if b.client != nil {
		n = int64(len(*b.client)) + translationMore
	}
	if !b.memory.Reserve(n) {
		return MemoryFull()
	}
	buf := newBuffer(n)
	out, err := write((*buf)[:0])
	*buf = out
	if err == nil {
		if more := int64(len(out)) - n; more < 0 {
			b.memory.release(-more)
		} else if !b.memory.Reserve(more) {
			err = MemoryFull()
		}
	}
	if err != nil {
		recycle(buf)
		return err
	}
	b.chat = buf
	return nil
}

// Copy makes b a copy of what the body of would send to an engine. If there is nothing to send or
// no memory for it, Copy returns false and b is empty.
func (b *Body) Copy(of *Body) bool {
	bytes := of.Bytes()
	b.Begin(of.memory.budget)
	n := int64(len(bytes))
	if n == 0 || !b.memory.Reserve(n) {
		return false
	}
	b.client = newBuffer(n)
	*b.client = append(*b.client, bytes...)
	return true
}

// DropClient releases the client's bytes once they are translated.
func (b *Body) DropClient() {
	if b.client != nil {
		recycle(b.client)
		b.client = nil
	}
	b.memory.release(b.clientHeld)
	b.clientHeld = 0
}

// Release gives everything back, once no attempt can need it. Further calls do nothing.
func (b *Body) Release() {
	for _, buf := range [...]**[]byte{&b.client, &b.chat} {
		if *buf != nil {
			recycle(*buf)
			*buf = nil
		}
	}
	b.memory.release(b.memory.held)
}
