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
// from listed peers. If no peers are listed, the edge does not look for headers of this protocol.

// proxyHeaderState stores which peers must send the header, and counts the connections that were
// closed because of a missing or wrong header.
type proxyHeaderState struct {
	listedPeers                               atomic.Pointer[listedProxies] // nil if no peers are listed
	missingCount, unlistedCount, invalidCount atomic.Uint64
}

type listedProxies struct {
	networks            []netip.Prefix
	includesUnixSockets bool
}

// ProxyHeaderFailures counts the connections that were closed because of their PROXY protocol header.
type ProxyHeaderFailures struct {
	Missing  uint64 // a listed peer did not send a header
	Unlisted uint64 // a peer that is not listed sent a header
	Invalid  uint64 // a listed peer sent a malformed header
}

// SetProxies sets the networks whose peers must send the header. If atSocket is true, peers of a
// Unix socket must also send the header. SetProxies applies only to connections accepted later. The
// listener closes a connection if a listed peer does not send the header, or if a peer that is not
// listed sends it. If no peer is listed, headers are not parsed.
func (l *Listener) SetProxies(networks []netip.Prefix, atSocket bool) {
	if len(networks) == 0 && !atSocket {
		l.proxyState.listedPeers.Store(nil)
		return
	}
	l.proxyState.listedPeers.Store(&listedProxies{networks, atSocket})
}

// ProxyHeaderFailures returns how many connections were closed because of their header.
func (l *Listener) ProxyHeaderFailures() ProxyHeaderFailures {
	p := &l.proxyState
	return ProxyHeaderFailures{p.missingCount.Load(), p.unlistedCount.Load(), p.invalidCount.Load()}
}

// LocalProxyHeader returns the header that this process must send first when it connects to its own
// listener, or nil if no header is needed. from is the local address of the connection. The
// header's command is LOCAL, so it names no client.
func (l *Listener) LocalProxyHeader(from net.Addr) []byte {
	if h := l.expectedProxyHeader(from); h == nil || !h.isRequired {
		return nil
	}
	return []byte("\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00")
}

// expectedProxyHeader returns a proxyHeader if the connection may start with a header. Otherwise,
// it returns nil.
func (l *Listener) expectedProxyHeader(peer net.Addr) *proxyHeader {
	peers := l.proxyState.listedPeers.Load()
	if peers == nil {
		return nil
	}
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return &proxyHeader{isRequired: peers.includesUnixSockets}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	return &proxyHeader{isRequired: slices.ContainsFunc(peers.networks, func(p netip.Prefix) bool { return p.Contains(ip) })}
}

// proxyHeader collects the first bytes of a connection until the header is complete.
type proxyHeader struct {
	isRequired bool // whether the peer must send the header
	isComplete bool
	bytes      []byte // bytes read so far; once the header is complete, only the bytes after it
}

// RemoteAddr returns the address of the client. If the client is behind a proxy, the address comes
// from the PROXY protocol header.
func (c *Conn) RemoteAddr() net.Addr {
	if c.proxiedAddr != nil {
		return c.proxiedAddr
	}
	return c.rawConn.RemoteAddr()
}

// IsFromListedProxy reports whether the peer is a proxy listed in SetProxies.
func (c *Conn) IsFromListedProxy() bool { return c.fromListedProxy }

// readPastProxyHeader is Read for a connection whose header has not been read completely.
func (c *Conn) readPastProxyHeader(p []byte) (int, error) {
	h := c.proxyHeader
	for !h.isComplete {
		if err := c.readProxyHeader(h); err != nil {
			return 0, err
		}
	}
	if c.ln.usesTLS {
		n := copy(p, h.bytes)
		if h.bytes = h.bytes[n:]; len(h.bytes) > 0 {
			return n, nil
		}
		c.proxyHeader = nil
		if n == 0 {
			return c.Read(p)
		}
		return n, nil
	}
	c.nextRequestBytes, c.proxyHeader = h.bytes, nil
	return c.Read(p)
}

// readProxyHeader performs one read, and parses the header if it is complete. If the peer violates
// the protocol, readProxyHeader returns an error, and the connection closes without a response.
func (c *Conn) readProxyHeader(h *proxyHeader) error {
	var piece [512]byte
	n, err := c.read(piece[:])
	h.bytes = append(h.bytes, piece[:n]...)
	length, found := proxyHeaderLength(h.bytes)
	count := &c.ln.proxyState
	switch {
	case found && !h.isRequired:
		return countAndClose(&count.unlistedCount)
	case length == proxyHeaderInvalid:
		return countAndClose(&count.invalidCount)
	case length == proxyHeaderAbsent && h.isRequired:
		return countAndClose(&count.missingCount)
	case length == proxyHeaderAbsent:
		h.isComplete = true
		return err
	case length == proxyHeaderIncomplete && err != nil:
		if h.isRequired && errors.Is(err, io.EOF) {
			count.missingCount.Add(1)
		}
		return err
	case length == proxyHeaderIncomplete:
		return nil
	}
	client, err := c.ln.parseProxyHeader(h.bytes[:length])
	if err != nil {
		return countAndClose(&count.invalidCount)
	}
	h.bytes, h.isComplete = h.bytes[length:], true
	if client == nil { // the proxy is not forwarding a client
		return nil
	}
	c.proxiedAddr = client
	return c.ln.countForClient(c, connCountAddress(client))
}

