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
	"time"

	"penstock/upstreams/http1/httptoken"
)

const (
	defaultIdleTimeout    = 4 * time.Second // shorter than the 5 s of cpp-httplib and uvicorn
	defaultMaxIdleConns   = 256
	defaultConnectTimeout = 10 * time.Second
	defaultUserAgent      = "penstock"
	probeAgent            = "penstock-probe"
)

// TransportOptions configures a Transport.
type TransportOptions struct {
	Upstream string      // the upstream's name in a Failure
	URL      string      // scheme (http or https), host, optional port and base path; or unix:/PATH[:/BASE]
	TLS      *tls.Config // copied; nil means Go's defaults; ServerName defaults to the URL's host
	// IdleTimeout is how long an idle connection stays open. The default of 4 s is less than the 5
	// s of common engines.
	IdleTimeout time.Duration
	MaxIdle     int        // maximum number of idle connections; 0 means 256
	UserAgent   string     // if empty, penstock
	APIKey      string     // bearer token, or empty
	Host        string     // value of the Host header; if empty, the URL's authority
	Guard       Guard      // catches panics; may be nil
	Dial        Dialer     // if nil, the system's dialer
	Hosts       *HostWatch // shared by all transports of the upstream; if nil, a new one is created
}

// Dialer connects to an address, like net.Dialer.DialContext.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// ProbeOptions returns the options for a transport for probes. Probes must neither use the
// connections of calls nor wait for them.
func (o TransportOptions) ProbeOptions() TransportOptions {
	o.IdleTimeout, o.MaxIdle, o.UserAgent = defaultIdleTimeout, 1, probeAgent
	return o
}

// Transport is an HTTP/1.1 client for one upstream. It is safe for concurrent use. It starts
// goroutines only to look up names and, briefly, to close idle connections.
type Transport struct {
	upstream     string // name in a Failure
	base         string // prefix of every request path, without a final slash
	fixedHeaders []byte // header lines that all requests share
	tls          *tls.Config
	network      string // "tcp" or "unix"
	dns          *dnsCache
	ackTimeout   time.Duration // maximum time for which the host may not acknowledge a request
	cancelLife   context.CancelFunc
	dial         Dialer
	guard        Guard
	hosts        *HostWatch
	idle         idlePool
}

// tcpKeepAlive makes the kernel detect after 35 s that a host has disappeared. HostWatch usually
// detects this earlier.
var tcpKeepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 4}

var errTransportClosed = errors.New("the transport is closed")

// NewTransport validates o and returns a transport. It does not access the network. Its errors
// contain the upstream's name and the reason, but never the credential.
func NewTransport(o TransportOptions) (*Transport, error) {
	u, socket, err := parseBaseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %w", o.Upstream, err)
	}
	port := cmp.Or(u.Port(), DefaultPort(u.Scheme))
	host, agent := cmp.Or(o.Host, hostHeader(u)), cmp.Or(o.UserAgent, defaultUserAgent)
	authorization := ""
	if o.APIKey != "" {
		authorization = "Bearer " + o.APIKey
	}
	for _, v := range [][2]string{{"host", host}, {"user agent", agent}, {"authorization", authorization}} {
		if httptoken.HasControl(v[1]) {
			return nil, fmt.Errorf("upstream %s: the %s holds a control character", o.Upstream, v[0])
		}
	}
	if strings.ContainsAny(host, " \t/?#@") {
		return nil, fmt.Errorf("upstream %s: host %q is not an authority", o.Upstream, host)
	}

	t := &Transport{
		upstream:   o.Upstream,
		base:       strings.TrimRight(u.EscapedPath(), "/"),
		ackTimeout: defaultAckTimeout,
		guard:      o.Guard,
		hosts:      cmp.Or(o.Hosts, NewHostWatch(nil)),
		dial:       o.Dial,
	}
	if t.dial == nil {
		t.dial = (&net.Dialer{KeepAliveConfig: tcpKeepAlive}).DialContext
	}
	if t.guard == nil {
		t.guard = NoPanicGuard{}
	}
	t.idle = idlePool{maxConns: o.MaxIdle, idleTimeout: o.IdleTimeout, hosts: t.hosts, guard: t.guard}
	if t.idle.idleTimeout <= 0 {
		t.idle.idleTimeout = defaultIdleTimeout
	}
	if t.idle.maxConns <= 0 {
		t.idle.maxConns = defaultMaxIdleConns
	}
	t.fixedHeaders = appendFixedHeaders(nil, host, agent, authorization)
	if u.Scheme == "https" {
		t.tls = clientTLS(o.TLS, u.Hostname())
	}
	life, endLife := context.WithCancel(context.Background())
	t.cancelLife = endLife
	if t.network = "tcp"; socket == "" {
		t.dns = newDNSCache(life, u.Hostname(), port, t.guard)
	} else {
		t.network, t.dns = "unix", &dnsCache{fixedAddrs: []string{socket}}
	}
	return t, nil
}

// hostHeader returns the host and port of u for the Host header. It omits the zone of an IPv6
// address, because a zone has no meaning on another host.
func hostHeader(u *url.URL) string {
	name, zone, found := strings.Cut(u.Host, "%")
	if !found {
		return u.Host
	}
	_, port, _ := strings.Cut(zone, "]")
	return name + "]" + port
}

// NewExchange returns a new exchange. The exchange may be aborted even before Send.
func (t *Transport) NewExchange() *Exchange {
	x := &Exchange{}
	x.Begin(t, nil)
	return x
}

// ExchangeWithContext returns a new exchange that is aborted when ctx is done. The owner must call
// end instead of Close.
func (t *Transport) ExchangeWithContext(ctx context.Context) (x *Exchange, end func()) {
	x = t.NewExchange()
	stop := context.AfterFunc(ctx, func() {
		defer t.guard.Catch(guardEngines, nil)
		x.Abort(ctx.Err())
	})
	return x, func() {
		stop()
		x.Close()
	}
}

// CloseIdle closes the idle connections.
func (t *Transport) CloseIdle() { t.idle.closeAll() }

// Close closes the idle connections and stops the background goroutines. Running exchanges
// continue, and their connections are closed when they end. A Send after Close fails. A second call
// does nothing.
func (t *Transport) Close() {
	t.idle.close()
	t.cancelLife()
}

// discard closes a connection that cannot be reused. If unsolicited bytes have arrived on it,
// discard also calls HostWatch.stopReuse.
func (t *Transport) discard(c *conn) {
	if c.hasUnsolicited {
		t.hosts.stopReuse(time.Now())
	}
	c.close()
}
