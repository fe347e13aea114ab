package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"penstock/config/unixsocket"
)

// OnLoopback reports whether a listen address is reachable only from this machine. Only loopback
// addresses and Unix sockets are. A host name other than localhost counts as reachable from
// outside.
func OnLoopback(listen string) bool {
	if unixsocket.IsAddress(listen) {
		return true
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// mayBeReachable reports whether clients in other networks may be able to reach a listen address.
// It returns false for Unix sockets, for loopback, private and link-local addresses, and for
// invalid addresses.
func mayBeReachable(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil || checkListen(listen) != nil || OnLoopback(listen) {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.Unmap().IsPrivate() && !ip.IsLinkLocalUnicast()
}

func checkListen(listen string) error {
	if unixsocket.IsAddress(listen) {
		_, _, err := unixsocket.ParseListen(listen)
		return err
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return errors.New("want an address and a port, such as 127.0.0.1:4000, :4000 for every address, or unix:/PATH for a Unix socket")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("the port %q is not a number from 0 to 65535", port)
	}
	if _, err := netip.ParseAddr(host); host != "" && err != nil && !isHostName(host) {
		return fmt.Errorf("%q is neither an IP address nor a host name", host)
	}
	return nil
}

// listensConflict reports whether two listen addresses conflict. They conflict if their ports are
// equal, and their hosts are equal or one host is a wildcard. Host names are not resolved. Unix
// sockets conflict if their paths are equal.
func listensConflict(one, other string) bool {
	if unixsocket.IsAddress(one) && unixsocket.IsAddress(other) {
		a, _, _ := unixsocket.ParseListen(one)
		b, _, _ := unixsocket.ParseListen(other)
		return a == b
	}
	a, port, err := net.SplitHostPort(one)
	b, second, err2 := net.SplitHostPort(other)
	if err != nil || err2 != nil || port != second || port == "0" {
		return false
	}
	return a == b || canonicalHost(a) == canonicalHost(b) || isWildcardOf(a, b) || isWildcardOf(b, a)
}

// isWildcardOf reports whether host is a wildcard address that includes other.
func isWildcardOf(host, other string) bool {
	if canonicalHost(host) != wildcardListenAddress {
		return false
	}
	ip, err := netip.ParseAddr(other)
	return host != wildcardListenAddress || err != nil || ip.Unmap().Is4() || ip.IsUnspecified()
}

func isHostName(host string) bool {
	if host == "" || len(host) > 253 || strings.Trim(host, "0123456789.") == "" {
		return false // only digits and dots: a malformed IP address
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		plain := func(r rune) bool {
			return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
		}
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool { return !plain(r) }) {
			return false
		}
	}
	return true
}

// parseHTTPURL parses the URL of a server that the edge calls. Its errors never contain the URL,
// because it may contain a password.
func parseHTTPURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("this is not a URL: write http://HOST:PORT")
	case u.User != nil || strings.Contains(u.Opaque, "@"):
		return nil, errors.New("a URL must not hold a user or a password; the key of an engine goes into its api_key")
	case u.Scheme == "":
		return nil, errors.New("the URL has no scheme: write http://HOST:PORT or https://HOST:PORT")
	case u.Scheme != "http" && u.Scheme != "https":
		if u.Opaque != "" {
			return nil, errors.New("the URL has no scheme: write http://HOST:PORT or https://HOST:PORT")
		}
		return nil, fmt.Errorf("the scheme must be http or https, not %s", u.Scheme)
	case u.Host == "" || u.Hostname() == "":
		return nil, errors.New("the URL names no host: write http://HOST:PORT")
	}
	switch ip, err := netip.ParseAddr(u.Hostname()); {
	case err != nil && !isHostName(u.Hostname()):
		return nil, errors.New("the URL's host is neither a name nor an IP address")
	case ip.Zone() != "":
		return nil, errors.New("the URL's address has a zone (%), which a request cannot carry: write a name, or an address without a zone")
	}
	if p := u.Port(); p != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return nil, errors.New("the URL's port is not a number from 1 to 65535")
		}
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(address, "#") {
		return nil, errors.New("the URL must end before ? and #")
	}
	return u, nil
}

