package body

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"

	"penstock/translate/apierr"
	"penstock/upstreams/http1/httptoken"
)

// contentCoding is the content coding (RFC 9110, 8.4.1) of a JSON body.
type contentCoding uint8

const (
	codingIdentity contentCoding = iota // also used if there is no Content-Encoding
	codingGzip
	codingZstd
	codingOther // rejected; includes lists of codings
)

func (c contentCoding) String() string { return [...]string{"identity", "gzip", "zstd", "another"}[c] }

func requestCoding(h *fasthttp.RequestHeader) contentCoding {
	name := h.ContentEncoding()
	switch {
	case len(name) == 0:
		return codingIdentity
	case len(h.PeekAll(fasthttp.HeaderContentEncoding)) > 1:
		return codingOther
	case httptoken.EqualFold(name, "identity"):
		return codingIdentity
	case httptoken.EqualFold(name, "gzip"):
		return codingGzip
	case httptoken.EqualFold(name, "zstd"):
		return codingZstd
	}
	return codingOther
}

const (
	// A body may expand to minDecodedLimit bytes or to maxExpansionRatio times its compressed
	// length, whichever is larger. Prompts expand about 10 times, and decompression bombs about
	// 1,000 times.
	minDecodedLimit   = 1 << 20
	maxExpansionRatio = 100

	// zstdWindow is the maximum size of a frame's window in bytes. RFC 8878, 3.1.1.1.2 recommends
	// that every decoder supports this size.
	zstdWindow = 8 << 20
)

// decompressSlots limits how many bodies are decompressed at the same time. Each decompression
// occupies a CPU core and uses at most one window of unreserved memory.
var decompressSlots = make(chan struct{}, min(runtime.GOMAXPROCS(0), 8))

// decompress decompresses the client's bytes to at most limit bytes. It reserves memory as the
// buffer grows.
func (b *Body) decompress(c contentCoding, limit int64) *apierr.Error {
	decompressSlots <- struct{}{}
	defer func() { <-decompressSlots }()
	encoded, held := b.client, b.reservation.reserved
	src, done, err := c.newDecoder(*encoded)
	if err != nil {
		return decodeError(c, err)
	}
	defer done()
	b.client = newBuffer(0)
	defer recycleBuffer(encoded)
	most := max(minDecodedLimit, maxExpansionRatio*int64(len(*encoded)))
	for buf := (*b.client)[:0]; ; {
		n, err := src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		*b.client = buf
		switch size := int64(len(buf)); {
		case size > limit:
			return apierr.TooLarge(limit)
		case size > most:
			return apierr.New(413, apierr.CodeRequestTooLarge,
				"Decoded, the request body is more than 1 MiB and %d times as large as sent: send it unencoded.", maxExpansionRatio)
		case errors.Is(err, io.EOF):
			b.reservation.release(held)
			return nil
		case err != nil:
			return decodeError(c, err)
		}
		if len(buf) == cap(buf) {
			var ok bool
			if buf, ok = b.reservation.growBuffer(buf); !ok {
				return MemoryFullError()
			}
		}
	}
}

func decodeError(c contentCoding, cause error) *apierr.Error {
	text := "it is damaged, cut short, or something follows its end"
	if errors.Is(cause, zstd.ErrWindowSizeExceeded) {
		text = "its window is larger than 8 MiB"
	}
	e := apierr.BadRequest("The request body cannot be decoded as " + c.String() + ": " + text + ".")
	e.Cause = cause
	return e
}

var (
	gzipReaders sync.Pool
	zstdReaders = sync.Pool{New: func() any {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			panic(err) // cannot happen, because the options are constants
		}
		return r
	}}
)

// newDecoder returns an io.Reader that decodes the encoded bytes. The caller must call done exactly
// once to return the reader to its pool.
func (c contentCoding) newDecoder(encoded []byte) (r io.Reader, done func(), err error) {
	src := bytes.NewReader(encoded)
	if c == codingZstd {
		z := zstdReaders.Get().(*zstd.Decoder)
		return z, func() { _ = z.Reset(nil); zstdReaders.Put(z) }, z.Reset(src)
	}
	if z, ok := gzipReaders.Get().(*gzip.Reader); ok {
		return z, func() { gzipReaders.Put(z) }, z.Reset(src)
	}
	z, err := gzip.NewReader(src)
	return z, func() { gzipReaders.Put(z) }, err
}
