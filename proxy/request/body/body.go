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
	reservation    Reservation
	client         *[]byte // nil if there is no body or it was released
	translated     *[]byte // nil if the body was not translated
	clientReserved int64   // bytes reserved for client
	size           int64   // length of the body
	clientWait     time.Duration
}

// Reset empties b. The memory for its next bytes is reserved from budget.
func (b *Body) Reset(budget *limit.MemoryBudget) { *b = Body{reservation: Reservation{budget: budget}} }

// RequestSource is the request from which a body is read, together with the limits that apply to
// the client.
type RequestSource struct {
	Ctx     *fasthttp.RequestCtx
	Start   time.Time
	Limit   int64 // maximum length in bytes, both before and after decompression
	Silence time.Duration
	Rate    int64 // minimum rate of a large body in bytes per second; 0 means no minimum
	// Bytes in incomplete bodies of all requests with the client's key; nil if they are not
	// counted.
	Reading *atomic.Int64
}

const (
	// minBodyRate is the minimum rate of a JSON body after rateGrace, in bytes per second. It stops
	// clients that send one byte at a time. A large body must arrive fast enough to fill its
	// reserved memory within maxFillTime, or at limits.upload_rate, whichever rate is lower.
	// Otherwise, a few clients could use up all memory by announcing large bodies and sending
	// little.
	minBodyRate = 1 << 10
	rateGrace   = 10 * time.Second
	maxFillTime = 2 * time.Minute
)

// Read reads the whole body of a request and decompresses it.
func (b *Body) Read(from *RequestSource) *apierr.Error {
	n := AnnouncedLength(&from.Ctx.Request.Header)
	if n == 0 {
		return nil
	}
	if n < 0 || !listen.IsRequestComplete(from.Ctx.Conn()) {
		b.reservation.keyIncomplete = from.Reading
		defer b.reservation.MarkBodyComplete()
	}
	if !b.reservation.Reserve(min(max(n, 0), knownSizeReserve)) {
		return MemoryFullError()
	}
	src := from.Ctx.RequestBodyStream()
	if src == nil {
		return nil
	}
	e := b.readBytes(src, n, from)
	b.size = int64(len(*b.client))
	if e != nil {
		return e
	}
	if n < 0 {
		if err := listen.BodyFramingError(from.Ctx.Conn()); err != nil {
			return IncompleteError(from.Ctx.Conn(), err)
		}
	}
	if c := requestCoding(&from.Ctx.Request.Header); c != codingIdentity {
		e = b.decompress(c, from.Limit)
		b.size = int64(len(*b.client))
	}
	return e
}

