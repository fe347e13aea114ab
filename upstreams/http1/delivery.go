package http1

import (
	"errors"
	"sync"
	"time"
)

const (
	// If a keep-alive connection ends within resendWithin after a request was sent on it, the
	// request is sent again. It is ample time for a round trip.
	resendWithin = time.Second
	// finalReadTimeout is how long the exchange keeps reading from a connection after a failed
	// write. It is short, because any bytes that the engine sent before it closed the connection
	// have already arrived.
	finalReadTimeout = 50 * time.Millisecond
)

// requestDelivery sends a request. It picks the connection and decides whether to send the request
// again.
//
// A keep-alive connection may turn out to be dead, or bytes that are not the response may arrive on
// it. delivery then sends the request once more, on a new connection. If the new connection also
// fails, the exchange fails.
type requestDelivery struct {
	t            *Transport
	c            *conn
	req          *Request // pooled; nil before Send and once the response head has arrived
	sendCount    int32
	reusedConn   bool // c has served an earlier exchange
	fitsOneWrite bool // the request fits in one write
	isIncomplete bool // the request was not completely written to c
	ack          ackWatch
}

var requestPool = sync.Pool{New: func() any { return new(Request) }}

// setRequest stores a copy of r.
func (d *requestDelivery) setRequest(r *Request) {
	d.req = requestPool.Get().(*Request)
	*d.req = *r
}

// releaseRequest is called once the request will not be sent again.
func (d *requestDelivery) releaseRequest() {
	if d.req != nil {
		*d.req = Request{}
		requestPool.Put(d.req)
		d.req = nil
	}
}

// start picks a connection and writes the request, or leaves the write to the first call to
// fillHead.
func (d *requestDelivery) start(life *lifetime, in *reply) error {
	if d.req.BodyReader != nil || d.req.NoReplay {
		return d.startAnew(life, in)
	}
	if d.req.At.IsZero() {
		d.req.At = time.Now()
	}
	d.fitsOneWrite = d.req.size() <= maxSmallBody
	for c := d.t.idle.takeConn(d.req.At); c != nil; c = d.t.idle.takeConn(d.req.At) {
		later := d.fitsOneWrite && c.canReadWithPooledBuffer()
		if !c.canReadWithPooledBuffer() && c.isStale(d.req.At) { // if c can fetch, the write checks the socket
			d.t.discard(c)
			continue
		}
		if err := d.attach(life, c, true); err != nil {
			return err
		}
		if !later {
			return d.write(life, in)
		}
		o := writeBuffersPool.Get().(*writeBuffers)
		d.t.appendFullRequest(o, d.req)
		c.poll.unsentRequest = o
		d.ack.begin(d.req.At, d.t.ackTimeout)
		return nil
	}
	return d.startAnew(life, in)
}

func (d *requestDelivery) startAnew(life *lifetime, in *reply) error {
	d.req.At = time.Time{} // connecting takes time, so this time will be stale
	c, err := d.t.connect(life, d.req.ConnectTimeout)
	if err != nil {
		return err
	}
	if err := d.attach(life, c, false); err != nil {
		return err
	}
	return d.write(life, in)
}

// attach makes c the connection of this exchange. From then on, Abort closes c.
func (d *requestDelivery) attach(life *lifetime, c *conn, reused bool) error {
	if err := life.setAbortable(c, nil); err != nil {
		c.close()
		return err
	}
	d.c, d.reusedConn, d.isIncomplete, d.ack = c, reused, false, ackWatch{}
	return nil
}

// detach closes the connection, so that another connection can be attached.
func (d *requestDelivery) detach(life *lifetime) {
	_ = life.setAbortable(nil, nil) // the caller handles an abort
	d.t.discard(d.c)
}

func (d *requestDelivery) newRequestWriter(life *lifetime, in *reply) requestWriter {
	d.sendCount++
	life.isWriting.Store(true)
	return requestWriter{t: d.t, c: d.c, req: d.req, reply: in, ack: &d.ack, sentFlag: &life.mayHaveSent, reusedConn: d.reusedConn}
}

func (d *requestDelivery) write(life *lifetime, in *reply) error {
	w := d.newRequestWriter(life, in)
	return d.handleWriteResult(life, in, w.write())
}

// fillHead waits until more of the response head arrives. If start has not written the request,
// fillHead writes it first.
func (d *requestDelivery) fillHead(life *lifetime, in *reply, until time.Time) error {
	waiting := d.c.poll.unsentRequest != nil
	err := in.fillBuffer(d.c, earlierTime(until, d.ack.checkAt))
	if waiting && d.c.poll.unsentRequest == nil {
		d.sendCount++
		life.mayHaveSent = true
	}
	return err
}

