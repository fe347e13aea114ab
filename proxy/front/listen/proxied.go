package listen

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	proxyproto "github.com/pires/go-proxyproto"

	"penstock/proxy/telemetry/guard"
)

// A proxy that forwards bytes may name its client in a header before the first byte. The header
// follows the PROXY protocol, version 1 (text) or 2 (binary), of HAProxy's doc/proxy-protocol.txt.
// The edge trusts the header, so it accepts the header only from listed peers. Without a list none
// of this code runs.

// proxied holds the peers of a listener that send the header, and counts closed connections.
type proxied struct {
	peers                      atomic.Pointer[proxies] // nil: no peers
	missing, unlisted, invalid atomic.Uint64
}

// proxies are the peers that send the header.
type proxies struct {
	networks []netip.Prefix
	atSocket bool
}

// ProxyHeaders counts connections that were closed because of the PROXY protocol's header.
type ProxyHeaders struct {
	Missing  uint64 // a listed peer sent no header
	Unlisted uint64 // an unlisted peer sent a header
	Invalid  uint64 // a listed peer sent an unreadable header
}

// SetProxies sets the networks whose connections start with the PROXY protocol's header, and
// whether connections at a Unix socket do. It applies to later connections. The listener closes a
// connection with the header from an unlisted peer, and a connection without it from a listed peer.
// If no peer is listed, the header is not recognized.
func (l *Listener) SetProxies(networks []netip.Prefix, atSocket bool) {
	if len(networks) == 0 && !atSocket {
		l.proxied.peers.Store(nil)
		return
	}
	l.proxied.peers.Store(&proxies{networks, atSocket})
}

// ProxyHeaders returns how many connections were closed because of the header.
func (l *Listener) ProxyHeaders() ProxyHeaders {
	p := &l.proxied
	return ProxyHeaders{p.missing.Load(), p.unlisted.Load(), p.invalid.Load()}
}

// OwnHeader returns what this process sends first on its own connection to the listener, whose local
// address is from: a PROXY protocol header without a client (LOCAL), or nothing.
func (l *Listener) OwnHeader(from net.Addr) []byte {
	if h := l.expects(from); h == nil || !h.listed {
		return nil
	}
	return []byte("\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00")
}

// expects returns the header with which a new connection may begin, or nil if no header is
// expected.
func (l *Listener) expects(peer net.Addr) *proxyHeader {
	peers := l.proxied.peers.Load()
	if peers == nil {
		return nil
	}
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return &proxyHeader{listed: peers.atSocket}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	return &proxyHeader{listed: slices.ContainsFunc(peers.networks, func(p netip.Prefix) bool { return p.Contains(ip) })}
}

// proxyHeader holds the first bytes of a connection until the header has been read.
type proxyHeader struct {
	listed bool // the peer must send the header
	read   bool
	bytes  []byte // the bytes read so far; later the bytes after the header
}

// RemoteAddr returns the client's address. If there is a PROXY protocol header, that is the
// address in the header.
func (c *Conn) RemoteAddr() net.Addr {
	if c.behind != nil {
		return c.behind
	}
	return c.sock.RemoteAddr()
}

// FromProxy reports whether the peer is a proxy that SetProxies listed when it connected.
func (c *Conn) FromProxy() bool { return c.listed }

// readBehindHeader is Read for a connection whose header has not been read completely.
func (c *Conn) readBehindHeader(p []byte) (int, error) {
	h := c.header
	for !h.read {
		if err := c.readHeader(h); err != nil {
			return 0, err
		}
	}
	n := copy(p, h.bytes)
	if h.bytes = h.bytes[n:]; len(h.bytes) == 0 {
		c.header = nil
	}
	if n == 0 {
		return c.Read(p)
	}
	if c.ln.tls {
		return n, nil
	}
	c.ln.checkFraming(&c.framing, p[:n], nil)
	return n, nil
}