// CheckBaseURL returns an error if an upstream's URL is invalid.
func CheckBaseURL(address string) error {
	if unixsocket.IsAddress(address) {
		file, base, err := unixsocket.ParseURL(address)
		if err != nil {
			return err
		}
		return checkBasePath(strings.TrimRight(base, "/"), unixsocket.FormatAddress(file)+":")
	}
	for _, elsewhere := range []string{"http+unix:", "http://unix:", "https://unix:", "unix@", "unix//", "/"} {
		if strings.HasPrefix(address, elsewhere) {
			return errors.New("an engine at a Unix socket is written unix:/PATH, or unix:/PATH:/BASE with a base path")
		}
	}
	u, err := parseHTTPURL(address)
	if err != nil {
		return err
	}
	return checkBasePath(u.EscapedPath(), u.Scheme+"://"+u.Host)
}

// checkBasePath returns an error if the path of an upstream's URL is invalid. before is the part of
// the URL that precedes path.
func checkBasePath(path, before string) error {
	if kept, _, found := strings.Cut(path+"/", "/v1/"); found {
		return fmt.Errorf("write the base URL without /v1 and what follows it: %s", strings.TrimSuffix(before+kept, ":"))
	}
	if strings.ContainsAny(path, "%\\?#") || strings.Contains(path, "//") ||
		strings.Contains(path+"/", "/../") || strings.Contains(path+"/", "/./") {
		return errors.New("the path before /v1 must be plain words between single slashes")
	}
	return nil
}

// pointsToListener reports whether a URL certainly leads to the listener at listen on this machine.
// It does not know the machine's other names and addresses.
func pointsToListener(address, listen string) bool {
	if unixsocket.IsAddress(address) && unixsocket.IsAddress(listen) {
		a, _, err := unixsocket.ParseURL(address)
		b, _, err2 := unixsocket.ParseListen(listen)
		return err == nil && err2 == nil && a == b
	}
	u, err := parseHTTPURL(address)
	if err != nil {
		return false
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" || port != cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]) {
		return false
	}
	here, there := canonicalHost(host), canonicalHost(u.Hostname())
	ip, err := netip.ParseAddr(there)
	toHere := err == nil && (ip.IsLoopback() || ip.IsUnspecified())
	return here == there || here == wildcardListenAddress && toHere || there == wildcardListenAddress && OnLoopback(listen)
}

// wildcardListenAddress is the wildcard address of a listener. A client that dials it reaches the loopback
// address.
const wildcardListenAddress = "0.0.0.0"

// canonicalHost returns a canonical form of a host.
func canonicalHost(host string) string {
	switch ip, err := netip.ParseAddr(host); {
	case host == "" || err == nil && ip.Unmap().IsUnspecified():
		return wildcardListenAddress
	case strings.EqualFold(host, "localhost"):
		return "127.0.0.1"
	case err == nil:
		return ip.Unmap().String()
	}
	return strings.ToLower(host)
}

// CheckAlreadyOpenPorts checks whether f may be served on ports that are already open. It ignores listen
// and admin.listen, because a running process changes its ports only at a restart, and a service
// manager may have opened them. public and admin are the addresses of the open ports. admin is ""
// if there is no admin listener. Validate checks only the addresses in the file, which is not
// enough. A file that moves every listener to loopback may disable keys while an open port remains
// reachable.
func (f *File) CheckAlreadyOpenPorts(public, admin string) Problems {
	c := f.newChecks().check
	for _, port := range []struct{ setting, at string }{{"listen", public}, {"admin.listen", admin}} {
		if f.Auth == AuthNone && port.at != "" && !OnLoopback(port.at) {
			c.fail("auth", "none is allowed on loopback only, and the port of %s is open at %s %s", port.setting, port.at,
				openPortDurationNote)
		}
	}
	n := len(f.Admin.Token)
	if (n > 0 || !f.Admin.RequiresToken()) && n < MinAdminTokenLen && admin != "" && !OnLoopback(admin) {
		what := "it is needed"
		if n > 0 {
			what = fmt.Sprintf("it can be guessed: use at least %d characters", MinAdminTokenLen)
		}
		c.fail("admin.token", "%s: the admin listener is open at %s, where other machines reach it, %s", what, admin,
			openPortDurationNote)
	}
	return c.Problems()
}