// readBytes reads n bytes, or all bytes until EOF if n is negative. It first reserves at most
// knownSizeReserve bytes. As bytes arrive, the buffer doubles, up to n bytes.
func (b *Body) readBytes(src io.Reader, n int64, from *RequestSource) *apierr.Error {
	b.client = newBuffer(min(n, knownSizeReserve))
	buf, room := (*b.client)[:0], cap(*b.client)
	if n > knownSizeReserve { // a pooled buffer may be larger than the reservation
		room = knownSizeReserve
	}
	conn := from.Ctx.Conn()
	var armed time.Time // zero while the server's deadline for the first byte applies
	reads, arrived := 0, n > 0 && listen.IsRequestComplete(conn)
	for int64(len(buf)) != n {
		if len(buf) == room {
			*b.client = buf
			var ok bool
			if room, ok = b.growBuffer(n); !ok {
				return MemoryFullError()
			}
			buf = *b.client
		}
		if len(buf) > 0 && !arrived {
			now := time.Now()
			if now.Sub(armed) > min(time.Second, from.Silence/8) {
				// Setting a deadline costs more than a read, so the deadline is rarely changed.
				if IsTooSlow(now.Sub(from.Start), int64(len(buf)), max(b.reservation.reserved, n), from.Rate) {
					*b.client = buf
					return slowClientError(nil)
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
			return IncompleteError(conn, err)
		}
	}
	*b.client = buf
	// The first read returns bytes that arrived together with the headers.
	if reads > 1 && !arrived {
		b.clientWait = time.Since(from.Start)
	}
	if n >= 0 && int64(len(buf)) < n {
		return IncompleteError(conn, io.ErrUnexpectedEOF)
	}
	return nil
}

// growBuffer doubles the buffer for the client's bytes, which is full. If most is not negative, the
// buffer grows to at most that size. If no memory is left, growBuffer returns false and changes
// nothing.
func (b *Body) growBuffer(most int64) (room int, ok bool) {
	full := *b.client
	size := 2 * int64(len(full))
	if most >= 0 {
		size = min(size, most)
	}
	if !b.reservation.Reserve(size - int64(len(full))) {
		return len(full), false
	}
	if size > int64(cap(full)) {
		larger := newBuffer(size)
		*larger = append(*larger, full...)
		recycleBuffer(b.client)
		b.client = larger
	}
	return int(size), true
}

// IsTooSlow reports whether a JSON body arrives too slowly. after is the elapsed time, received is
// the number of bytes that have arrived, and held is the number of reserved bytes. rate is
// RequestSource.Rate.
func IsTooSlow(after time.Duration, received, held, rate int64) bool {
	late := after - rateGrace
	return late > 0 && received < int64(late.Seconds())*max(minBodyRate, min(held/int64(maxFillTime/time.Second), rate))
}

// Size returns the length of the body in bytes, after decompression if the body was compressed.
func (b *Body) Size() int64 { return b.size }

// ClientWait returns how long the edge waited for bytes that did not arrive with the headers.
func (b *Body) ClientWait() time.Duration { return b.clientWait }

// HasBytes reports whether the body has bytes to send to an engine.
func (b *Body) HasBytes() bool { return b.client != nil || b.translated != nil }

// ClientBytes returns the client's bytes after decompression. It returns nil if the body is empty
// or DropClientBytes was called.
func (b *Body) ClientBytes() []byte { return derefBytes(b.client) }

// Bytes returns the translation if there is one, otherwise the client's bytes.
func (b *Body) Bytes() []byte {
	if b.translated != nil {
		return *b.translated
	}
	return derefBytes(b.client)
}

func derefBytes(buf *[]byte) []byte {
	if buf == nil {
		return nil
	}
	return *buf
}

// translationHeadroom is how many bytes a translation may exceed the length of the body before more
// memory is reserved.
const translationHeadroom = 1 << 10

// Translate calls write, which appends the translation of the client's bytes. b then stores both
// the translation and the client's bytes. Translate first reserves as many bytes as the client
// sent, and corrects the reservation after write returns.
func (b *Body) Translate(write func(dst []byte) ([]byte, error)) error {
	b.clientReserved = b.reservation.reserved
	var n int64
	if b.client != nil {
		n = int64(len(*b.client)) + translationHeadroom
	}
	if !b.reservation.Reserve(n) {
		return MemoryFullError()
	}
	buf := newBuffer(n)
	out, err := write((*buf)[:0])
	*buf = out
	if err == nil {
		if more := int64(len(out)) - n; more < 0 {
			b.reservation.release(-more)
		} else if !b.reservation.Reserve(more) {
			err = MemoryFullError()
		}
	}
	if err != nil {
		recycleBuffer(buf)
		return err
	}
	b.translated = buf
	return nil
}

// CopyFrom copies into b the bytes that the other body would send to an engine. If there are no
// bytes or no memory is left, CopyFrom returns false and leaves b empty.
func (b *Body) CopyFrom(of *Body) bool {
	bytes := of.Bytes()
	b.Reset(of.reservation.budget)
	n := int64(len(bytes))
	if n == 0 || !b.reservation.Reserve(n) {
		return false
	}
	b.client = newBuffer(n)
	*b.client = append(*b.client, bytes...)
	return true
}

// DropClientBytes releases the client's bytes.
func (b *Body) DropClientBytes() {
	b.reservation.recycleBuffers(b.clientReserved, &b.client)
	b.clientReserved = 0
}

// DropClientBytesIfTranslated releases the client's bytes if there is a translation.
func (b *Body) DropClientBytesIfTranslated() {
	if b.translated != nil {
		b.DropClientBytes()
	}
}

// Replace replaces the client's bytes and their translation with the n bytes that write appends.
// write may read the old bytes. The results of Size and ClientWait do not change. If no memory is
// left, Replace returns false and changes nothing.
func (b *Body) Replace(n int64, write func(dst []byte) []byte) bool {
	if !b.reservation.Reserve(n) {
		return false
	}
	replaced := newBuffer(n)
	*replaced = write(*replaced)
	b.reservation.reserved -= n // Release must not release the new bytes
	b.Release()
	b.reservation.reserved, b.clientReserved = n, 0
	b.client = replaced
	return true
}

// Release releases all bytes. It must be called after the last attempt, and may be called again.
func (b *Body) Release() {
	b.reservation.recycleBuffers(b.reservation.reserved, &b.client, &b.translated)
}
