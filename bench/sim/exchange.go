package sim

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"penstock/bench/sim/profile"
	"penstock/bench/sim/textgen"
)

// exchange is one request and its answer. Only the goroutine that answers touches it; the
// connection's reader sees the client leave and says so by closing conn.gone.
type exchange struct {
	c    *conn
	e    *Engine
	p    *profile.Profile
	req  request
	body *[]byte // pooled memory behind req.body

	t      misbehaviour // how to misbehave; the zero value behaves
	knobs  controls     // how long and how fast, from headers or body
	armed  bool         // t came by header: the body cannot change it
	timer  *time.Timer
	out    []byte // bytes to write next
	unit   []byte // events that share a chunk
	delta  []byte // scratch for what the next event says
	chunk  []byte // scratch for the next event
	joined bool
	name   string // of the event that is being written; most have none

	dialect dialect
	gz      *gzip.Writer
	gzOut   bytes.Buffer
	rng     uint64

	encoding string                   // Content-Encoding
	content  func(text string) []byte // an event of this stream that says text
	framing  framing
	status   int
	events   int
	work     bool // inference: counted
	child    bool // a page of one of the router's children
	headed   bool // the head has been built
	finished bool // the answer is whole
	broken   bool // a fault ended it
	lost     bool // a write failed or a wait ended because the client left
	deserted bool // nobody read the answer
	closing  bool // close the connection after the answer
	stubborn bool // go on without the client: CancelOnlyStreams
	noBody   bool
}

// framing is how the end of an answer's body is told.
type framing uint8

const (
	byDefault   framing = iota
	byLength            // Content-Length
	byChunks            // Transfer-Encoding: chunked
	byClose             // FIN
	twoLengths          // two that differ
	sameLengths         // two that agree
	teAndLength         // both
	longLength          // Content-Length that promises too much
)

// begin makes x ready for the next request on its connection.
func (x *exchange) begin() {
	*x = exchange{
		c: x.c, e: x.e, p: x.p, timer: x.timer, out: x.out[:0], unit: x.unit[:0],
		delta: x.delta[:0], chunk: x.chunk[:0], req: request{header: x.req.header[:0]}, knobs: noControls,
	}
}

// early finds out what is known before the body is read: faults by schedule or header.
func (x *exchange) early() {
	if p := x.e.schedule.take(x.req.path); p != nil {
		x.arm(p)
	}
	for _, h := range x.req.header {
		if len(h.Name) > 6 && is(h.Name[:6], "X-Sim-") {
			x.knobs.header(x, h)
		}
	}
}

// free gives the body's memory back; req.body is nil from then on.
func (x *exchange) free() {
	x.req.body = nil
	if x.body == nil {
		return
	}
	if cap(*x.body) <= 1<<20 {
		*x.body = (*x.body)[:0]
		bodies.Put(x.body)
	}
	x.body = nil
}

// end ends the exchange whatever happened.
func (x *exchange) end() {
	x.free()
	if !x.headed && !x.broken && !x.lost {
		panic("BUG: simulated engine gave no answer to " + x.req.path)
	}
	if !x.finished {
		x.closing = true
	}
	if x.t.quit != "" && x.finished {
		x.quit()
	}
	if cap(x.out) > 64<<10 {
		x.out, x.unit = nil, nil
	}
}

// quit acts keepalive-close out.
func (x *exchange) quit() {
	switch x.t.quit {
	case "next":
		x.c.next = "close"
	case "next-reset":
		x.c.next = "reset"
	default:
		if x.pause(x.t.quitDelay) {
			x.closing = true
		}
	}
}

// gone is closed when the client has left, or when nobody is waited for any more.
func (x *exchange) gone() <-chan struct{} {
	if x.stubborn {
		return x.e.stop
	}
	return x.c.gone
}

func (x *exchange) hasLeft() bool {
	select {
	case <-x.gone():
		x.lost = true
		return true
	default:
		return false
	}
}

// pause waits; false: the client left meanwhile.
func (x *exchange) pause(d time.Duration) bool {
	if d <= 0 {
		return !x.hasLeft()
	}
	if x.timer == nil {
		x.timer = time.NewTimer(d)
	} else {
		x.timer.Reset(d)
	}
	select {
	case <-x.timer.C:
		return true
	case <-x.gone():
		x.timer.Stop()
		x.lost = true
		return false
	}
}

