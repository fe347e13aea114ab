package http1

import (
	"errors"
	"time"
)

const (
	// resendWithin limits retries. A request is sent again only if its keep-alive connection ends
	// within this time after the request. That is ample time for a round trip.
	resendWithin = time.Second
	// lastWords is how long the exchange keeps reading from a connection after a failed write. It
	// is short, because any bytes that the engine sent before it closed the connection have already
	// arrived.
	lastWords = 50 * time.Millisecond
)

// delivery sends a request. It picks the connection, and decides whether to send the request again.
//
// A keep-alive connection may turn out to be dead, or to have received bytes that are not the
// response. delivery then sends the request once more, on a new connection. If the new connection
// also fails, the exchange fails.
type delivery struct {
	t      *Transport
	c      *conn
	req    Request
	sends  int32
	reused bool // c has served an earlier exchange
	small  bool // the request fits in one write
	cut    bool // the request was not completely written to c
	ack    ackWatch
}

// start finds a connection and writes the request, or leaves the write to the first fill.
func (d *delivery) start(life *lifetime, in *reply) error {
	if d.req.BodyReader != nil || d.req.NoReplay {
		return d.startAnew(life, in)
	}
	if d.req.At.IsZero() {
		d.req.At = time.Now()
	}
	d.small = d.req.size() <= smallRequest
	for c := d.t.idle.take(d.req.At); c != nil; c = d.t.idle.take(d.req.At) {
		later := d.small && c.fetches()
		if !c.fetches() && c.stale(d.req.At) { // otherwise the write checks the socket
			d.t.discard(c)
			continue
		}
		if err := d.attach(life, c, true); err != nil {
			return err
		}
		c.poll.kept = c.kept
		if !later {
			return d.write(life, in)
		}
		o := outgoingPool.Get().(*outgoing)
		d.t.copyWhole(o, &d.req)
		c.poll.unsent = o
		d.ack.begin(d.req.At, d.t.ackTimeout)
		return nil
	}
	return d.startAnew(life, in)
}

func (d *delivery) startAnew(life *lifetime, in *reply) error {
	d.req.At = time.Time{} // connecting takes time, so the caller's time is stale
	c, err := d.t.connect(life, d.req.ConnectTimeout)
	if err != nil {
		return err
	}
	if err := d.attach(life, c, false); err != nil {
		return err
	}
	return d.write(life, in)
}

// attach makes c the connection of this exchange. After that, Abort closes c.
func (d *delivery) attach(life *lifetime, c *conn, reused bool) error {
	if err := life.hold(c, nil); err != nil {
		c.close()
		return err
	}
	d.c, d.reused, d.cut, d.ack = c, reused, false, ackWatch{}
	return nil
}

// detach closes the connection, so that another one can be attached.
func (d *delivery) detach(life *lifetime) {
	_ = life.hold(nil, nil) // the caller handles an abort
	d.t.discard(d.c)
}

func (d *delivery) writer(life *lifetime, in *reply) requestWriter {
	d.sends++
	life.writing.Store(true)
	return requestWriter{t: d.t, c: d.c, req: &d.req, reply: in, ack: &d.ack, sent: &life.sent, kept: d.reused}
}

func (d *delivery) write(life *lifetime, in *reply) error {
	w := d.writer(life, in)
	return d.written(life, in, w.write())
}

// fill waits until more of the response head arrives. If start has not written the request, fill
// writes it before it waits.
func (d *delivery) fill(life *lifetime, in *reply, until time.Time) error {
	waiting := d.c.poll.unsent != nil
	err := in.fill(d.c, earlier(until, d.ack.checkAt))
	if waiting && d.c.poll.unsent == nil {
		d.sends++
		life.sent = true
	}
	return err
}

