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

// Body contains the bytes of a JSON request: the client's body and, if needed, its translation into
// a chat request.
type Body struct {
	memory     Reservation
	client     *[]byte // nil if there is no body or it was released
	chat       *[]byte // nil if the body was not translated
	clientHeld int64   // bytes of memory held for client
	size       int64   // length of the body
	waited     time.Duration
}

// Begin resets b to an empty body that reserves its memory from budget.
func (b *Body) Begin(budget *limit.Memory) { *b = Body{memory: Reservation{budget: budget}} }

// Source is the request whose body is read, together with the limits that apply to the client.
type Source struct {
	Ctx     *fasthttp.RequestCtx
	Start   time.Time
	Limit   int64 // maximum length in bytes, both before and after decompression
	Silence time.Duration
	Rate    int64 // minimum rate of a large body in bytes per second; 0 means no minimum
	// Bytes in incomplete bodies of the client's key; nil if they are not counted.
	Reading *atomic.Int64
}

const (
	// slowBody is the minimum rate of a JSON body after slowGrace, in bytes per second. It stops
	// clients that send one byte at a time. A large body must arrive fast enough to fill its
	// reserved memory within slowFill, or at limits.upload_rate, whichever rate is lower.
	// Otherwise, a few clients could use up all memory by announcing large bodies and sending
	// little.
	slowBody  = 1 << 10
	slowGrace = 10 * time.Second
	slowFill  = 2 * time.Minute
)

// Read reads the whole body of a request and decompresses it.
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
	b.size = int64(len(*b.client))
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
		b.size = int64(len(*b.client))
	}
	return e
}

// fill reads n bytes, or all bytes until EOF if n is negative. It first reserves at most firstPart
// bytes. The buffer then doubles as bytes arrive, up to n bytes.
func (b *Body) fill(src io.Reader, n int64, from *Source) *apierr.Error {
	b.client = newBuffer(min(n, firstPart))
	buf, room := (*b.client)[:0], cap(*b.client)
	if n > firstPart { // a pooled buffer may be larger than the reservation
		room = firstPart
	}
	conn := from.Ctx.Conn()
	var armed time.Time // zero while the server's deadline for the first byte applies
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
				// Setting a deadline costs more than a read, so the deadline is rarely moved.
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
	// The first read returns bytes that arrived together with the headers.
	if reads > 1 && !arrived {
		b.waited = time.Since(from.Start)
	}
	if n >= 0 && int64(len(buf)) < n {
		return Broken(conn, io.ErrUnexpectedEOF)
	}
	return nil
}

// grow doubles the buffer for the client's bytes, which is full. If most is not negative, the
// buffer grows to at most that size. If no memory is left, grow returns false and changes nothing.
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

// Drips reports whether a JSON body arrives too slowly. after is the elapsed time, received the
// number of bytes that have arrived, and held the number of reserved bytes. rate is Source.Rate.
func Drips(after time.Duration, received, held, rate int64) bool {
	late := after - slowGrace
	return late > 0 && received < int64(late.Seconds())*max(slowBody, min(held/int64(slowFill/time.Second), rate))
}

// Size returns the length of the body in bytes, after decompression if the body was compressed.
func (b *Body) Size() int64 { return b.size }

// Waited returns how long the edge waited for bytes that did not arrive with the headers.
func (b *Body) Waited() time.Duration { return b.waited }

// Held reports whether the body has bytes to send to an engine.
func (b *Body) Held() bool { return b.client != nil || b.chat != nil }

// Client returns the client's bytes after decompression. It returns nil if the body is empty or
// DropClient was called.
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

// translationMore is how many bytes a translation may be longer than the body before more memory is
// reserved.
const translationMore = 1 << 10

// Translate calls write, which appends the translation of the client's bytes. b then stores both.
// Translate first reserves as many bytes as the client sent, and corrects the reservation after
// write.
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

// Copy makes b a copy of the bytes that of would send to an engine. If there are no bytes or no
// memory is left, Copy returns false and leaves b empty.
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

// DropClient releases the client's bytes.
func (b *Body) DropClient() {
	b.memory.giveBack(b.clientHeld, &b.client)
	b.clientHeld = 0
}

// DropOriginal releases the client's bytes if there is a translation.
func (b *Body) DropOriginal() {
	if b.chat != nil {
		b.DropClient()
	}
}

// Replace replaces the client's bytes and their translation with the n bytes that write appends.
// write may read the old bytes. The results of Came and Waited do not change. If no memory is left,
// Replace returns false and changes nothing.
func (b *Body) Replace(n int64, write func(dst []byte) []byte) bool {
	if !b.memory.Reserve(n) {
		return false
	}
	replaced := newBuffer(n)
	*replaced = write(*replaced)
	b.memory.held -= n // so that Release does not release the new bytes
	b.Release()
	b.memory.held, b.clientHeld = n, 0
	b.client = replaced
	return true
}

// Release releases all bytes. It must be called after the last attempt, and may be called again.
func (b *Body) Release() {
	b.memory.giveBack(b.memory.held, &b.client, &b.chat)
}