func (x *exchange) pauseUntil(t time.Time) bool { return x.pause(time.Until(t)) }

// hang waits until the client leaves.
func (x *exchange) hang() {
	<-x.c.gone
	x.lost = true
}

// line appends one header line, in the letters that the engine's HTTP library uses.
func (x *exchange) line(name, value string) {
	if x.p.Lower {
		for i := range len(name) {
			b := name[i]
			if 'A' <= b && b <= 'Z' {
				b += 'a' - 'A'
			}
			x.out = append(x.out, b)
		}
	} else {
		x.out = append(x.out, name...)
	}
	x.out = append(x.out, ": "...)
	x.out = append(x.out, value...)
	x.out = append(x.out, "\r\n"...)
}

// head builds the head of the answer. A length below 0 is one that is not known yet.
func (x *exchange) head(status int, ctype string, length int) {
	t := &x.t
	for range t.interim {
		x.out = append(x.out, "HTTP/1.1 "...)
		x.out = strconv.AppendInt(x.out, int64(t.interimCode), 10)
		x.out = append(x.out, " Interim\r\nlink: </style.css>; rel=preload\r\n\r\n"...)
	}
	reason := http.StatusText(status)
	if t.status != 0 {
		status, reason = t.status, "Odd"
	}
	x.status, x.headed = status, true
	x.out = append(x.out, "HTTP/1.1 "...)
	x.out = strconv.AppendInt(x.out, int64(status), 10)
	x.out = append(x.out, ' ')
	x.out = append(x.out, reason...)
	x.out = append(x.out, "\r\n"...)
	if x.p.Dated {
		x.line("Date", httpDate())
	}
	if x.p.Server != "" {
		x.line("Server", x.p.Server)
	}
	x.out = append(x.out, x.p.Headers...)
	if ctype != "" {
		x.line("Content-Type", ctype)
	}
	if x.encoding != "" {
		x.line("Content-Encoding", x.encoding)
	}
	x.out = append(x.out, t.lines...)
	if x.req.method == "HEAD" && x.p.Family == "llamacpp" {
		x.line("Accept-Ranges", "bytes")
	}
	if t.filler != nil {
		x.out = t.filler(x.out)
	}

	announceLength(x, length)
	if status >= 400 && x.p.ErrorClose {
		x.closing = true
	}
	if !x.req.keep || x.p.PerConn > 0 && x.c.served+1 >= x.p.PerConn {
		x.closing = true
	}
	switch {
	case x.closing && t.framing != longLength:
		x.line("Connection", "close")
	case x.p.PerConn > 0 && !x.closing:
		x.line("Keep-Alive", "timeout="+strconv.Itoa(max(1, int(x.p.Idle/time.Second)))+", max="+strconv.Itoa(x.p.PerConn))
	}
	x.out = append(x.out, "\r\n"...)
	if t.dripHead > 0 {
		x.drip(t.dripHead)
	}
}

// announceLength writes how the end of a body of this length is found, or what a fault says
// instead.
func announceLength(x *exchange, length int) {
	x.noBody = x.req.method == "HEAD"
	x.framing = x.t.framing
	if x.framing == byDefault {
		switch {
		case length >= 0:
			x.framing = byLength
		case x.req.minor == 0:
			x.framing = byClose
		default:
			x.framing = byChunks
		}
	}
	size := length
	if size < 0 {
		size = 1 << 20
	}
	switch x.framing {
	case byLength:
		x.line("Content-Length", strconv.Itoa(size))
	case byChunks:
		x.line("Transfer-Encoding", "chunked")
	case byClose:
		x.closing = true
	case twoLengths:
		x.line("Content-Length", strconv.Itoa(size))
		x.line("Content-Length", strconv.Itoa(size+7))
	case sameLengths:
		x.line("Content-Length", strconv.Itoa(size))
		x.line("Content-Length", strconv.Itoa(size))
	case teAndLength:
		x.line("Transfer-Encoding", "chunked")
		x.line("Content-Length", "5")
	case longLength:
		x.line("Content-Length", strconv.Itoa(size+x.t.long))
	}
	// A length that is only promised can be kept by nothing but closing.
	if length < 0 && x.framing != byChunks && x.framing != teAndLength || x.framing == longLength {
		x.closing = true
	}
}

