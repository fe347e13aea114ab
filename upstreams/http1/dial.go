package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

// connect makes a new connection for an exchange, which may be aborted meanwhile. A limit of 0 is
// the default.
func (t *Transport) connect(life *lifetime, limit time.Duration) (*conn, error) {
	if limit <= 0 {
		limit = defaultConnectTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := life.hold(nil, cancel); err != nil { // Abort came before there was something to cancel
		return nil, err
	}
	c, failure := t.connectOnce(ctx)
	if failure != nil {
		return nil, life.fail(failure)
	}
	return c, nil
}

// connectOnce makes a new connection, TLS included, before ctx ends. Every address of the upstream's name
// is tried in turn; each gets an even share of the time that is left, and one that fails is tried
// last from then on. The failure is that of the address that got furthest: an engine whose
// certificate is not good is no less there because its name has another address as well.
func (t *Transport) connectOnce(ctx context.Context) (*conn, *Failure) {
	if t.idle.isClosed() {
		return nil, &Failure{Kind: Unreachable, Reason: ReasonClosed, Err: errTransportClosed}
	}
	addrs, err := t.dns.addresses(ctx)
	if err != nil {
		// Also when it is the clock that ran out: what failed is the name, and nothing was sent.
		return nil, &Failure{Kind: Unreachable, Reason: ReasonDNS, Err: err}
	}
	reason := ""
	for i, addr := range addrs {
		c, at, failed := t.dialOne(ctx, addr, len(addrs)-i)
		if failed == nil {
			return c, nil
		}
		if reason != ReasonTLS || at == ReasonTLS {
			reason, err = at, failed
		}
		if ctx.Err() != nil {
			break
		}
		t.dns.demote(addr)
	}
	t.dns.expire()
	if isTimeout(err) {
		return nil, &Failure{Kind: Timeout, Clock: ClockConnect, Reason: ReasonTimeout, Err: err}
	}
	return nil, &Failure{Kind: Unreachable, Reason: reason, Err: err}
}

// dialOne connects to one address, which is followed by others: left counts it and them.
func (t *Transport) dialOne(ctx context.Context, addr string, left int) (*conn, string, error) {
	share := ctx
	if end, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		share, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(left))
		defer cancel()
	}
	sock, err := t.dial(share, "tcp", addr)
	if err != nil {
		t.hosts.refused(addr, err, time.Now())
		return nil, ReasonConnect, err
	}
	c, err := newConn(sock)
	if err != nil {
		_ = sock.Close()
		return nil, ReasonConnect, err
	}
	t.hosts.connected(addr, c)
	if t.tls == nil {
		return c, "", nil
	}
	secured := tls.Client(c.nc, t.tls)
	if err := secured.HandshakeContext(share); err != nil {
		c.close()
		return nil, ReasonTLS, err
	}
	c.nc, c.secured = secured, true
	return c, "", nil
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &ne) && ne.Timeout()
}
