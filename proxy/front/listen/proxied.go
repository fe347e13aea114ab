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

// A TCP proxy may send a header with its client's address before the first byte. The header has the
// format of version 1 (text) or version 2 (binary) of the PROXY protocol (HAProxy,
// doc/proxy-protocol.txt). The edge trusts the address in the header, so it accepts headers only
// from listed peers. If no peers are listed, the edge does not parse headers.

// proxied stores which peers must send the header, and counts the connections that were closed
// because of it.
type proxied struct {
	peers                      atomic.Pointer[proxies] // nil if no peers are listed
	missing, unlisted, invalid atomic.Uint64
}

type proxies struct {
	networks []netip.Prefix
	atSocket bool
}

// ProxyHeaders counts the connections that were closed because of their PROXY protocol header.
type ProxyHeaders struct {
	Missing  uint64 // a listed peer did not send a header
	Unlisted uint64 // a peer that is not listed sent a header
	Invalid  uint64 // a listed peer sent a malformed header
}

// SetProxies sets the networks whose peers must send the header. If atSocket is true, peers of a
// Unix socket must also send it. SetProxies applies to connections accepted later. The listener
// closes a connection if a listed peer does not send the header, or if a peer that is not listed
// sends it. If no peer is listed, headers are not parsed.
func (l *Listener) SetProxies(networks []netip.Prefix, atSocket bool) {
	if len(networks) == 0 && !atSocket {
		l.proxied.peers.Store(nil)
		return
	}
	l.proxied.peers.Store(&proxies{networks, atSocket})
}

// ProxyHeaders returns how many connections were closed because of their header.
func (l *Listener) ProxyHeaders() ProxyHeaders {
	p := &l.proxied
	return ProxyHeaders{p.missing.Load(), p.unlisted.Load(), p.invalid.Load()}
}

// OwnHeader returns the header that this process must send first when it connects to its own
// listener, or nil if no header is needed. from is the local address of the connection. The header
// names no client (LOCAL).
func (l *Listener) OwnHeader(from net.Addr) []byte {
	if h := l.expects(from); h == nil || !h.listed {
		return nil
	}
	return []byte("\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00")
}

// expects returns a proxyHeader if the connection may start with a header. Otherwise, it returns
// nil.
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

// proxyHeader collects the first bytes of a connection until the header is complete.
type proxyHeader struct {
	listed bool // whether the peer must send the header
	read   bool
	bytes  []byte // bytes read so far; later, only the bytes after the header
}

// RemoteAddr returns the address of the client. If the client is behind a proxy, the address comes
// from the PROXY protocol header.
func (c *Conn) RemoteAddr() net.Addr {
	if c.behind != nil {
		return c.behind
	}
	return c.sock.RemoteAddr()
}

// FromProxy reports whether the peer is a proxy listed in SetProxies.
func (c *Conn) FromProxy() bool { return c.listed }

// readBehindHeader is Read for a connection whose header has not been read completely.
func (c *Conn) readBehindHeader(p []byte) (int, error) {
	h := c.header
	for !h.read {
		if err := c.readHeader(h); err != nil {
			return 0, err
		}
	}
	if c.ln.tls {
		n := copy(p, h.bytes)
		if h.bytes = h.bytes[n:]; len(h.bytes) > 0 {
			return n, nil
		}
		c.header = nil
		if n == 0 {
			return c.Read(p)
		}
		return n, nil
	}
	c.later, c.header = h.bytes, nil
	return c.Read(p)
}

// readHeader reads once, and parses the header once it is complete. If the peer violates the
// protocol, readHeader returns an error, and the connection closes without a response.
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
	if client == nil { // the proxy connected on its own behalf
		return nil
	}
	c.behind = client
	return c.ln.comesFrom(c, networkOf(client))
}

func refuse(count *atomic.Uint64) error {
	count.Add(1)
	return io.EOF
}

// comesFrom makes the connection count for the client's address rather than the proxy's. It returns
// an error if that address has reached its maximum.
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

// leaves decrements the number of connections from an address. The caller must hold mu.
func (l *Listener) leaves(address netip.Addr) {
	if l.ofAddress[address]--; l.ofAddress[address] == 0 {
		delete(l.ofAddress, address)
	}
}

// These are the first bytes of the header and its maximum length, for each version. The maximum for
// version 2 leaves ample room for addresses and extensions.
const (
	headerV1, mostV1 = "PROXY ", 107
	headerV2, mostV2 = "\r\n\r\n\x00\r\nQUIT\n", 4096
	fixedV2          = 16
)

// These results of headerLength are not lengths.
const (
	headerPart    = 0  // more bytes are needed
	headerNone    = -1 // the bytes are not a header
	headerInvalid = -2
)

// headerLength returns the length of the header at the start of b. found is true if b starts with a
// complete header.
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

var errHeader = errors.New("a header of the PROXY protocol that cannot be read")

// parseHeader returns the client named by a complete header. It returns nil if the proxy connected
// on its own behalf or does not know its client.
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