// put appends bytes of the body, as one chunk where there are chunks.
func (x *exchange) put(p []byte) {
	if x.noBody || len(p) == 0 || x.lost || x.broken {
		return
	}
	if x.gz != nil {
		_, _ = x.gz.Write(p)
		_ = x.gz.Flush()
		p = bytes.Clone(x.gzOut.Bytes())
		x.gzOut.Reset()
	}
	if x.t.piece == nil {
		x.frame(p)
		return
	}
	for len(p) > 0 && !x.lost {
		n := min(len(p), x.t.piece(x))
		x.frame(p[:n])
		x.flush()
		p = p[n:]
		if x.t.pieceGap > 0 {
			x.pause(x.t.pieceGap)
		}
	}
}

// frame appends bytes in the framing of this answer.
func (x *exchange) frame(p []byte) {
	if x.framing != byChunks && x.framing != teAndLength {
		x.out = append(x.out, p...)
		return
	}
	x.out = strconv.AppendUint(x.out, uint64(len(p)), 16)
	x.out = append(x.out, "\r\n"...)
	x.out = append(x.out, p...)
	x.out = append(x.out, "\r\n"...)
}

// flush writes what has been built. False: the client is gone or the answer was broken off.
func (x *exchange) flush() bool {
	if len(x.out) > 0 && !x.lost {
		if x.t.dripBody > 0 && x.headed {
			x.drip(x.t.dripBody)
		} else if _, err := x.c.nc.Write(x.out); err != nil {
			x.deserted = true
			x.lost = !x.stubborn
		}
	}
	x.out = x.out[:0]
	return !x.lost && !x.broken
}

// drip writes what has been built a byte at a time.
func (x *exchange) drip(gap time.Duration) {
	for i := range x.out {
		if i > 0 && !x.pause(gap) {
			break
		}
		if _, err := x.c.nc.Write(x.out[i : i+1]); err != nil {
			x.lost = true
			break
		}
	}
	x.out = x.out[:0]
}

// finish ends the body and flushes.
func (x *exchange) finish() {
	if x.lost || x.broken {
		return
	}
	if x.gz != nil {
		_ = x.gz.Close()
		if p := bytes.Clone(x.gzOut.Bytes()); len(p) > 0 && !x.noBody {
			x.frame(p)
		}
	}
	if (x.framing == byChunks || x.framing == teAndLength) && !x.noBody {
		x.out = append(x.out, "0\r\n\r\n"...)
	}
	x.out = append(x.out, x.t.surplus...)
	x.conclude()
}

// conclude flushes the end of an answer. Totals move before the last byte does: who has read it may
// look at Stats.
func (x *exchange) conclude() {
	total := &x.e.counters.completed
	if x.status != http.StatusOK {
		total = &x.e.counters.rejected
	}
	if x.work {
		total.Add(1)
	}
	x.finished = x.flush()
	if x.work && (!x.finished || x.deserted) {
		total.Add(-1)
		x.finished, x.lost = false, true
	}
	if within := uint64(x.t.second); within > 0 && x.finished && x.pause(time.Duration(x.random()%within)) {
		_, _ = x.c.nc.Write(forgedReply())
	}
}

// reply gives a whole answer.
func (x *exchange) reply(status int, ctype string, body []byte) {
	t := &x.t
	if status == http.StatusOK && t.plain != nil {
		ctype, body = t.plain(x, ctype, body)
	}
	if t.gzip && len(body) > 0 {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, _ = w.Write(body)
		_ = w.Close()
		body = z.Bytes()
		x.encoding = "gzip"
	}
	pad := t.padding(body)
	length := len(body) + pad
	// it passes on what its child says
	if x.p.Name == "llamacpp-router" && status == http.StatusOK && (x.work || x.child) {
		length = -1
		t.lines = append(t.lines, x.p.SSEHeaders...)
	}
	x.head(status, ctype, length)
	if pad > 0 {
		x.putPadded(body, pad)
		return
	}
	for _, a := range t.acts {
		if a.streamOnly || status != http.StatusOK {
			continue
		}
		half := len(body) / 2
		x.put(body[:half])
		if !x.act(a) {
			return
		}
		body = body[half:]
	}
	x.put(body)
	x.finish()
}

