package listen

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net/netip"
	"strings"
	"testing"

	proxyproto "github.com/pires/go-proxyproto"
)

const request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// v2 returns a version 2 header with the given command, protocol and body.
func v2(command, protocol byte, body string) string {
	return proxyPrefixV2 + string([]byte{command, protocol, byte(len(body) >> 8), byte(len(body))}) + body
}

const (
	tcp4 = "\x0a\x01\x02\x03\x7f\x00\x00\x01\x1f\x90\x0f\xa0"
	tcp6 = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x1f\x90\x0f\xa0"
)

// TestProxyHeader checks how the edge handles various first bytes of a connection. It must either
// serve the request with the right client address, or close the connection and count it.
func TestProxyHeader(t *testing.T) {
	const missing, unlisted, invalid = "missing", "unlisted", "invalid"
	listed, other := []string{"127.0.0.0/8"}, []string{"192.0.2.0/24"}
	for _, c := range []struct {
		name    string
		peers   []string
		send    string
		client  string // expected client address; if empty, the peer's address
		refused string
	}{
		{"nothing is listed", nil, request, "", ""},
		{"v1", listed, "PROXY TCP4 10.1.2.3 127.0.0.1 8080 4000\r\n" + request, "10.1.2.3:8080", ""},
		{"v1, IPv6", listed, "PROXY TCP6 2001:db8::1 2001:db8::2 8080 4000\r\n" + request, "[2001:db8::1]:8080", ""},
		{"v1, unknown", listed, "PROXY UNKNOWN\r\n" + request, "", ""},
		{"v2", listed, v2(0x21, 0x11, tcp4) + request, "10.1.2.3:8080", ""},
		{"v2, IPv6", listed, v2(0x21, 0x21, tcp6) + request, "[2001:db8::1]:8080", ""},
		{"v2 with an extension", listed, v2(0x21, 0x11, tcp4+"\x04\x00\x03abc") + request, "10.1.2.3:8080", ""},
		{"v2, the proxy's own", listed, v2(0x20, 0x00, "") + request, "", ""},
		{"none of a listed peer", listed, request, "", missing},
		{"a method that begins alike", listed, "PROPFIND / HTTP/1.1\r\n\r\n", "", missing},
		{"none of another", other, request, "", ""},
		{"v1 of another", other, "PROXY TCP4 10.1.2.3 127.0.0.1 8080 4000\r\n" + request, "", unlisted},
		{"v2 of another", other, v2(0x21, 0x11, tcp4) + request, "", unlisted},
		{"v1 without an end", listed, "PROXY TCP4 " + strings.Repeat("1", 200), "", invalid},
		{"v1 with a name", listed, "PROXY TCP4 a.example 127.0.0.1 8080 4000\r\n" + request, "", invalid},
		{"v1 with another family", listed, "PROXY TCP4 2001:db8::1 2001:db8::2 8080 4000\r\n" + request, "", invalid},
		{"v1 with a port too many", listed, "PROXY TCP4 10.1.2.3 127.0.0.1 99999 4000\r\n" + request, "", invalid},
		{"v2 that is long", listed, proxyPrefixV2 + "\x21\x11\xff\xff", "", invalid},
		{"v2 that is short", listed, v2(0x21, 0x11, "abc") + request, "", invalid},
		{"v2 of version 3", listed, v2(0x31, 0x11, tcp4) + request, "", invalid},
		{"cut", listed, "PROXY TCP4 10.1", "", missing},
	} {
		for _, bytewise := range []bool{false, true} {
			l := open(t, Options{})
			var peers []netip.Prefix
			for _, p := range c.peers {
				peers = append(peers, netip.MustParsePrefix(p))
			}
			l.SetProxies(peers, false)
			server, client := pair(t, l)
			go func() {
				for rest := c.send; rest != ""; {
					n := len(rest)
					if bytewise {
						n = 1
					}
					if _, err := io.WriteString(client, rest[:n]); err != nil {
						break
					}
					rest = rest[n:]
				}
				_ = client.CloseWrite()
			}()
			got, err := io.ReadAll(server)
			want := request
			if c.refused != "" {
				want = ""
			}
			if string(got) != want || err != nil {
				t.Errorf("%s (%v): the server reads %q, %v", c.name, bytewise, got, err)
			}
			from := client.LocalAddr().String()
			if c.client != "" {
				from = c.client
			}
			if at := server.RemoteAddr().String(); at != from {
				t.Errorf("%s: the client is %s, want %s", c.name, at, from)
			}
			if n := l.addressConnCount(connCountAddress(server.RemoteAddr())); n != 1 {
				t.Errorf("%s: %d connections are counted for the client", c.name, n)
			}
			h := l.ProxyHeaderFailures()
			if got := map[string]uint64{missing: h.Missing, unlisted: h.Unlisted, invalid: h.Invalid, "": 0}; got[c.refused] != min(1, uint64(len(c.refused))) || h.Missing+h.Unlisted+h.Invalid != got[c.refused] {
				t.Errorf("%s: counted %+v, want refused %q alone", c.name, h, c.refused)
			}
			_ = server.Close()
			if len(l.connsByAddress) != 0 {
				t.Errorf("%s: addresses left: %v", c.name, l.connsByAddress)
			}
		}
	}
}