// resumeWrite continues after fillHead could not write the request, because the connection was
// unusable or accepted only part of the request.
func (d *requestDelivery) resumeWrite(life *lifetime, in *reply) error {
	o := d.c.poll.unsentRequest
	d.c.poll.unsentRequest = nil
	if d.c.poll.peekResult != queueEmpty {
		o.release()
		return d.restartOnOther(life, in)
	}
	w := d.newRequestWriter(life, in)
	err := w.writeAll(o.singlePiece(o.b[d.c.poll.sentBytes:]), false)
	o.release()
	return d.handleWriteResult(life, in, err)
}

// restartOnOther sends the request on another connection, because the current connection was not
// quiet before the write.
func (d *requestDelivery) restartOnOther(life *lifetime, in *reply) error {
	d.c.hasUnsolicited = d.c.poll.peekResult == queueHasData && d.c.becameIdleRecently(d.req.At)
	d.detach(life)
	return d.start(life, in)
}

// handleWriteResult decides how the exchange continues after a write that returned err.
func (d *requestDelivery) handleWriteResult(life *lifetime, in *reply, err error) error {
	if err == nil {
		life.isWriting.Store(false)
		d.ack.begin(time.Now(), d.t.ackTimeout)
		return nil
	}
	d.isIncomplete = true
	if gone := life.checkOpen(); gone != nil {
		return gone // Abort has closed the socket, which caused err
	}
	own, fromReader := errors.AsType[*bodyError](err)
	switch {
	case errors.Is(err, errNotQuiet):
		d.sendCount--
		return d.restartOnOther(life, in)
	case errors.Is(err, errAnswered):
		life.isWriting.Store(false)
		return nil
	case errors.Is(err, errBytesBeforeRequestArrived):
		return d.resendOnNewConn(life, in, !d.c.isTLS) // with TLS, they may belong to the handshake
	case fromReader:
		d.c.resetOnClose()
		return life.fail(&Failure{Kind: KindAborted, Reason: ReasonBody, Err: own.err})
	case errors.Is(err, errConnStalled):
		d.c.resetOnClose()
		return life.fail(&Failure{Kind: KindTimeout, Clock: TimeoutWrite, Reason: ReasonTimeout, Err: err})
	}
	// The engine closed or reset the connection, possibly after a response that explains why.
	life.isWriting.Store(false)
	if in.head.isComplete || in.anyReceived || in.fillBuffer(d.c, time.Now().Add(finalReadTimeout)) == nil {
		return nil // Await reads the response
	}
	return d.handleLostConn(life, in, err)
}

// handleLostConn handles a connection that ended before the first byte of the response. If a
// keep-alive connection ends soon after the request, the engine most likely closed it just as the
// request arrived. In that case, handleLostConn sends the request once more, on a new connection.
// Otherwise the exchange fails.
func (d *requestDelivery) handleLostConn(life *lifetime, in *reply, cause error) error {
	if err := life.checkOpen(); err != nil {
		return err
	}
	cause = d.c.endReason(cause)
	if errors.Is(cause, errUnacked) {
		// Otherwise the kernel would deliver the request once the host is back, even though another
		// engine has already got the request.
		d.c.resetOnClose()
	}
	vanished := errors.Is(cause, ErrHostVanished) // a new connection to the host would also fail
	if !d.reusedConn || d.sendCount > 1 || vanished || d.mayHaveProcessed(cause) {
		return life.fail(&Failure{Kind: KindUnreachable, Reason: d.c.failureReason(cause), Err: cause})
	}
	d.detach(life)
	in.readErr = nil
	return d.startAnew(life, in)
}

// mayHaveProcessed reports whether the engine may have processed the request before the connection
// ended. This is the case if the engine had received the whole request and had enough time.
func (d *requestDelivery) mayHaveProcessed(cause error) bool {
	return !d.isIncomplete && !errors.Is(cause, errUnacked) && !d.ack.wasWrittenWithin(resendWithin, d.t.ackTimeout)
}

// hasBytesBesideResponse reports whether more bytes arrived together with the response on a
// keep-alive connection. In that case, the response may belong to the previous request, and the
// correct response may follow.
func (d *requestDelivery) hasBytesBesideResponse(in *reply) bool {
	return d.reusedConn && d.sendCount <= 1 && in.hasTrailingBytes(d.req.Method)
}

// resendOnNewConn sends the request again on a new connection, because the bytes that arrived on
// the current connection are not the response. unsolicited is true if these bytes are known to be
// unsolicited.
func (d *requestDelivery) resendOnNewConn(life *lifetime, in *reply, unsolicited bool) error {
	if err := life.checkOpen(); err != nil {
		return err
	}
	d.c.hasUnsolicited = unsolicited
	d.c.resetOnClose()
	d.detach(life)
	in.discardReceived()
	return d.startAnew(life, in)
}