// readHeader reads once, and parses the header when it is complete. An error closes the connection
// without an answer, because the peer does not speak the agreed protocol.
func (c *Conn) readHeader(h *proxyHeader) error {
	var piece [512]byte
	n, err := c.read(piece[:])
	h.bytes = append(h.bytes, piece[:n]...)
	length, found := headerLength(h.bytes)
	count := &c.ln.proxied
	switch {
	case found && !h.listed:
		return refuse(&count.unlisted)
	case length == headerInvalid:
		return refuse(&count.invalid)
	case length == headerNone && h.listed:
		return refuse(&count.missing)
	case length == headerNone:
		h.read = true
		return err
	case length == headerPart && err != nil:
		if h.listed && errors.Is(err, io.EOF) {
			count.missing.Add(1)
		}
		return err
	case length == headerPart:
		return nil
	}
	client, err := c.ln.parseHeader(h.bytes[:length])
	if err != nil {
		return refuse(&count.invalid)
	}
	h.bytes, h.read = h.bytes[length:], true
	if client == nil { // the connection is the proxy's own
		return nil
	}
	c.behind = client
	return c.ln.comesFrom(c, networkOf(client))
}

func refuse(count *atomic.Uint64) error {
	count.Add(1)
	return io.EOF
}

// comesFrom counts a connection for the client's address instead of the proxy's. If that address
// has reached its maximum, comesFrom refuses the connection and returns an error.
func (l *Listener) comesFrom(c *Conn, client netip.Addr) error {
	l.mu.Lock()
	most := l.maxOfOne.Load()
	full := most > 0 && int64(l.ofAddress[client]) >= most
	if !full {
		l.leaves(c.address)
		l.ofAddress[client]++
		c.address = client
	}
	l.mu.Unlock()
	if !full {
		return nil
	}
	l.rejected.Add(1)
	if !l.tls {
		c.SetWriteTimeout(refusalTimeout)
		c.Linger()
		_, _ = c.Write(l.refusalResponse("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n", tooManyOfOneBody))
	}
	return io.EOF
}

// leaves uncounts one connection of an address. The caller must hold mu.
func (l *Listener) leaves(address netip.Addr) {
	if l.ofAddress[address]--; l.ofAddress[address] == 0 {
		delete(l.ofAddress, address)
	}
}

// The first bytes of the header in each version, and the maximum length of the header. The maximum
// for version 2 suffices for addresses and a few hundred bytes of extensions.
const (
	headerV1, mostV1 = "PROXY ", 107
	headerV2, mostV2 = "\r\n\r\n\x00\r\nQUIT\n", 4096
	fixedV2          = 16
)

// headerLength returns one of these values if it knows no length.
const (
	headerPart    = 0  // more bytes are needed
	headerNone    = -1 // no header
	headerInvalid = -2
)

// headerLength returns the length of the header at the start of b. found is true if b certainly
// starts with a header.
func headerLength(b []byte) (length int, found bool) {
	begins := func(with string) bool { return string(b[:min(len(b), len(with))]) == with[:min(len(b), len(with))] }
	switch {
	case begins(headerV1):
		if found = len(b) >= len(headerV1); !found {
			return headerPart, false
		}
		end := bytes.Index(b[:min(len(b), mostV1)], []byte("\r\n"))
		switch {
		case end >= 0:
			return end + 2, true
		case len(b) >= mostV1:
			return headerInvalid, true
		}
		return headerPart, true
	case begins(headerV2):
		if found = len(b) >= len(headerV2); len(b) < fixedV2 {
			return headerPart, found
		}
		length = fixedV2 + int(binary.BigEndian.Uint16(b[14:]))
		switch {
		case length > mostV2:
			return headerInvalid, true
		case len(b) < length:
			return headerPart, true
		}
		return length, true
	}
	return headerNone, false
}

// errHeader is the error for an unreadable header.
var errHeader = errors.New("a header of the PROXY protocol that cannot be read")

// parseHeader returns the client that a complete header names. It returns nil if the connection is
// the proxy's own, or if the proxy does not know its client.
func (l *Listener) parseHeader(header []byte) (client *net.TCPAddr, err error) {
	err = errHeader
	func() {
		defer l.guard.Catch(guard.Connection, nil)
		client, err = clientIn(header)
	}()
	return client, err
}

func clientIn(header []byte) (*net.TCPAddr, error) {
	from := bufio.NewReaderSize(bytes.NewReader(header), len(header))
	h, err := proxyproto.Read(from)
	if err != nil || from.Buffered() > 0 {
		return nil, errHeader
	}
	if h.Command.IsLocal() {
		return nil, nil //nolint:nilnil // documented
	}
	client, ok := h.SourceAddr.(*net.TCPAddr)
	if !ok {
		return nil, nil //nolint:nilnil // likewise
	}
	if _, ok := netip.AddrFromSlice(client.IP); !ok {
		return nil, errHeader
	}
	return client, nil
}
