package sim

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/generate"
	"penstock/bench/sim/profile"
)

// exchange is a request and its response. Only the answering goroutine uses it. When the client
// leaves, the connection's reader closes conn.clientGone.
type exchange struct {
	c    *conn
	e    *Engine
	p    *profile.Profile
	req  request
	body *[]byte // pooled buffer of req.body

	t      fault.Effects     // faults to inject; the zero value has none
	knobs  generate.Controls // lengths and speeds from headers or the body
	client clientWatch
	out    bodyWriter
	stream eventWriter

	encoding    string // Content-Encoding
	status      int
	isInference bool   // the request is for inference and is counted
	freeSlot    func() // frees the slot; nil while the request has no slot
	child       bool   // the page belongs to one of the router's children
	finished    bool   // the response is complete
	closing     bool   // close the connection after the response
}

func (x *exchange) begin() {
	*x = exchange{
		c: x.c, e: x.e, p: x.p, req: request{header: x.req.header[:0]}, knobs: generate.NewControls(x.setFaults),
		client: clientWatch{clientGone: x.c.clientGone, stop: x.e.server.stop, timer: x.client.timer},
		out:    bodyWriter{nc: x.c.nc, client: &x.client, t: &x.t, out: x.out.out[:0], seed: uint64(x.c.served)},
		stream: eventWriter{out: &x.out, pendingEvents: x.stream.pendingEvents[:0], chunk: x.stream.chunk[:0]},
	}
}

// setEarlyFaults determines the faults that are known before the body is read. These faults come
// from the schedule and from the request header.
func (x *exchange) setEarlyFaults() {
	if f := x.e.faults.ForRequest(x.req.path, inferenceKindByPath[x.req.path] != "" || x.req.path == realtimePath); f != nil {
		x.setFaults(f)
	}
	for _, h := range x.req.header {
		if len(h.Name) > 6 && equalFold(h.Name[:6], "X-Sim-") {
			x.knobs.SetFromHeader(h.Name, h.Value)
		}
	}
}

// releaseBody returns the body's buffer to the pool. After this call, req.body is nil.
func (x *exchange) releaseBody() {
	x.req.body = nil
	if x.body == nil {
		return
	}
	if cap(*x.body) <= 1<<20 {
		*x.body = (*x.body)[:0]
		bodyPool.Put(x.body)
	}
	x.body = nil
}

// end finishes the exchange. It is also called if the response was aborted.
func (x *exchange) end() {
	x.releaseBody()
	if !x.out.headWritten && !x.out.isEnded() {
		panic("BUG: simulated engine gave no answer to " + x.req.path)
	}
	if !x.finished {
		x.closing = true
	}
	if x.t.Quit != "" && x.finished {
		switch x.t.Quit {
		case "next", "next-reset":
			x.c.nextFault = x.t.Quit
		default:
			x.closing = x.client.pause(x.t.QuitDelay) || x.closing
		}
	}
	if cap(x.out.out) > 64<<10 {
		x.out.out, x.stream.pendingEvents = nil, nil
	}
}

// appendHeader appends a header line, in the letter case that the engine's HTTP library uses.
func (x *exchange) appendHeader(name, value string) {
	from := len(x.out.out)
	x.out.out = append(x.out.out, name...)
	if x.p.Lower {
		for i, b := range x.out.out[from:] {
			if 'A' <= b && b <= 'Z' {
				x.out.out[from+i] = b + 'a' - 'A'
			}
		}
	}
	x.out.out = append(append(append(x.out.out, ": "...), value...), "\r\n"...)
}

// buildHead builds the head of the response. A negative length means that the length of the body is
// unknown.
func (x *exchange) buildHead(status int, ctype string, length int) {
	t, w := &x.t, &x.out
	for range t.Interim {
		w.out = append(w.out, "HTTP/1.1 "+strconv.Itoa(t.InterimCode)+" Interim\r\nlink: </style.css>; rel=preload\r\n\r\n"...)
	}
	reason := http.StatusText(status)
	if t.Status != 0 {
		status, reason = t.Status, "Odd"
	}
	x.status, w.headWritten = status, true
	w.out = strconv.AppendInt(append(w.out, "HTTP/1.1 "...), int64(status), 10)
	w.out = append(append(append(w.out, ' '), reason...), "\r\n"...)
	if x.p.Dated {
		x.appendHeader("Date", httpDate())
	}
	if x.p.Server != "" {
		x.appendHeader("Server", x.p.Server)
	}
	w.out = append(w.out, x.p.Headers...)
	if ctype != "" {
		x.appendHeader("Content-Type", ctype)
	}
	if x.encoding != "" {
		x.appendHeader("Content-Encoding", x.encoding)
	}
	w.out = append(w.out, t.Lines...)
	if x.req.method == "HEAD" && x.p.Family == "llamacpp" {
		x.appendHeader("Accept-Ranges", "bytes")
	}
	w.out = append(w.out, t.FillerLines()...)

	writeLengthHeader(x, length)
	if status >= 400 && x.p.ErrorClose {
		x.closing = true
	}
	if !x.req.keepAlive || x.p.PerConn > 0 && x.c.served+1 >= x.p.PerConn {
		x.closing = true
	}
	switch {
	case x.closing && t.Framing != fault.FramingLongLength:
		x.appendHeader("Connection", "close")
	case x.p.PerConn > 0 && !x.closing:
		x.appendHeader("Keep-Alive", "timeout="+strconv.Itoa(max(1, int(x.p.Idle/time.Second)))+", max="+strconv.Itoa(x.p.PerConn))
	}
	w.out = append(w.out, "\r\n"...)
	if t.DripHead > 0 {
		w.writeByteByByte(t.DripHead)
	}
}