// TestProxyHeader_PerAddress checks that MaxPerAddress applies to clients behind a proxy.
func TestProxyHeader_PerAddress(t *testing.T) {
	l := open(t, Options{MaxPerAddress: 1})
	l.SetProxies([]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, false)
	for i, c := range []struct{ address, want string }{
		{"10.0.0.1", "GET"}, {"10.0.0.2", "GET"}, {"10.0.0.1", ""},
	} {
		server, client := pair(t, l)
		_, _ = io.WriteString(client, "PROXY TCP4 "+c.address+" 127.0.0.1 8080 4000\r\n"+request)
		got := make([]byte, 3)
		n, _ := io.ReadFull(server, got)
		if string(got[:n]) != c.want {
			t.Errorf("connection %d reads %q", i, got[:n])
		}
		if c.want == "" {
			_ = server.Close()
			if answer, _ := io.ReadAll(client); !bytes.HasPrefix(answer, []byte("HTTP/1.1 503 ")) {
				t.Errorf("connection %d is answered %q", i, answer)
			}
		}
	}
	if n := l.RejectedCount(); n != 1 {
		t.Errorf("%d connections rejected, want 1", n)
	}
}

// TestProxyHeader_TLS checks that the header is read before the TLS handshake.
func TestProxyHeader_TLS(t *testing.T) {
	l := open(t, Options{TLS: true})
	l.SetProxies([]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, false)
	server, client := pair(t, l)
	hello := make(chan string, 1)
	go func() {
		_, _ = io.WriteString(client, v2(0x21, 0x11, tcp4))
		_ = tls.Client(client, &tls.Config{ServerName: "a.example", MinVersion: tls.VersionTLS13}).Handshake()
	}()
	s := tls.Server(server, &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		hello <- h.ServerName + " " + h.Conn.RemoteAddr().String()
		return nil, io.EOF
	}})
	_ = s.Handshake()
	if got := <-hello; got != "a.example 10.1.2.3:8080" {
		t.Error(got)
	}
}

// FuzzProxyHeader checks that a header is parsed with the same result as by go-proxyproto, and that
// no bytes after the header are consumed.
func FuzzProxyHeader(f *testing.F) {
	for _, s := range []string{"PROXY TCP4 10.1.2.3 127.0.0.1 8080 4000\r\n", "PROXY UNKNOWN\r\n", v2(0x21, 0x11, tcp4), v2(0x20, 0, ""), v2(0x21, 0x21, tcp6), request} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		length, found := proxyHeaderLength(b)
		for i := range b {
			if part, was := proxyHeaderLength(b[:i]); part == proxyHeaderAbsent && (found || length != proxyHeaderAbsent) || was && !found {
				t.Fatalf("%q: %d, %v of its first %d bytes, and %d, %v", b, part, was, i, length, found)
			}
		}
		if length <= 0 {
			return
		}
		if length > len(b) {
			t.Fatalf("%d of %d bytes", length, len(b))
		}
		client, err := parseClientAddr(b[:length])
		if err != nil {
			return
		}
		if client != nil && (client.Port < 0 || client.Port > 65535 || connCountAddress(client) == netip.Addr{}) {
			t.Fatalf("client = %v, want a network and a port from 0 to 65535", client)
		}
		if _, err := proxyproto.Read(bufioOf(append(bytes.Clone(b[:length]), request...))); err != nil {
			t.Fatalf("%q: %v with bytes behind it", b[:length], err)
		}
	})
}

func bufioOf(b []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(b)) }
