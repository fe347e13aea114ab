package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config/unixsocket"
	"penstock/proxy/front/listen"
	"penstock/proxy/telemetry/guard"
)

// startWatchdog sends requests to the public listener, and notifies the service manager's watchdog
// after each response. The service manager therefore restarts a process that is running but does
// not respond to clients.
func (e *Edge) startWatchdog(ctx context.Context) (stop func()) {
	interval := listen.WatchdogInterval() / 2 // half the timeout, as recommended by sd_watchdog_enabled(3)
	if interval <= 0 {
		return func() {}
	}
	// Notifications continue during a drain.
	ctx, stop = context.WithCancel(context.WithoutCancel(ctx))
	go e.guard.Loop(ctx.Done(), guard.PlaceWatchdog, func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			e.guard.PanicIfInjected(guard.PlaceWatchdog)
			if e.shutdown.draining.Load() || listenerResponds(e.opts.Public, e.opts.Certificate != nil, interval, e.listener.LocalProxyHeader) {
				listen.NotifyAlive()
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return stop
}

// listenerResponds reports whether a listener responds to a request on a new connection within the
// given time. Before the request, it sends the bytes that header returns for the connection's local
// address.
func listenerResponds(ln net.Listener, secure bool, within time.Duration, header func(from net.Addr) []byte) bool {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(res)
	base, socket := baseURL(ln, scheme), ""
	if unixsocket.IsAddress(base) {
		socket, _, _ = unixsocket.ParseURL(base) // the socket is open, so its path is valid
		base = scheme + "://localhost"
	}
	req.SetRequestURI(base + "/health")
	req.SetConnectionClose()
	client := fasthttp.HostClient{ // a fasthttp.Client would leave goroutines behind
		Addr: string(req.URI().Host()), IsTLS: secure,
		Dial: func(addr string) (net.Conn, error) {
			network := "tcp"
			if socket != "" {
				network, addr = "unix", socket
			}
			c, err := net.DialTimeout(network, addr, within)
			if err != nil {
				return nil, err
			}
			if _, err := c.Write(header(c.LocalAddr())); err != nil {
				return nil, errors.Join(err, c.Close())
			}
			return c, nil
		},
		TLSConfig:  &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // it is this process, and nothing is said to it
		RetryIfErr: func(*fasthttp.Request, int, error) (bool, bool) { return false, false },
	}
	return client.DoTimeout(req, res, within) == nil
}
