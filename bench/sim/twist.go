package sim

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What faulty answers carry that must never reach a client. Tests look for them.
const (
	LeakedHost   = "gpu-node-17.internal.example" // in HTML pages and 5xx texts
	LeakedPath   = "/srv/models/secret-checkpoint"
	LeakedSecret = "s3cr3t-from-the-engine" // in headers
	ForgedText   = "this reply was forged"  // in the second reply after surplus
)

// twist is how one exchange misbehaves. Each fault sets a few members, so that several can be joined.
type twist struct {
	delay time.Duration

	head func(*exchange) bool // before the body is read, in the reader's goroutine; true: the connection is done with
	take func(*exchange)      // in place of the whole answer
	hold bool                 // takes a slot and never answers

	// The answer's head and framing.
	interim, interimCode int
	status               int
	lines                []byte // further header lines
	filler               func([]byte) []byte
	framing              framing
	long                 int // what longLength adds
	dripHead, dripBody   time.Duration
	gzip                 bool
	surplus              []byte
	quit                 string // keepalive-close: now, next, next-reset
	quitDelay            time.Duration
	piece                func(*exchange) int // size of the next piece of the body
	pieceGap             time.Duration

	// A plain answer's body.
	plain func(x *exchange, ctype string, body []byte) (string, []byte)

	// A stream.
	form      form
	acts      []incident
	noDone    bool
	noFinish  bool
	ghost     bool // noFinish as Ollama does it: one more chunk with no model and no text
	flip      string
	sseCtype  string
	usage     usageMode
	finish    string
	minCalls  int
	interwove bool
	whole     bool
	badArgs   bool
}

// incident is something that happens before the event after the at-th, or in the middle of a plain body.
type incident struct {
	at         int
	streamOnly bool
	do         func(*exchange) bool // true: the answer goes on
}

type usageMode uint8

const (
	usageAsked usageMode = iota
	usageEvery
	usageOnFinish
	usageNever
	usageUnasked
)

// arm makes x act p out.
func (x *exchange) arm(p *plan) {
	x.e.counters.faults.Add(1)
	x.t = twist{}
	p.apply(&x.t)
}

// misbehave acts out what replaces the answer; true: it did.
func (x *exchange) misbehave() bool {
	t := &x.t
	if t.delay > 0 {
		d := t.delay
		t.delay = 0
		if !x.pause(d) {
			return true
		}
	}
	switch {
	case t.head != nil: // asked for by the body: the best that can still be done
		x.broken = t.head(x)
		return true
	case t.take != nil:
		t.take(x)
		return true
	}
	return false
}

// raw writes bytes as they are and ends the connection.
func (x *exchange) raw(p string) {
	x.broken = true
	_, _ = io.WriteString(x.c.nc, p)
	x.c.close()
}

// cut ends the answer with a FIN where it stands.
func (x *exchange) cut() bool {
	x.flush()
	x.c.close()
	return false
}

// endless writes the same bytes until the client leaves.
func (x *exchange) endless(p []byte, chunked bool) {
	defer func() { x.broken = true }()
	limit := 1 << 30 // a client that takes a gigabyte has failed; do not fill the machine
	for sent := 0; sent < limit && !x.lost; sent += len(p) {
		if chunked {
			x.frame(p)
		} else {
			x.out = append(x.out, p...)
		}
		if x.hasLeft() || !x.flush() {
			return
		}
	}
	x.c.close()
}

// bomb sends so many megabytes of zeros, compressed.
func (x *exchange) bomb(mb int) {
	start, first, next := bombParts()
	x.encoding = "gzip"
	x.head(http.StatusOK, "application/json", -1)
	x.put(start)
	zeros := make([]byte, 1<<20)
	sum := crc32.ChecksumIEEE([]byte(bombOpening))
	for i := range mb {
		sum = crc32.Update(sum, crc32.IEEETable, zeros)
		if i == 0 {
			x.put(first)
		} else {
			x.put(next)
		}
		if x.hasLeft() || !x.flush() {
			return
		}
	}
	end := []byte{3, 0} // the last block, empty
	end = binary.LittleEndian.AppendUint32(end, sum)
	x.put(binary.LittleEndian.AppendUint32(end, uint32(len(bombOpening)+mb<<20)))
	x.finish()
}

