package http1

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"penstock/upstreams/http1/httptoken"
)

const (
	defaultIdleTimeout    = 4 * time.Second // cpp-httplib and uvicorn close after 5 s
	defaultMaxIdle        = 256
	defaultConnectTimeout = 10 * time.Second
	defaultUserAgent      = "penstock"
	probeAgent            = "penstock-probe"

	// defaultAckTimeout is enough for some repetitions over a slow and lossy path, and less than
	// the 10 s in which a stream commits by default, so that another engine can still be asked.
	// Systems themselves give up after a quarter of an hour.
	defaultAckTimeout = 5 * time.Second
)

// TransportOptions says how one upstream is reached.
type TransportOptions struct {
	Upstream    string        // what a Failure names
	URL         string        // scheme (http or https), host, optional port and base path; nothing else
	TLS         *tls.Config   // for https; copied. Nil: Go's defaults. ServerName defaults to the URL's host
	IdleTimeout time.Duration // how long an idle connection is kept; 0: 4 s, which is under the 5 s of common engines
	MaxIdle     int           // idle connections kept at most; 0: 256
	UserAgent   string        // "": penstock
	APIKey      string        // what is sent as a bearer's token; "": none
	Host        string        // what is sent as Host; "": the URL's authority
	Guard       Guard         // catches panics; nil: they pass
	Hosts       *HostWatch    // of the upstream, whose transports have it in common; nil: one of its own
}

// ForProbes returns the options of a small transport for probes, which must neither wait for the
// connections of calls nor use them.
func (o TransportOptions) ForProbes() TransportOptions {
	o.IdleTimeout, o.MaxIdle, o.UserAgent = defaultIdleTimeout, 1, probeAgent
	return o
}

// Transport is the client of one upstream: its address, its idle connections and what every request
// to it has in common. It is safe for use by any number of goroutines. It starts no goroutine of
// its own but for a name that is looked up and, for an instant, the timer that closes idle
// connections.
type Transport struct {
	upstream   string // what a Failure names
	base       string // path in front of every request's path, without a final slash
	fixed      []byte // the header lines that are the same in every request
	tls        *tls.Config
	dns        *dnsCache
	idleFor    time.Duration
	maxIdle    int
	ackTimeout time.Duration // how long the engine's host may leave a request without an acknowledgement
	life       context.Context
	endLife    context.CancelFunc
	dialer     net.Dialer
	guard      Guard
	hosts      *HostWatch

	mu       sync.Mutex
	idle     []*conn // the last one was used last, and is used next
	closed   bool
	sweeper  *time.Timer
	sweeping bool // the sweeper is set
}

var errTransportClosed = errors.New("the transport is closed")

// NewTransport checks o and prepares a transport. It does not touch the network. Its errors name
// the upstream and what is wrong, and never hold the credential.
func NewTransport(o TransportOptions) (*Transport, error) {
	u, err := url.Parse(o.URL)
	var parse *url.Error
	switch {
	case errors.As(err, &parse): // without the URL, which may hold a password
		return nil, fmt.Errorf("upstream %s: parse url: %w", o.Upstream, parse.Err)
	case err != nil:
		return nil, fmt.Errorf("upstream %s: parse url: %w", o.Upstream, err)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("upstream %s: url %q: the scheme must be http or https", o.Upstream, o.URL)
	case u.Hostname() == "":
		return nil, fmt.Errorf("upstream %s: url %q: the host is missing", o.Upstream, o.URL)
	case u.User != nil:
		return nil, fmt.Errorf("upstream %s: the url holds a user or password: use api_key", o.Upstream)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("upstream %s: url %q: a query or fragment has no place here", o.Upstream, o.URL)
	}
	port := cmp.Or(u.Port(), DefaultPort(u.Scheme))
	host, agent := cmp.Or(o.Host, authority(u)), cmp.Or(o.UserAgent, defaultUserAgent)
	authorization := ""
	if o.APIKey != "" {
		authorization = "Bearer " + o.APIKey
	}
	for _, v := range []struct{ name, value string }{{"host", host}, {"user agent", agent}, {"authorization", authorization}} {
		if httptoken.HasControl(v.value) {
			return nil, fmt.Errorf("upstream %s: the %s holds a control character", o.Upstream, v.name)
		}
	}
	if strings.ContainsAny(host, " \t/?#@") {
		return nil, fmt.Errorf("upstream %s: host %q is not an authority", o.Upstream, host)
	}

	t := &Transport{
		upstream:   o.Upstream,
		base:       strings.TrimRight(u.EscapedPath(), "/"),
		idleFor:    o.IdleTimeout,
		maxIdle:    o.MaxIdle,
		ackTimeout: defaultAckTimeout,
		guard:      o.Guard,
		hosts:      cmp.Or(o.Hosts, NewHostWatch(nil)),
		dialer:     net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 4}},
	}
	if t.guard == nil {
		t.guard = Unguarded{}
	}
	if t.idleFor <= 0 {
		t.idleFor = defaultIdleTimeout
	}
	if t.maxIdle <= 0 {
		t.maxIdle = defaultMaxIdle
	}
	t.fixed = appendFixed(nil, host, agent, authorization)
	if u.Scheme == "https" {
		t.tls = clientTLS(o.TLS, u.Hostname())
	}
	t.life, t.endLife = context.WithCancel(context.Background())
	t.dns = newDNSCache(t.life, u.Hostname(), port, t.guard)
	return t, nil
}