// openPortDurationNote explains to the operator how long a port stays open.
const openPortDurationNote = "until the edge restarts or, if a service manager opened it, until its socket unit has another address"

// sanKinds are the prefixes that "openssl x509 -ext subjectAltName" prints before a name to show
// its kind.
var sanKinds = []string{"dns:", "uri:", "email:", "ip:", "ip address:"}

// checkSAN returns an error if a subject alternative name is invalid.
func checkSAN(name string) error {
	for _, kind := range sanKinds {
		if len(name) >= len(kind) && strings.EqualFold(name[:len(kind)], kind) {
			return fmt.Errorf("the form of a name shows its kind: leave %s out", strings.TrimSuffix(name[:len(kind)], " "))
		}
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '*' }) {
		return errors.New("names of certificates are compared in full: use visible ASCII without spaces or *")
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		if ip.Zone() != "" || ip.Is4In6() {
			return errors.New("certificates cannot have this address: write 10.0.0.1 or 2001:db8::1")
		}
		return nil
	}
	if before, after, ok := strings.Cut(name, ":"); ok {
		if u, err := url.Parse(name); err != nil || u.Scheme == "" {
			return errors.New("this is neither an IP address nor a URI: write spiffe://TRUST-DOMAIN/PATH")
		}
		if strings.Trim(after, "0123456789") == "" && isHostName(before) {
			return errors.New("a name of a certificate has no port: leave it out")
		}
		return nil
	}
	if strings.Contains(name, "@") || isHostName(name) && !strings.HasSuffix(name, ".") {
		return nil
	}
	return errors.New("this is not a DNS name, URI, mail or IP address: write one complete name of the certificate, " +
		"such as agent.example.com or spiffe://TRUST-DOMAIN/PATH")
}

// isPublicHost reports whether a URL has a public address, or a host name outside the private
// domains.
func isPublicHost(address string) bool {
	u, err := parseHTTPURL(address)
	if err != nil {
		return false
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		ip = ip.Unmap()
		return ip.IsGlobalUnicast() && !ip.IsPrivate() && !carrierNATAddresses.Contains(ip)
	}
	name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	i := strings.LastIndexByte(name, '.')
	return i > 0 && !slices.Contains(privateDomains, name[i+1:])
}

// carrierNATAddresses is the range of carrier-grade NAT and overlay networks (RFC 6598).
var carrierNATAddresses = netip.MustParsePrefix("100.64.0.0/10")

// privateDomains are top-level domains for private names, which no public server resolves (RFC
// 6761, 6762, 8375, and common practice).
var privateDomains = []string{
	"local", "localhost", "internal", "intranet", "lan", "home", "corp", "private", "arpa", "svc", "test", "invalid",
}

// parsePrefix parses a network. It treats a single address as a network that contains only this
// address.
func parsePrefix(s string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(s); err == nil {
		ip = ip.Unmap().WithZone("")
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

// ProxiesAtSocket is the value in ListenTrusted for all peers at a Unix socket.
const ProxiesAtSocket = "unix"

// TrustedProxies returns the networks in ListenTrusted. atSocket is true if ListenTrusted contains
// ProxiesAtSocket. f must be valid.
func (f *File) TrustedProxies() (all []netip.Prefix, atSocket bool) {
	for _, s := range f.ListenTrusted {
		if p, err := parsePrefix(s); err == nil {
			all = append(all, p)
		}
	}
	return all, slices.Contains(f.ListenTrusted, ProxiesAtSocket)
}