func countAndClose(count *atomic.Uint64) error {
	count.Add(1)
	return io.EOF
}

// countForClient attributes the connection to the client's address instead of the proxy's. It
// returns an error if that address has reached its maximum.
func (l *Listener) countForClient(c *Conn, client netip.Addr) error {
	l.mu.Lock()
	most := l.maxPerAddress.Load()
	full := most > 0 && int64(l.connsByAddress[client]) >= most
	if !full {
		l.decrementAddress(c.address)
		l.connsByAddress[client]++
		c.address = client
	}
	l.mu.Unlock()
	if !full {
		return nil
	}
	l.rejectedCount.Add(1)
	if !l.usesTLS {
		c.SetWriteTimeout(refusalTimeout)
		c.LingerOnClose()
		_, _ = c.Write(l.refusalResponse("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n", tooManyPerAddressBody))
	}
	return io.EOF
}

// decrementAddress decrements the number of connections from an address. The caller must hold mu.
func (l *Listener) decrementAddress(address netip.Addr) {
	if l.connsByAddress[address]--; l.connsByAddress[address] == 0 {
		delete(l.connsByAddress, address)
	}
}

// These are the first bytes of the header and its maximum length, for each version. The maximum for
// version 2 leaves ample room for addresses and extensions.
const (
	proxyPrefixV1, proxyMaxLenV1 = "PROXY ", 107
	proxyPrefixV2, proxyMaxLenV2 = "\r\n\r\n\x00\r\nQUIT\n", 4096
	proxyFixedLenV2              = 16
)

// Results of proxyHeaderLength that are not lengths.
const (
	proxyHeaderIncomplete = 0  // more bytes are needed
	proxyHeaderAbsent     = -1 // the bytes are not a header
	proxyHeaderInvalid    = -2
)

// proxyHeaderLength returns the length of the header at the start of b. found is true if b starts
// with a complete header.
func proxyHeaderLength(b []byte) (length int, found bool) {
	begins := func(with string) bool { return string(b[:min(len(b), len(with))]) == with[:min(len(b), len(with))] }
	switch {
	case begins(proxyPrefixV1):
		if found = len(b) >= len(proxyPrefixV1); !found {
			return proxyHeaderIncomplete, false
		}
		end := bytes.Index(b[:min(len(b), proxyMaxLenV1)], []byte("\r\n"))
		switch {
		case end >= 0:
			return end + 2, true
		case len(b) >= proxyMaxLenV1:
			return proxyHeaderInvalid, true
		}
		return proxyHeaderIncomplete, true
	case begins(proxyPrefixV2):
		if found = len(b) >= len(proxyPrefixV2); len(b) < proxyFixedLenV2 {
			return proxyHeaderIncomplete, found
		}
		length = proxyFixedLenV2 + int(binary.BigEndian.Uint16(b[14:]))
		switch {
		case length > proxyMaxLenV2:
			return proxyHeaderInvalid, true
		case len(b) < length:
			return proxyHeaderIncomplete, true
		}
		return length, true
	}
	return proxyHeaderAbsent, false
}

var errProxyHeader = errors.New("a header of the PROXY protocol that cannot be read")

// parseProxyHeader returns the client named by a complete header. It returns nil if the proxy is
// not forwarding a client or does not know its client.
func (l *Listener) parseProxyHeader(header []byte) (client *net.TCPAddr, err error) {
	err = errProxyHeader
	func() {
		defer l.guard.Catch(guard.PlaceConnection, nil)
		client, err = parseClientAddr(header)
	}()
	return client, err
}

func parseClientAddr(header []byte) (*net.TCPAddr, error) {
	from := bufio.NewReaderSize(bytes.NewReader(header), len(header))
	h, err := proxyproto.Read(from)
	if err != nil || from.Buffered() > 0 {
		return nil, errProxyHeader
	}
	if h.Command.IsLocal() {
		return nil, nil //nolint:nilnil // documented
	}
	client, ok := h.SourceAddr.(*net.TCPAddr)
	if !ok {
		return nil, nil //nolint:nilnil // likewise
	}
	if _, ok := netip.AddrFromSlice(client.IP); !ok {
		return nil, errProxyHeader
	}
	return client, nil
}