// The member that makes an answer large, around its filler.
const padBegin, padEnd = `"padding":"`, `",`

// padding is how many bytes are to be added to a JSON object of a body.
func (t *misbehaviour) padding(body []byte) int {
	if t.pad == 0 || len(body) < 3 || body[0] != '{' || t.gzip {
		return 0
	}
	return max(t.pad-len(body), len(padBegin)+len(padEnd))
}

// putPadded puts a JSON object with n bytes more in it, and never holds them all.
func (x *exchange) putPadded(body []byte, n int) {
	filler := bytes.Repeat([]byte("w"), 64<<10)
	fill := func() {
		for left := n - len(padBegin) - len(padEnd); left > 0 && x.flush() && !x.hasLeft(); left -= len(filler) {
			x.put(filler[:min(left, len(filler))])
		}
	}
	if x.t.padEnd {
		x.put(append(body[:len(body)-1:len(body)-1], ',')) // in place of the comma of padEnd
		x.put([]byte(padBegin))
		fill()
		x.put([]byte(`"}`))
	} else {
		x.put([]byte("{" + padBegin))
		fill()
		x.put(append([]byte(padEnd), body[1:]...))
	}
	x.finish()
}

// act runs an incident in an answer; true: the answer goes on.
func (x *exchange) act(a incident) bool {
	if x.lost || x.broken {
		return false
	}
	goOn := a.do(x)
	if !goOn && !x.finished {
		x.broken = true
	}
	return goOn
}

// sse begins a stream.
func (x *exchange) sse() {
	ctype := x.p.SSEType
	if x.t.sseCtype != "" {
		ctype = x.t.sseCtype
	}
	if x.t.gzip {
		x.gz, x.encoding = gzip.NewWriter(&x.gzOut), "gzip"
	}
	x.t.lines = append(x.t.lines, x.p.SSEHeaders...)
	if x.p.Family == "ollama" && x.dialect != dialectChat {
		x.t.lines = append(x.t.lines, "Cache-Control: no-cache\r\n"...)
	}
	x.head(http.StatusOK, ctype, -1)
	if x.t.form.BOM {
		x.put([]byte("\xef\xbb\xbf"))
	}
}

// event appends one event to the stream, or lets a fault happen in its place. False: there is no
// stream any more.
func (x *exchange) event(data []byte) bool {
	if !x.incidents() {
		return false
	}
	x.emit(data)
	return !x.lost && !x.broken
}

// emit appends one event.
func (x *exchange) emit(data []byte) {
	x.events++
	f := x.t.form
	f.NoSpace = f.NoSpace || x.p.NoSpace
	x.unit = f.Append(x.unit, x.events, x.name, data)
	if !x.joined {
		x.put(x.unit)
		x.unit = x.unit[:0]
	}
}

// incidents runs what is due before the next event.
func (x *exchange) incidents() bool {
	for _, a := range x.t.acts {
		if a.at == x.events {
			x.join(false)
			if !x.act(a) {
				return false
			}
		}
	}
	return !x.lost && !x.broken
}

// join makes the events that follow share one chunk, until join(false).
func (x *exchange) join(on bool) {
	if x.joined && !on {
		x.put(x.unit)
		x.unit = x.unit[:0]
	}
	x.joined = on
}

// comment appends a comment to the stream.
func (x *exchange) comment() {
	x.put([]byte(":\n\n"))
}

// json gives a JSON answer.
func (x *exchange) json(status int, body []byte) { x.reply(status, x.p.JSONType, body) }

// now is the time of the answer in whole seconds.
func (x *exchange) now() int64 { return time.Now().Unix() }

// random is a cheap source for cutting answers to pieces; the same for every run.
func (x *exchange) random() uint64 {
	x.rng++
	return textgen.Mix(x.rng, uint64(x.c.served))
}

var dateCache atomic.Pointer[dateAt]

type dateAt struct {
	sec  int64
	text string
}

// httpDate is the Date header's value, made once a second.
func httpDate() string {
	now := time.Now()
	if d := dateCache.Load(); d != nil && d.sec == now.Unix() {
		return d.text
	}
	d := &dateAt{now.Unix(), now.UTC().Format(http.TimeFormat)}
	dateCache.Store(d)
	return d.text
}