const bombOpening = `{"id":"`

// bombParts are a gzip head with the opening of some JSON, a first megabyte of zeros, and one that follows zeros.
func bombParts() (start, first, next []byte) {
	b := bombOnce()
	return b[0], b[1], b[2]
}

var bombOnce = sync.OnceValue(func() [3][]byte {
	var out bytes.Buffer
	out.WriteString("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff")
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	part := func(p []byte) []byte {
		_, _ = w.Write(p)
		_ = w.Flush()
		b := bytes.Clone(out.Bytes())
		out.Reset()
		return b
	}
	zeros := make([]byte, 1<<20)
	return [3][]byte{part([]byte(bombOpening)), part(zeros), part(zeros)}
})

// streamError sends an error event, then [DONE] or not, and ends the stream properly.
func (x *exchange) streamError(a apiError, done bool) {
	x.emit(x.p.appendStreamError(nil, a))
	if done {
		x.emit(doneMark)
	}
	x.finish()
}

func statusText(code int) string {
	switch code {
	case 400:
		return "Bad request: 'temperature' must be non-negative"
	case 401:
		return "Unauthorized"
	case 403:
		return "Forbidden"
	case 404:
		return "The model `sim` does not exist."
	case 413:
		return "Request body is too large: the limit is 1048576 bytes"
	case 422:
		return "Input should be a valid integer: max_tokens"
	case 429:
		return "Rate limit reached for requests"
	case 503:
		return "The request queue is full."
	}
	if code >= 500 {
		return "EngineCore on " + LeakedHost + " failed: CUDA error: an illegal memory access was encountered (" + LeakedPath + "/model-00001.safetensors)"
	}
	return http.StatusText(code)
}

func htmlPage(code int) []byte {
	title := strconv.Itoa(code) + " " + http.StatusText(code)
	return []byte("<html>\r\n<head><title>" + title + "</title></head>\r\n<body>\r\n<center><h1>" + title +
		"</h1></center>\r\n<hr><center>nginx/1.24.0 at " + LeakedHost + "</center>\r\n</body>\r\n</html>\r\n")
}

var garbageHeads = map[string]string{
	"binary":    "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1 not HTTP at all\r\n\r\n",
	"nocolon":   "HTTP/1.1 200 OK\r\nthis line has no colon\r\nContent-Length: 2\r\n\r\n{}",
	"nostatus":  "HTTP/1.1 OK\r\nContent-Length: 2\r\n\r\n{}",
	"version":   "HTTP/7.3 200 OK\r\nContent-Length: 2\r\n\r\n{}",
	"space":     "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n{}",
	"badlength": "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}",
	"negative":  "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
	"nul":       "HTTP/1.1 200 OK\r\nX-Nul: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
	"encoding":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip, identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
}

var badChunks = map[string]string{
	"size":     "zz\r\n{}\r\n",
	"negative": "-5\r\nhello\r\n",
	"huge":     "ffffffffffffffff1\r\nhello\r\n",
	"nocrlf":   "5\r\nhelloworld\r\n",
	"empty":    "\r\n",
}

func keys(m map[string]string) []string {
	var ks []string
	for k := range m {
		ks = append(ks, k)
	}
	return ks
}

func always(n int) func(*exchange) int { return func(*exchange) int { return n } }

// at adds an incident for any answer.
func (t *twist) at(n int, do func(*exchange) bool) { t.acts = append(t.acts, incident{at: n, do: do}) }

// inStream adds an incident for streams only.
func (t *twist) inStream(n int, do func(*exchange) bool) {
	t.acts = append(t.acts, incident{at: n, streamOnly: true, do: do})
}