// authority is the host and port of u as they are sent, without the zone of an address, which means
// nothing elsewhere.
func authority(u *url.URL) string {
	name, zone, found := strings.Cut(u.Host, "%")
	if !found {
		return u.Host
	}
	_, port, _ := strings.Cut(zone, "]")
	return name + "]" + port
}

// Exchange returns a new exchange. Nothing happens until its Send; it can be aborted at once.
func (t *Transport) Exchange() *Exchange { return &Exchange{t: t} }

// ExchangeWhile returns a new exchange that is aborted when ctx ends, and what its owner calls in
// place of Close.
func (t *Transport) ExchangeWhile(ctx context.Context) (x *Exchange, end func()) {
	x = t.Exchange()
	stop := context.AfterFunc(ctx, func() {
		defer t.guard.Catch(guardEngines, nil)
		x.Abort(ctx.Err())
	})
	return x, func() {
		stop()
		x.Close()
	}
}

// CloseIdle closes the connections that are not in use.
func (t *Transport) CloseIdle() {
	t.mu.Lock()
	idle := t.idle
	t.idle = nil
	t.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}

// Close closes the idle connections and stops the work in the background. Exchanges that have been
// sent run to their end and their connections are closed then; a Send after Close fails. A second
// call does nothing.
func (t *Transport) Close() {
	t.mu.Lock()
	t.closed = true
	if t.sweeper != nil {
		t.sweeper.Stop()
	}
	t.mu.Unlock()
	t.endLife()
	t.CloseIdle()
}

func (t *Transport) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// takeIdle returns the connection that was used last, unless it is too old, or nil. The caller
// finds out whether it still works (see conn.stale).
func (t *Transport) takeIdle(now time.Time) *conn {
	for {
		t.mu.Lock()
		n := len(t.idle)
		if n == 0 {
			t.mu.Unlock()
			return nil
		}
		c := t.idle[n-1]
		t.idle[n-1] = nil
		t.idle = t.idle[:n-1]
		t.mu.Unlock()

		if now.Before(c.expires) && !c.vanished.Load() && !t.hosts.distrusted(now) {
			return c
		}
		c.close()
	}
}

// keepIdle keeps c for the next exchange, for at most keep where the engine asked for less than the
// transport's own limit (0: it did not say).
func (t *Transport) keepIdle(c *conn, keep time.Duration, now time.Time) {
	if keep == 0 || keep > t.idleFor {
		keep = t.idleFor
	}
	c.kept, c.expires = now, now.Add(keep)

	t.mu.Lock()
	if t.closed || len(t.idle) >= t.maxIdle || t.hosts.distrusted(now) {
		t.mu.Unlock()
		c.close()
		return
	}
	t.idle = append(t.idle, c)
	if !t.sweeping {
		t.sweeping = true
		if t.sweeper == nil {
			t.sweeper = time.AfterFunc(keep, t.sweep)
		} else {
			t.sweeper.Reset(keep)
		}
	}
	t.mu.Unlock()
}

// sweep closes what has idled too long, and comes again for the rest. It is the only timer of a
// transport: under load it runs once in an idle time, not once in an exchange.
func (t *Transport) sweep() {
	defer t.guard.Catch(guardEngines, nil)
	for _, c := range t.overdue(time.Now()) {
		c.close()
	}
}

// overdue takes out what has idled too long and sets the sweeper for the rest.
func (t *Transport) overdue(now time.Time) (old []*conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweeping = false // a panic must not leave it to a sweeper that does not come
	t.guard.Point(guardEngines)
	kept, next := t.idle[:0], t.idleFor
	for _, c := range t.idle {
		left := c.expires.Sub(now)
		if left <= 0 {
			old = append(old, c)
			continue
		}
		kept = append(kept, c)
		next = min(next, left)
	}
	clear(t.idle[len(kept):])
	t.idle = kept
	if t.sweeping = len(kept) > 0 && !t.closed; t.sweeping {
		t.sweeper.Reset(next)
	}
	return old
}
