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

// Body holds the bytes of a JSON request: the client's own, and their translation into a chat
// request.
type Body struct {
	memory     Reservation
	client     *[]byte // nil: there was none, or it was released
	chat       *[]byte // nil: there is no translation
	clientHeld int64   // bytes of memory that are for client
	came       int64
	waited     time.Duration
}

// Begin makes b an empty body that reserves memory from budget.
func (b *Body) Begin(budget *limit.Memory) { *b = Body{memory: Reservation{budget: budget}} }

// Source says where a body comes from, and which limits its client must keep.
type Source struct {
	Ctx     *fasthttp.RequestCtx
	Start   time.Time     // when the request started
	Limit   int64         // the maximum length of the body, both as sent and decoded
	Silence time.Duration // how long the client may be silent
	Rate    int64         // bytes per second at which a large body must arrive; 0: any rate
	Reading *atomic.Int64 // bytes held by incomplete bodies of the client's key; nil: not counted
}

const (
	// slowBody is the minimum rate of a JSON body after the first slowGrace, in bytes per second.
	// It cuts off clients that send one byte at a time. A large body must also fill its reserved
	// memory within slowFill, or arrive at limits.upload_rate if that is slower. Otherwise a few
	// clients that announce much and send little would lock out all others.
	slowBody  = 1 << 10
	slowGrace = 10 * time.Second
	slowFill  = 2 * time.Minute
)

// Read reads a request's body to its end, and decompresses it if necessary.
func (b *Body) Read(from *Source) *apierr.Error {
	n := Announced(&from.Ctx.Request.Header)
	if n == 0 {
		return nil
	}
	if n < 0 || !listen.RequestComplete(from.Ctx.Conn()) {
		b.memory.reading = from.Reading
		defer b.memory.Complete()
	}
	if !b.memory.Reserve(min(max(n, 0), firstPart)) {
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

// fill reads src to its end: n bytes, or until EOF if n is negative. At first it reserves at most
// firstPart bytes. As bytes arrive, the buffer doubles, up to n bytes.
func (b *Body) fill(src io.Reader, n int64, from *Source) *apierr.Error {
	b.client = newBuffer(min(n, firstPart))
	buf, room := (*b.client)[:0], cap(*b.client)
	if n > firstPart { // a pooled buffer may be larger than what is reserved
		room = firstPart
	}
	conn := from.Ctx.Conn()
	var armed time.Time // the deadline for the first byte was set with the head
	reads, arrived := 0, n > 0 && listen.RequestComplete(conn)
	for int64(len(buf)) != n {
		if len(buf) == room {
			*b.client = buf
			var ok bool
			if room, ok = b.grow(n); !ok {
				return MemoryFull()
			}
			buf = *b.client
		}
		if len(buf) > 0 && !arrived {
			now := time.Now()
			if now.Sub(armed) > min(time.Second, from.Silence/8) {
				// The deadline moves only now and then, because setting one costs more than a read.
				if Drips(now.Sub(from.Start), int64(len(buf)), max(b.memory.held, n), from.Rate) {
					*b.client = buf
					return slowClient(nil)
				}
				_ = conn.SetReadDeadline(now.Add(from.Silence))
				armed = now
			}
		}
		m, err := src.Read(buf[len(buf):room])
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
	if reads > 1 && !arrived { // a single read returns what arrived with the head
		b.waited = time.Since(from.Start)
	}
	if n >= 0 && int64(len(buf)) < n {
		return Broken(conn, io.ErrUnexpectedEOF)
	}
	return nil
}

// grow doubles the full buffer for the client's bytes. If most is not negative, it is the maximum
// new size. If there is no memory, grow returns false and changes nothing.
func (b *Body) grow(most int64) (room int, ok bool) {
	full := *b.client
	size := 2 * int64(len(full))
	if most >= 0 {
		size = min(size, most)
	}
	if !b.memory.Reserve(size - int64(len(full))) {
		return len(full), false
	}
	if size > int64(cap(full)) {
		larger := newBuffer(size)
		*larger = append(*larger, full...)
		recycle(b.client)
		b.client = larger
	}
	return int(size), true
}

// Drips reports whether a JSON body arrives too slowly. came is the number of bytes received so
// far, after is the time that they took, held is the number of bytes reserved for the body, and
// rate is Source.Rate.
func Drips(after time.Duration, came, held, rate int64) bool {
	late := after - slowGrace
	return late > 0 && came < int64(late.Seconds())*max(slowBody, min(held/int64(slowFill/time.Second), rate))
}

// Came returns the length of the body that was read, after decompression.
func (b *Body) Came() int64 { return b.came }

// Waited returns how long the edge waited for bytes that did not arrive with the head.
func (b *Body) Waited() time.Duration { return b.waited }

// Held reports whether there are bytes to send to an engine.
func (b *Body) Held() bool { return b.client != nil || b.chat != nil }

// Client returns the bytes that the client wrote, decompressed. It returns nil if there is no
// body, and after DropClient.
func (b *Body) Client() []byte { return bytesOf(b.client) }

// Bytes returns the translation if there is one, otherwise the client's bytes.
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

// translationMore is the number of bytes by which a translation may exceed the body before more
// memory is reserved.
const translationMore = 1 << 10

// Translate calls write to append the translation of the client's bytes to dst, and keeps both the
// translation and the client's bytes. Before it calls write, Translate reserves as much memory as
// the client's bytes take. Afterwards it corrects the reservation to the translation's length.
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

// Copy copies into b the bytes that the given body would send to an engine. If there is nothing to
// send or no memory for it, Copy returns false and leaves b empty.
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

// DropClient releases the client's bytes after they were translated.
func (b *Body) DropClient() {
	b.memory.giveBack(b.clientHeld, &b.client)
	b.clientHeld = 0
}

// DropOriginal releases the client's bytes if a translation has replaced them.
func (b *Body) DropOriginal() {
	if b.chat != nil {
		b.DropClient()
	}
}

// Replace makes b hold the n bytes that write appends, in place of the client's bytes and their
// translation. write may read the old bytes. The results of Came and Waited do not change. If there
// is no memory, Replace returns false and changes nothing.
func (b *Body) Replace(n int64, write func(dst []byte) []byte) bool {
	if !b.memory.Reserve(n) {
		return false
	}
	replaced := newBuffer(n)
	*replaced = write(*replaced)
	b.memory.held -= n // the bytes that Release must not release again
	b.Release()
	b.memory.held, b.clientHeld = n, 0
	b.client = replaced
	return true
}

// Release releases all bytes. Call it once no attempt can need them. Further calls do nothing.
func (b *Body) Release() {
	b.memory.giveBack(b.memory.held, &b.client, &b.chat)
}
