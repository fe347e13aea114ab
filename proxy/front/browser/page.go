package browser

import (
	"bytes"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/config/unixsocket"
	"penstock/translate/apierr"
	"penstock/upstreams/http1/httptoken"
)

// CheckPageRequest rejects requests from web pages to an edge without keys. It rejects a Host that does
// not name this machine. hosts contains this machine's names; see OwnHostNames. It rejects the Origin
// of a page that was not served by the edge, unless the Origin is listed in origins (cors.origins).
// Programs send no Origin, and send the configured Host.
func CheckPageRequest(h *fasthttp.RequestHeader, hosts, origins []string) *apierr.Error {
	if slices.Contains(origins, "*") {
		return nil
	}
	host := h.Host()
	if !isOwnHost(host, hosts) {
		return apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed,
			"Without keys the edge answers only to this machine's names, and the Host header has another: use localhost or its address, or add the origin to cors.origins.")
	}
	origin := h.Peek(fasthttp.HeaderOrigin)
	if isForeignOrigin(origin, host) && !slices.Contains(origins, string(origin)) || len(origin) == 0 && isCrossSite(h) {
		return apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed,
			"Without keys the edge refuses pages of other origins: add the page's origin to cors.origins.")
	}
	return nil
}

// IsForeignPage reports whether a request comes from a web page whose origin is neither the edge's
// origin nor listed in origins (cors.origins). Such a check is needed because a browser sends no
// preflight for a WebSocket.
func IsForeignPage(h *fasthttp.RequestHeader, origins []string) bool {
	origin := h.Peek(fasthttp.HeaderOrigin)
	return isForeignOrigin(origin, h.Host()) &&
		!slices.Contains(origins, "*") && !slices.Contains(origins, string(origin))
}

// IsCrossOrigin reports whether a request comes from a page of a different origin. A browser adds
// its credentials for the edge, such as a client certificate, even to such requests.
func IsCrossOrigin(h *fasthttp.RequestHeader) bool { return IsForeignPage(h, nil) || isCrossSite(h) }

// IsLocalRequest reports whether a request may use the admin listener. listening is the listener's
// address. It rejects requests from pages of a different origin, including requests for images or
// frames in such a page. On loopback, it also rejects a Host that is not a loopback address (DNS
// rebinding).
func IsLocalRequest(h *fasthttp.RequestHeader, listening net.Addr) bool {
	if origin := h.Peek(fasthttp.HeaderOrigin); len(origin) > 0 && !isSameOrigin(origin, h.Host()) || isCrossSite(h) {
		return false
	}
	host := string(h.Host())
	if tcp, ok := listening.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() || listening.Network() == "unix" {
		return true // browsers do not connect to Unix sockets
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// OwnHostNames returns the names that clients may use for an edge without keys, in addition to loopback
// names. These are the host in its listen address, the hostname of the machine, and the hosts in
// cors.origins. For an edge with keys, it returns nil.
func OwnHostNames(f *config.File) (hosts []string) {
	if f.Auth != config.AuthNone {
		return nil
	}
	if host, _, err := net.SplitHostPort(f.Listen); err == nil && host != "" && !unixsocket.IsAddress(f.Listen) {
		hosts = append(hosts, strings.ToLower(host))
	}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, strings.ToLower(name))
	}
	for _, origin := range f.CORS.Origins {
		if u, err := url.Parse(origin); err == nil && u.Hostname() != "" {
			hosts = append(hosts, strings.ToLower(u.Hostname()))
		}
	}
	return hosts
}

// isOwnHost reports whether the name in a Host header is safe. A name is safe if an attacker's DNS
// server cannot answer for it. The safe names are:
//
//   - an address,
//   - a name listed in hosts,
//   - a name reserved for the local machine (RFC 6761) or the local network (.internal, which
//     containers use for their host),
//   - an empty name, because HTTP/1.0 clients may omit Host.
func isOwnHost(host []byte, hosts []string) bool {
	name := bytes.TrimSuffix(trimPort(host), []byte{'.'})
	if len(name) == 0 || name[0] == '[' || isIPv4Address(name) || httptoken.EqualFold(name, "localhost") {
		return true
	}
	for _, suffix := range []string{".localhost", ".internal"} {
		if n := len(name) - len(suffix); n > 0 && httptoken.EqualFold(name[n:], suffix) {
			return true
		}
	}
	return slices.ContainsFunc(hosts, func(own string) bool { return httptoken.EqualFold(name, own) })
}

func trimPort(host []byte) []byte {
	if i := bytes.LastIndexByte(host, ':'); i >= 0 && bytes.IndexByte(host[i:], ']') < 0 {
		return host[:i]
	}
	return host
}

// isIPv4Address reports whether browsers treat name as an IPv4 address. They do so if the last label
// is a number, so no DNS name can look like an address.
func isIPv4Address(name []byte) bool {
	for _, c := range name {
		if c != '.' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// isForeignOrigin reports whether an Origin header names a web page that was not served from host.
// Origins with schemes other than http and https belong to installed programs, such as editor or
// browser extensions.
func isForeignOrigin(origin, host []byte) bool {
	if len(origin) == 0 || isSameOrigin(origin, host) {
		return false
	}
	// If the page hides its origin, the header is "null".
	scheme, _, named := bytes.Cut(origin, []byte("://"))
	return !named || string(scheme) == "http" || string(scheme) == "https"
}

func isSameOrigin(origin, host []byte) bool {
	scheme, from, _ := bytes.Cut(origin, []byte("://"))
	return (string(scheme) == "http" || string(scheme) == "https") && bytes.EqualFold(from, host)
}

// isCrossSite reports whether a page of a different origin requested an image, a script or a frame.
// It returns false if the user followed a link.
func isCrossSite(h *fasthttp.RequestHeader) bool {
	switch string(h.Peek("Sec-Fetch-Site")) {
	case "cross-site", "same-site":
		followed := h.IsGet() && string(h.Peek("Sec-Fetch-Mode")) == "navigate" &&
			string(h.Peek("Sec-Fetch-Dest")) == "document"
		return !followed
	}
	return false
}
