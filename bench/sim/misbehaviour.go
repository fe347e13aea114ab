package sim

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"penstock/bench/sim/profile"
	"penstock/bench/sim/wire"
)

// What faulty answers carry that must never reach a client. Tests look for them.
const (
	LeakedHost   = "gpu-node-17.internal.example" // in HTML pages and 5xx texts
	LeakedPath   = "/srv/models/secret-checkpoint"
	LeakedSecret = "s3cr3t-from-the-engine" // in headers
	ForgedText   = "this reply was forged"  // in the second reply of surplus and second-reply
)

// misbehaviour is how one exchange misbehaves. Each fault sets a few members, so that several can
// be joined.
type misbehaviour struct {
	delay time.Duration

	head func(*exchange) bool // before the body is read, in the reader's goroutine; true: the connection is done with
	take func(*exchange)      // in place of the whole answer
	hold bool                 // takes a slot and never answers
	// wedge is how long the whole engine stands still from this request on.
	wedge time.Duration

	// Time without a byte.
	prefill time.Duration // reading the prompt takes so long; 0: as usual
	chunks  int           // of the prompt, each of which moves the counters
	free    func()        // gives the slot back: set when there is one

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
	second               time.Duration // within which a second reply follows the answer; 0: none
	quit                 string        // keepalive-close: now, next, next-reset
	quitDelay            time.Duration
	piece                func(*exchange) int // size of the next piece of the body
	pieceGap             time.Duration

	// A plain answer's body.
	plain  func(x *exchange, ctype string, body []byte) (string, []byte)
	pad    int  // bytes of it at least, by a member of filler: errors too
	padEnd bool // that member comes last

	// A stream.
	form      wire.EventFormat
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

// incident is something that happens before the event after the at-th, or in the middle of a plain
// body.
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
	x.t = misbehaviour{}
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
	if t.wedge > 0 {
		x.e.strain.stall(t.wedge)
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

// bombParts are a gzip head with the opening of some JSON, a first megabyte of zeros, and one that
// follows zeros.
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
func (x *exchange) streamError(a profile.APIError, done bool) {
	body, native := x.appendNativeError(nil, a)
	if native {
		x.name, done = "error", false
	} else {
		x.name, body = x.p.ErrorEvent, x.p.AppendStreamError(nil, a)
	}
	x.emit(body)
	x.name = ""
	if done {
		x.emit(wire.Done)
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
func (t *misbehaviour) at(n int, do func(*exchange) bool) {
	t.acts = append(t.acts, incident{at: n, do: do})
}

// inStream adds an incident for streams only.
func (t *misbehaviour) inStream(n int, do func(*exchange) bool) {
	t.acts = append(t.acts, incident{at: n, streamOnly: true, do: do})
}

// errorEvent arms an error in a stream.
func errorEvent(t *misbehaviour, a *args, at, code int) {
	code = a.num("code", code)
	message := a.str("message", "")
	said := a.oneOf("done", "", "", "0", "1")
	make := func(*exchange) profile.APIError {
		text := message
		if text == "" {
			text = statusText(code)
		}
		return profile.APIError{Status: code, Message: text}
	}
	t.plain = func(x *exchange, ctype string, _ []byte) (string, []byte) {
		return ctype, x.p.AppendStreamError(nil, make(x))
	}
	t.inStream(at, func(x *exchange) bool {
		done := x.p.ErrorDone
		if said != "" {
			done = said == "1"
		}
		x.streamError(make(x), done)
		return false
	})
}

// forgedReply is a whole answer that nobody asked for.
func forgedReply() []byte {
	const body = `{"id":"chatcmpl-forged","object":"chat.completion","created":1,"model":"sim","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		ForgedText + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body),
		body)
}