// resume continues after fill has returned errUnsent, because the connection was unusable or
// accepted only part of the request.
func (d *delivery) resume(life *lifetime, in *reply) error {
	o := d.c.poll.unsent
	d.c.poll.unsent = nil
	if d.c.poll.found != peekedQuiet {
		o.release()
		return d.restart(life, in)
	}
	w := d.writer(life, in)
	err := w.push(o.one(o.b[d.c.poll.left:]), false)
	o.release()
	return d.written(life, in, err)
}

// restart sends the request on another connection, because the current one was not quiet before
// the write.
func (d *delivery) restart(life *lifetime, in *reply) error {
	d.c.unsolicited = d.c.poll.found == peekedData && d.c.justKept(d.req.At)
	d.detach(life)
	return d.start(life, in)
}

// written decides how the exchange continues after a write that returned err.
func (d *delivery) written(life *lifetime, in *reply, err error) error {
	if err == nil {
		life.writing.Store(false)
		d.ack.begin(time.Now(), d.t.ackTimeout)
		return nil
	}
	d.cut = true
	if gone := life.check(); gone != nil {
		return gone // err comes from the socket that Abort closed
	}
	own, fromReader := errors.AsType[*bodyError](err)
	switch {
	case errors.Is(err, errNotQuiet):
		d.sends--
		return d.restart(life, in)
	case errors.Is(err, errAnswered):
		life.writing.Store(false)
		return nil
	case errors.Is(err, errLeftover):
		return d.replace(life, in, !d.c.secured) // with TLS, the bytes may belong to the handshake
	case fromReader:
		d.c.reset()
		return life.fail(&Failure{Kind: Aborted, Reason: ReasonBody, Err: own.err})
	case errors.Is(err, errConnStalled):
		d.c.reset()
		return life.fail(&Failure{Kind: Timeout, Clock: ClockWrite, Reason: ReasonTimeout, Err: err})
	}
	// The engine closed or reset the connection, possibly after a response that explains why.
	life.writing.Store(false)
	if in.head.ready || in.got || in.fill(d.c, time.Now().Add(lastWords)) == nil {
		return nil // Await reads the response
	}
	return d.lost(life, in, err)
}

// lost handles a connection that ended before the first byte of the response. If a keep-alive
// connection ends soon after the request, the engine most likely closed the connection just as the
// request arrived. lost then sends the request once more, on a new connection. Otherwise the
// exchange fails.
func (d *delivery) lost(life *lifetime, in *reply, cause error) error {
	if err := life.check(); err != nil {
		return err
	}
	cause = d.c.ended(cause)
	if errors.Is(cause, errUnacked) {
		// Otherwise the kernel would deliver the request when the host is back, even though another
		// engine already has the request.
		d.c.reset()
	}
	vanished := errors.Is(cause, ErrHostVanished) // a new connection to the host would also fail
	if !d.reused || d.sends > 1 || vanished || d.worked(cause) {
		return life.fail(&Failure{Kind: Unreachable, Reason: d.c.reasonOf(cause), Err: cause})
	}
	d.detach(life)
	in.ended = nil
	return d.startAnew(life, in)
}

// worked reports whether the engine may have processed the request before the connection ended.
// This is the case if the engine had received the whole request and had enough time.
func (d *delivery) worked(cause error) bool {
	return !d.cut && !errors.Is(cause, errUnacked) && !d.ack.writtenWithin(resendWithin, d.t.ackTimeout)
}

// answersAnother reports whether more bytes arrived together with the response on a keep-alive
// connection. If so, the response may belong to the previous request, and the correct response may
// follow.
func (d *delivery) answersAnother(in *reply) bool {
	return d.reused && d.sends <= 1 && in.followed(d.req.Method)
}

// replace sends the request again on a new connection, because the bytes on the current one are not
// the response. unsolicited is true if the bytes are not the response to an earlier request either.
func (d *delivery) replace(life *lifetime, in *reply, unsolicited bool) error {
	if err := life.check(); err != nil {
		return err
	}
	d.c.unsolicited = unsolicited
	d.c.reset()
	d.detach(life)
	in.forget()
	return d.startAnew(life, in)
}