// writeLengthHeader writes the header line that marks the end of the body. If a fault requires
// other header lines, it writes those instead.
func writeLengthHeader(x *exchange, length int) {
	w := &x.out
	w.noBody = x.req.method == "HEAD"
	w.framing = x.t.Framing
	if w.framing == fault.FramingDefault {
		switch {
		case length >= 0:
			w.framing = fault.FramingLength
		case x.req.minor == 0:
			w.framing = fault.FramingClose
		default:
			w.framing = fault.FramingChunks
		}
	}
	size := length
	if size < 0 {
		size = 1 << 20
	}
	promise := func(n int) { x.appendHeader("Content-Length", strconv.Itoa(n)) }
	if w.isChunked() {
		x.appendHeader("Transfer-Encoding", "chunked")
	}
	switch w.framing {
	case fault.FramingLength:
		promise(size)
	case fault.FramingClose:
		x.closing = true
	case fault.FramingTwoLengths:
		promise(size)
		promise(size + 7)
	case fault.FramingSameLengths:
		promise(size)
		promise(size)
	case fault.FramingTEAndLength:
		promise(5)
	case fault.FramingLongLength:
		promise(size + x.t.Long)
	}
	// If the length is wrong or missing, the connection must be closed.
	if length < 0 && !w.isChunked() || w.framing == fault.FramingLongLength {
		x.closing = true
	}
}

// finishBody ends the body and flushes it.
func (x *exchange) finishBody() {
	if !x.out.isEnded() {
		x.out.appendEnd()
		x.flushEnd()
	}
}

// flushEnd flushes the end of a response. It updates the counters before it sends the last byte,
// because the client may read Stats as soon as that byte has arrived.
func (x *exchange) flushEnd() {
	total := &x.e.counters.completed
	if x.status != http.StatusOK {
		total = &x.e.counters.rejected
	}
	if x.isInference {
		total.Add(1)
	}
	x.finished = x.out.flush()
	if x.isInference && (!x.finished || x.out.writeFailed) {
		total.Add(-1)
		x.finished, x.client.lost = false, true
	}
	if within := uint64(x.t.Second); within > 0 && x.finished && x.client.pause(time.Duration(x.out.nextRandom()%within)) {
		_, _ = x.c.nc.Write(fault.ForgedReply())
	}
}

func (x *exchange) reply(status int, ctype string, body []byte) {
	t := &x.t
	if status == http.StatusOK {
		body = applyBodyFault(x, body)
	}
	if t.Gzip && len(body) > 0 {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, _ = w.Write(body)
		_ = w.Close()
		body = z.Bytes()
		x.encoding = "gzip"
	}
	pad := x.out.paddingSize(body)
	length := len(body) + pad
	// the router relays its child's response, so the length is unknown
	if x.p.Name == "llamacpp-router" && status == http.StatusOK && (x.isInference || x.child) {
		length = -1
		t.Lines += x.p.SSEHeaders
	}
	x.buildHead(status, ctype, length)
	if pad > 0 {
		x.out.writePadded(body, pad)
		x.finishBody()
		return
	}
	for i := range t.Incidents {
		if t.Incidents[i].StreamOnly || status != http.StatusOK {
			continue
		}
		half := len(body) / 2
		x.out.appendBody(body[:half])
		if !x.injectIncident(&t.Incidents[i]) {
			return
		}
		body = body[half:]
	}
	x.out.appendBody(body)
	x.finishBody()
}

func (x *exchange) replyJSON(body []byte) { x.reply(http.StatusOK, x.p.JSONType, body) }

func (x *exchange) sendReply(r profile.Reply) {
	x.t.Lines += r.Lines
	x.reply(r.Status, r.Type, r.Body)
}

func (x *exchange) replyError(a profile.APIError) {
	x.sendReply(x.e.pages.ErrorReply(a))
}

func (x *exchange) beginEventStream() {
	ctype := x.p.SSEType
	if x.t.StreamType != "" {
		ctype = x.t.StreamType
	}
	if x.t.Gzip {
		x.out.gz, x.encoding = gzip.NewWriter(&x.out.gzOut), "gzip"
	}
	x.t.Lines += x.p.SSEHeaders
	x.buildHead(http.StatusOK, ctype, -1)
	x.stream.form = x.t.Form
	x.stream.form.NoSpace = x.t.Form.NoSpace || x.p.NoSpace
	if x.t.Form.BOM {
		x.out.appendBody([]byte("\xef\xbb\xbf"))
	}
}

// sendEvent appends an event to the stream, or injects a fault instead. It returns false if the
// stream has ended.
func (x *exchange) sendEvent(name string, data []byte) bool {
	x.stream.name = name
	ok := x.injectIncidents()
	if ok {
		x.stream.appendEvent(name, data)
	}
	x.stream.name = ""
	return ok && !x.out.isEnded()
}

func unixNow() int64 { return time.Now().Unix() }

var dateCache atomic.Pointer[cachedDate]

type cachedDate struct {
	sec  int64
	text string
}

// httpDate returns the value of the Date header. It formats the date only once per second.
func httpDate() string {
	now := time.Now()
	if d := dateCache.Load(); d != nil && d.sec == now.Unix() {
		return d.text
	}
	d := &cachedDate{now.Unix(), now.UTC().Format(http.TimeFormat)}
	dateCache.Store(d)
	return d.text
}
