package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// connect opens a new connection for an exchange. The exchange may be aborted while it connects. If
// limit is 0, the default limit applies.
func (t *Transport) connect(life *lifetime, limit time.Duration) (*conn, error) {
	if limit <= 0 {
		limit = defaultConnectTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := life.setAbortable(nil, cancel); err != nil { // Abort was called before cancel was set
		return nil, err
	}
	c, failure := t.connectOnce(ctx)
	if failure != nil {
		return nil, life.fail(failure)
	}
	return c, nil
}

// connectOnce opens a new connection and completes the TLS handshake before ctx is done. It tries
// each address of the upstream in turn, and gives each address an equal share of the remaining
// time. If an address has failed, later calls try it after all others. If every address fails,
// connectOnce returns the failure of the attempt that got furthest, because a bad certificate,
// for example, is more informative than a timeout.
func (t *Transport) connectOnce(ctx context.Context) (*conn, *Failure) {
	if t.idle.isClosed() {
		return nil, &Failure{Kind: KindUnreachable, Reason: ReasonClosed, Err: errTransportClosed}
	}
	addrs, err := t.dns.addresses(ctx)
	if err != nil {
		// A look-up that times out counts as a DNS failure, because nothing was sent.
		return nil, &Failure{Kind: KindUnreachable, Reason: ReasonDNS, Err: err}
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
		return nil, &Failure{Kind: KindTimeout, Clock: TimeoutConnect, Reason: ReasonTimeout, Err: err}
	}
	return nil, &Failure{Kind: KindUnreachable, Reason: reason, Err: err}
}

// dialOne connects to one address. left is the number of addresses still to try, including this
// one.
func (t *Transport) dialOne(ctx context.Context, addr string, left int) (*conn, string, error) {
	share := ctx
	if end, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		share, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(left))
		defer cancel()
	}
	sock, err := t.dial(share, t.network, addr)
	for wait := time.Millisecond; t.network == "unix" && errors.Is(err, syscall.EAGAIN); wait = min(2*wait, maxQueueFullPause) {
		if !sleepContext(share, wait) {
			err = share.Err()
			break
		}
		sock, err = t.dial(share, t.network, addr)
	}
	if err != nil {
		t.hosts.recordDialError(addr, err, time.Now())
		return nil, ReasonConnect, err
	}
	c, err := newConn(sock)
	if err != nil {
		_ = sock.Close()
		return nil, ReasonConnect, err
	}
	t.hosts.addConn(addr, c)
	if t.tls == nil {
		return c, "", nil
	}
	secured := tls.Client(c.nc, t.tls)
	if err := secured.HandshakeContext(share); err != nil {
		c.close()
		return nil, ReasonTLS, err
	}
	c.nc, c.isTLS = secured, true
	return c, "", nil
}

// maxQueueFullPause is the longest pause between two attempts to connect to a Unix socket whose
// accept queue is full. The kernel refuses such an attempt immediately, whereas it retries TCP
// connection attempts.
const maxQueueFullPause = 50 * time.Millisecond

// sleepContext waits for d, and returns false if ctx is done first.
func sleepContext(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &ne) && ne.Timeout()
}