// faultTable is every fault, in the order of --faults: connections, heads, framing, bodies, streams, forms, tools.
var faultTable = []fault{
	{
		name: "refuse", text: "closes the connection with a RST as soon as it is accepted (asked for by a request: after it is read)",
		accept: func(c *conn) { c.reset() },
		twist:  func(t *twist, _ *args) { t.take = func(x *exchange) { x.broken = true; x.c.reset() } },
	},
	{
		name: "noread", text: "accepts and never reads, with a small receive window (asked for by a request: as blackhole)",
		accept: func(c *conn) {
			if tc, ok := c.nc.(*net.TCPConn); ok {
				_ = tc.SetReadBuffer(4096)
			}
			c.park()
		},
		twist: func(t *twist, _ *args) { t.hold = true },
	},
	{
		name: "reset-before", text: "RST after the request, before a byte",
		twist: func(t *twist, _ *args) { t.take = func(x *exchange) { x.broken = true; x.c.reset() } },
	},
	{
		name: "eof-before", text: "FIN after the request, before a byte",
		twist: func(t *twist, _ *args) { t.take = func(x *exchange) { x.broken = true; x.c.close() } },
	},
	{
		name: "blackhole", text: "reads the request, takes a slot, never answers",
		twist: func(t *twist, _ *args) { t.hold = true },
	},
	{
		name: "early-413", usage: "[;linger=1]", text: "answers 413 before the body is read and closes (RST if unread bytes came); linger: FIN, then discards for 2 s",
		twist: func(t *twist, a *args) {
			linger := a.flag("linger")
			t.head = func(x *exchange) bool {
				x.closing = true
				x.e.counters.rejected.Add(1)
				x.fail(apiError{status: 413, message: statusText(413)})
				if tc, ok := x.c.nc.(*net.TCPConn); ok && linger {
					_ = tc.CloseWrite()
					_ = tc.SetReadDeadline(time.Now().Add(2 * time.Second))
					_, _ = io.Copy(io.Discard, tc)
				}
				x.c.close()
				return true
			}
		},
	},
	{
		name: "slow-header", usage: "[;gap=100ms]", text: "the head comes a byte at a time",
		twist: func(t *twist, a *args) { t.dripHead = a.duration("gap", 100*time.Millisecond) },
	},
	{
		name: "slow-body", usage: "[;gap=100ms]", text: "the body comes a byte at a time",
		twist: func(t *twist, a *args) { t.dripBody = a.duration("gap", 100*time.Millisecond) },
	},
	{
		name: "garbage-head", usage: "[;kind=binary|nocolon|nostatus|version|space|badlength|negative|nul|encoding]", text: "a head that is not HTTP, then FIN",
		twist: func(t *twist, a *args) {
			kind := a.oneOf("kind", "binary", keys(garbageHeads)...)
			t.take = func(x *exchange) { x.raw(garbageHeads[kind]) }
		},
	},
	{
		name: "head-cut", usage: "[;reset=1]", text: "half a head, then FIN or RST",
		twist: func(t *twist, a *args) {
			reset := a.flag("reset")
			t.take = func(x *exchange) {
				x.broken = true
				_, _ = io.WriteString(x.c.nc, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Len")
				if reset {
					x.pause(5 * time.Millisecond)
					x.c.reset()
				}
				x.c.close()
			}
		},
	},
	{
		name: "status-101", text: "101 Switching Protocols, then silence",
		twist: func(t *twist, _ *args) {
			t.take = func(x *exchange) {
				x.broken = true
				_, _ = io.WriteString(x.c.nc, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
				x.hang()
			}
		},
	},
	{
		name: "status-999", text: "a good answer under status 999",
		twist: func(t *twist, _ *args) { t.status = 999 },
	},
	{
		name: "http09", text: "a body without any head, then FIN",
		twist: func(t *twist, _ *args) {
			t.take = func(x *exchange) { x.raw(`{"id":"chatcmpl-09","object":"chat.completion","choices":[]}` + "\n") }
		},
	},
	{
		name: "interim", usage: "[=3][;code=103]", text: "so many 1xx heads before the answer",
		twist: func(t *twist, a *args) { t.interim, t.interimCode = a.number(3), a.num("code", 103) },
	},
	{
		name: "redirect", usage: "[=307][;to=URL]", text: "a redirect, by default to /sim/redirected of this engine, which counts visits in stats as followed",
		twist: func(t *twist, a *args) {
			code, to := a.number(307), a.str("to", "")
			t.take = func(x *exchange) {
				if to == "" {
					to = x.e.URL() + "/sim/redirected"
				}
				x.t.lines = append(x.t.lines, "Location: "+to+"\r\n"...)
				x.reply(code, "text/plain", []byte("moved\n"))
			}
		},
	},
	{
		name: "status", usage: "=NNN[;retry-after=SECONDS|DATE][;html=1][;empty=1][;message=TEXT][;type=TYPE]", text: "an error status with the profile's own body; html: a page that names a host",
		twist: func(t *twist, a *args) {
			code := a.number(500)
			if code < 200 || code > 999 {
				a.fail("status is 200 to 999")
			}
			html, empty, retry := a.flag("html"), a.flag("empty"), a.str("retry-after", "")
			message, kind := a.str("message", ""), a.str("type", "")
			t.take = func(x *exchange) {
				if message == "" {
					message = statusText(code)
				}
				if retry != "" {
					x.t.lines = append(x.t.lines, "Retry-After: "+retry+"\r\n"...)
				}
				switch {
				case empty:
					x.reply(code, "", nil)
				case html:
					x.reply(code, "text/html", htmlPage(code))
				default:
					x.fail(apiError{status: code, message: message, kind: kind})
				}
			}
		},
	},
	{
		name: "no-content", text: "204 without a body",
		twist: func(t *twist, _ *args) {
			t.take = func(x *exchange) {
				x.status, x.headed, x.closing = 204, true, !x.req.keep
				x.out = append(x.out, "HTTP/1.1 204 No Content\r\n\r\n"...)
				x.conclude()
			}
		},
	},
	{
		name: "huge-header", usage: "[=307200][;lines=0]", text: "so many bytes of header lines, in lines of 1 KB or (lines=1) in one",
		twist: func(t *twist, a *args) {
			n, one := a.number(300<<10), a.num("lines", 0) == 1
			t.filler = func(dst []byte) []byte {
				for i, left := 0, n; left > 0; i++ {
					k := min(left, 1000)
					if one {
						k = left
					}
					dst = fmt.Appendf(dst, "X-Filler-%d: ", i)
					dst = append(dst, bytes.Repeat([]byte("f"), k)...)
					dst = append(dst, "\r\n"...)
					left -= k
				}
				return dst
			}
		},
	},
	{
		name: "endless-header", text: "header lines that never end",
		twist: func(t *twist, _ *args) {
			t.take = func(x *exchange) {
				x.out = append(x.out, "HTTP/1.1 200 OK\r\n"...)
				x.endless([]byte("X-Filler: "+strings.Repeat("f", 1000)+"\r\n"), false)
			}
		},
	},
	{
		name: "leak-headers", text: "Set-Cookie, CORS, hop-by-hop and internal headers on a good answer",
		twist: func(t *twist, _ *args) {
			t.lines = append(t.lines, "Set-Cookie: sid="+LeakedSecret+"; Path=/\r\nX-Internal-Secret: "+LeakedSecret+
				"\r\nX-Served-By: "+LeakedHost+"\r\nX-Powered-By: Python/3.12\r\nVia: 1.1 "+LeakedHost+
				"\r\nAccess-Control-Allow-Origin: *\r\nAccess-Control-Allow-Credentials: true\r\nAlt-Svc: h3=\":443\""+
				"\r\nStrict-Transport-Security: max-age=1\r\nProxy-Authenticate: Basic\r\nTrailer: X-Late\r\n"...)
		},
	},
	{
		name: "two-content-length", usage: "[;same=1]", text: "two Content-Length lines that differ, or agree",
		twist: func(t *twist, a *args) {
			t.framing = twoLengths
			if a.flag("same") {
				t.framing = sameLengths
			}
		},
	},
	{
		name: "te-and-cl", text: "Transfer-Encoding: chunked and a Content-Length",
		twist: func(t *twist, _ *args) { t.framing = teAndLength },
	},
	{
		name: "close-delimited", text: "no length and no chunks: the body ends with the connection (legal)",
		twist: func(t *twist, _ *args) { t.framing = byClose },
	},
	{
		name: "chunked", text: "a plain answer in chunks (legal)",
		twist: func(t *twist, _ *args) { t.framing = byChunks },
	},
	{
		name: "surplus", usage: "[;kind=reply|bytes]", text: "bytes after the answer: a forged second reply, or noise",
		twist: func(t *twist, a *args) {
			body := `{"id":"chatcmpl-forged","object":"chat.completion","created":1,"model":"sim","choices":[{"index":0,"message":{"role":"assistant","content":"` +
				ForgedText + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
			t.surplus = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			if a.oneOf("kind", "reply", "reply", "bytes") == "bytes" {
				t.surplus = []byte("surplus bytes after the end of the answer")
			}
		},
	},
	{
		name: "short-body", usage: "[=100]", text: "Content-Length promises so many bytes more than come, then FIN",
		twist: func(t *twist, a *args) { t.framing, t.long = longLength, a.number(100) },
	},
	{
		name: "chunk-cut", usage: "[=2]", text: "FIN inside a chunk, after so many events or in the middle of a plain answer",
		twist: func(t *twist, a *args) {
			t.framing = byChunks
			t.at(a.number(2), func(x *exchange) bool {
				x.out = append(x.out, "c8\r\ndata: {\"id\":\"chatcmpl-cut\",\"obj"...)
				return x.cut()
			})
		},
	},
	{
		name: "bad-chunk", usage: "[=2][;kind=size|negative|huge|nocrlf|empty]", text: "a chunk that is none, after so many events, then FIN",
		twist: func(t *twist, a *args) {
			t.framing = byChunks
			kind := a.oneOf("kind", "size", keys(badChunks)...)
			t.at(a.number(2), func(x *exchange) bool {
				x.out = append(x.out, badChunks[kind]...)
				return x.cut()
			})
		},
	},
	{
		name: "keepalive-close", usage: "[;when=now|next|next-reset][;after=DURATION]", text: "closes the kept connection right after the answer (or so much later), or just when the next request comes",
		twist: func(t *twist, a *args) {
			t.quit, t.quitDelay = a.oneOf("when", "now", "now", "next", "next-reset"), a.duration("after", 0)
		},
	},
	{
		name: "gzip", usage: "[;bomb=MB]", text: "Content-Encoding: gzip that nobody asked for; bomb: so many megabytes of zeros in it",
		twist: func(t *twist, a *args) {
			t.gzip = true
			if mb := a.num("bomb", 0); mb > 0 {
				t.take = func(x *exchange) { x.bomb(mb) }
			}
		},
	},
	{
		name: "empty-body", text: "200 with nothing in it",
		twist: func(t *twist, _ *args) {
			t.take = func(x *exchange) { x.reply(200, x.p.jsonType, nil) }
		},
	},
	{
		name: "html-200", text: "200 with an HTML page that names a host",
		twist: func(t *twist, _ *args) { t.take = func(x *exchange) { x.reply(200, "text/html", htmlPage(200)) } },
	},
	{
		name: "invalid-json", usage: "[=1]", text: "a plain answer cut in the middle of its JSON; in a stream one broken event after so many",
		twist: func(t *twist, a *args) {
			t.plain = func(_ *exchange, ctype string, b []byte) (string, []byte) { return ctype, b[:len(b)/2] }
			t.inStream(a.number(1), func(x *exchange) bool {
				x.emit([]byte(`{"id":"chatcmpl-broken","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"bro`))
				return true
			})
		},
	},
	{
		name: "no-choices", usage: "[;empty=1]", text: "JSON without choices, or with none in it; a stream of such events",
		twist: func(t *twist, a *args) {
			rest := `}`
			if a.flag("empty") {
				rest = `,"choices":[]}`
			}
			t.plain = func(_ *exchange, ctype string, _ []byte) (string, []byte) {
				return ctype, []byte(`{"id":"chatcmpl-none","object":"chat.completion","created":1,"model":"sim"` + rest)
			}
			t.inStream(0, func(x *exchange) bool {
				for range 3 {
					x.emit([]byte(`{"id":"chatcmpl-none","object":"chat.completion.chunk","created":1,"model":"sim"` + rest))
				}
				x.emit(doneMark)
				x.finish()
				return false
			})
		},
	},
	{
		name: "sse-for-json", text: "a stream although none was asked for",
		twist: func(t *twist, _ *args) { t.flip = "sse" },
	},
	{
		name: "json-for-sse", usage: "[;label=1]", text: "a plain answer although a stream was asked for; label: a stream whose Content-Type says JSON",
		twist: func(t *twist, a *args) {
			t.flip = "json"
			if a.flag("label") {
				t.flip, t.sseCtype = "", "application/json"
			}
		},
	},
	{
		name: "endless-json", text: "JSON that never ends",
		twist: func(t *twist, _ *args) {
			t.take = func(x *exchange) {
				x.head(200, x.p.jsonType, -1)
				x.put([]byte(`{"id":"chatcmpl-endless","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"`))
				x.endless(bytes.Repeat([]byte("endless "), 4096), x.framing == byChunks)
			}
		},
	},
	{
		name: "cut-after", usage: "[=2]", text: "FIN without the last chunk after so many events (a plain answer: after half of it)",
		twist: func(t *twist, a *args) { t.at(a.number(2), (*exchange).cut) },
	},
	{
		name: "reset-after", usage: "[=2]", text: "RST after so many events (a plain answer: after half of it)",
		twist: func(t *twist, a *args) {
			t.at(a.number(2), func(x *exchange) bool {
				x.flush()
				x.pause(5 * time.Millisecond) // or the RST overtakes what was written
				x.c.reset()
				return false
			})
		},
	},
	{
		name: "stall-after", usage: "[=2][;ping=DURATION]", text: "silence for ever after so many events (0: after the head); ping: comments go on",
		twist: func(t *twist, a *args) {
			ping := a.duration("ping", 0)
			t.at(a.number(2), func(x *exchange) bool {
				for x.flush() && ping > 0 && x.pause(ping) {
					x.comment()
				}
				if !x.lost {
					x.hang()
				}
				return false
			})
		},
	},
	{
		name: "pause-after", usage: "[=2][;for=1s]", text: "silence for a while after so many events, then on (legal)",
		twist: func(t *twist, a *args) {
			d := a.duration("for", time.Second)
			t.at(a.number(2), func(x *exchange) bool { return x.flush() && x.pause(d) })
		},
	},
	{
		name: "error-in-stream", usage: "[=2][;code=500][;done=0|1][;message=TEXT]", text: "an error event after so many, then [DONE] or not (default: as the profile does)",
		twist: func(t *twist, a *args) { errorEvent(t, a, a.number(2), 500) },
	},
	{
		name: "error-first", usage: "[;code=503][;done=0|1][;message=TEXT]", text: "200 and an error as the first event",
		twist: func(t *twist, a *args) { errorEvent(t, a, 0, 503) },
	},
	{
		name: "no-done", text: "a finish_reason, but no [DONE]",
		twist: func(t *twist, _ *args) { t.noDone = true },
	},
	{
		name: "no-finish", usage: "[;done=1][;ghost=1]", text: "a clean end with no finish_reason and no [DONE]; done: with [DONE]; ghost: after a chunk with no model and no text",
		twist: func(t *twist, a *args) {
			t.noFinish, t.noDone, t.ghost = true, !a.flag("done"), a.flag("ghost")
		},
	},
	{
		name: "finish", usage: "=REASON", text: "this finish_reason (content_filter, abort, …)",
		twist: func(t *twist, a *args) {
			if t.finish = a.word(); t.finish == "" {
				a.fail("want a reason")
			}
		},
	},
	{
		name: "huge-event", usage: "[=2097152][;at=2]", text: "one event with so many bytes of text",
		twist: func(t *twist, a *args) {
			n := a.number(2 << 20)
			t.inStream(a.num("at", 2), func(x *exchange) bool {
				if x.content != nil {
					x.emit(x.content(strings.Repeat("w", n)))
				}
				return x.flush()
			})
		},
	},
	{
		name: "endless-line", usage: "[=1]", text: "an event that never ends, after so many",
		twist: func(t *twist, a *args) {
			t.inStream(a.number(1), func(x *exchange) bool {
				x.put([]byte(`data: {"id":"chatcmpl-endless","choices":[{"index":0,"delta":{"content":"`))
				x.endless(bytes.Repeat([]byte("endless "), 4096), x.framing == byChunks)
				return false
			})
		},
	},
	{
		name: "crlf", text: "events with CRLF (legal)",
		twist: func(t *twist, _ *args) { t.form.eol = "\r\n" },
	},
	{
		name: "cr", text: "events with lone CR (legal)",
		twist: func(t *twist, _ *args) { t.form.eol = "\r" },
	},
	{
		name: "nospace", text: "no blank after data: (legal)",
		twist: func(t *twist, _ *args) { t.form.nospace = true },
	},
	{
		name: "comments", text: "comments between events (legal)",
		twist: func(t *twist, _ *args) { t.form.comments = true },
	},
	{
		name: "multiline-data", text: "events in several data lines (legal)",
		twist: func(t *twist, _ *args) { t.form.multiline = true },
	},
	{
		name: "fields", text: "event, id and retry lines (legal)",
		twist: func(t *twist, _ *args) { t.form.fields = true },
	},
	{
		name: "bom", text: "a byte order mark before the first event (legal)",
		twist: func(t *twist, _ *args) { t.form.bom = true },
	},
	{
		name: "escaped", text: "\\u escapes for all that is not ASCII, in surrogate pairs (legal)",
		twist: func(t *twist, _ *args) { t.form.escaped = true },
	},
	{
		name: "open-end", text: "no blank line after [DONE]",
		twist: func(t *twist, _ *args) { t.form.openEnd = true },
	},
	{
		name: "byte-by-byte", usage: "[;gap=0s]", text: "every byte of the body in a chunk and a write of its own (legal)",
		twist: func(t *twist, a *args) { t.piece, t.pieceGap = always(1), a.duration("gap", 0) },
	},
	{
		name: "split", usage: "[;gap=100us]", text: "the body in odd pieces of 1 to 23 bytes, across events and characters (legal)",
		twist: func(t *twist, a *args) {
			t.piece, t.pieceGap = func(x *exchange) int { return 1 + int(x.random()%23) }, a.duration("gap", 100*time.Microsecond)
		},
	},
	{
		name: "usage-every-chunk", text: "usage on every chunk",
		twist: func(t *twist, _ *args) { t.usage = usageEvery },
	},
	{
		name: "usage-on-finish", text: "usage on the finish chunk, none of its own",
		twist: func(t *twist, _ *args) { t.usage = usageOnFinish },
	},
	{
		name: "no-usage", text: "no usage, asked for or not, in plain answers neither",
		twist: func(t *twist, _ *args) { t.usage = usageNever },
	},
	{
		name: "usage-unasked", text: "a usage chunk although nobody asked",
		twist: func(t *twist, _ *args) { t.usage = usageUnasked },
	},
	{
		name: "tool-interleaved", text: "two calls at least, their fragments interleaved",
		twist: func(t *twist, _ *args) { t.minCalls, t.interwove = 2, true },
	},
	{
		name: "tool-whole", text: "each call in one delta, as Ollama sends it",
		twist: func(t *twist, _ *args) { t.whole = true },
	},
	{
		name: "tool-bad-args", text: "arguments that are not JSON",
		twist: func(t *twist, _ *args) { t.badArgs = true },
	},
}

// errorEvent arms an error in a stream.
func errorEvent(t *twist, a *args, at, code int) {
	code = a.num("code", code)
	message := a.str("message", "")
	said := a.oneOf("done", "", "", "0", "1")
	make := func(*exchange) apiError {
		text := message
		if text == "" {
			text = statusText(code)
		}
		return apiError{status: code, message: text}
	}
	t.plain = func(x *exchange, ctype string, _ []byte) (string, []byte) {
		return ctype, x.p.appendStreamError(nil, make(x))
	}
	t.inStream(at, func(x *exchange) bool {
		done := x.p.errorDone
		if said != "" {
			done = said == "1"
		}
		x.streamError(make(x), done)
		return false
	})
}
