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

// CheckPage refuses web pages' requests to an edge without keys. It refuses a request whose Host is
// not a name of this machine (hosts, see OwnHosts). It also refuses a request from another origin,
// unless origins (cors.origins) lists that origin. Programs send no Origin, and send the Host from
// their configuration.
func CheckPage(h *fasthttp.RequestHeader, hosts, origins []string) *apierr.Error {
	if slices.Contains(origins, "*") {
		return nil
	}
	host := h.Host()
	if !ownHost(host, hosts) {
		return apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed,
			"Without keys the edge answers only to this machine's names, and the Host header has another: use localhost or its address, or add the origin to cors.origins.")
	}
	origin := h.Peek(fasthttp.HeaderOrigin)
	if foreignOrigin(origin, host) && !slices.Contains(origins, string(origin)) || len(origin) == 0 && crossSite(h) {
		return apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed,
			"Without keys the edge refuses pages of other origins: add the page's origin to cors.origins.")
	}
	return nil
}

// ForeignPage reports whether a request comes from a web page of another origin, unless origins
// (cors.origins) lists that origin. The check is needed because a browser sends no preflight for a
// WebSocket.
func ForeignPage(h *fasthttp.RequestHeader, origins []string) bool {
	origin := h.Peek(fasthttp.HeaderOrigin)
	return foreignOrigin(origin, h.Host()) &&
		!slices.Contains(origins, "*") && !slices.Contains(origins, string(origin))
}

// Unasked reports whether a page of another origin sent the request. A browser attaches its
// credentials for the edge, such as a client certificate, even if its user did not ask for the
// request.
func Unasked(h *fasthttp.RequestHeader) bool { return ForeignPage(h, nil) || crossSite(h) }

// LocalRequest reports whether a request may reach the admin listener that listens on the given
// address. It refuses the Origin of another page, and requests for an image or a frame in another
// page. On loopback it also refuses a Host that is not an address of this machine (DNS rebinding).
func LocalRequest(h *fasthttp.RequestHeader, listening net.Addr) bool {
	if origin := h.Peek(fasthttp.HeaderOrigin); len(origin) > 0 && !ownOrigin(origin, h.Host()) || crossSite(h) {
		return false
	}
	host := string(h.Host())
	if tcp, ok := listening.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() || listening.Network() == "unix" {
		return true // no browser connects to a Unix socket
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// OwnHosts returns the names by which an edge without keys may be called, besides the names of
// loopback: the name that it listens on, the machine's name, and the names in the listed origins.
// For an edge with keys it returns none.
func OwnHosts(f *config.File) (hosts []string) {
	if f.Auth != config.AuthNone {
		return nil
	}
	if host, _, err := net.SplitHostPort(f.Listen); err == nil && host != "" && !unixsocket.Is(f.Listen) {
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

// ownHost reports whether a Host header is a name that no foreign DNS server can resolve: an
// address, a name that is reserved for the local machine (RFC 6761) or network (.internal, which
// containers use for their host), or one of hosts. It accepts an empty header, because an HTTP/1.0
// client may omit Host.
func ownHost(host []byte, hosts []string) bool {
	name := bytes.TrimSuffix(withoutPort(host), []byte{'.'})
	if len(name) == 0 || name[0] == '[' || isAddress4(name) || httptoken.EqualFold(name, "localhost") {
		return true
	}
	for _, suffix := range []string{".localhost", ".internal"} {
		if n := len(name) - len(suffix); n > 0 && httptoken.EqualFold(name[n:], suffix) {
			return true
		}
	}
	return slices.ContainsFunc(hosts, func(own string) bool { return httptoken.EqualFold(name, own) })
}

// withoutPort cuts the port off a Host header.
func withoutPort(host []byte) []byte {
	if i := bytes.LastIndexByte(host, ':'); i >= 0 && bytes.IndexByte(host[i:], ']') < 0 {
		return host[:i]
	}
	return host
}

// isAddress4 reports whether name is an IPv4 address as browsers see it. They treat a name whose
// last label is a number as an address, so no DNS name can look like an address.
func isAddress4(name []byte) bool {
	for _, c := range name {
		if c != '.' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// foreignOrigin reports whether an Origin header names a web page that host did not serve. Origins
// of other schemes belong to programs installed on the machine, such as the extensions of an
// editor or a browser.
func foreignOrigin(origin, host []byte) bool {
	if len(origin) == 0 || ownOrigin(origin, host) {
		return false
	}
	scheme, _, named := bytes.Cut(origin, []byte("://")) // "null" is a page that hides its origin
	return !named || string(scheme) == "http" || string(scheme) == "https"
}

// ownOrigin reports whether host served the page that sends this Origin header.
func ownOrigin(origin, host []byte) bool {
	scheme, from, _ := bytes.Cut(origin, []byte("://"))
	return (string(scheme) == "http" || string(scheme) == "https") && bytes.EqualFold(from, host)
}

// crossSite reports whether, according to the browser, a page of another origin sent the request
// for an image, a script or a frame. A link that the user follows does not count.
func crossSite(h *fasthttp.RequestHeader) bool {
	switch string(h.Peek("Sec-Fetch-Site")) {
	case "cross-site", "same-site":
		followed := h.IsGet() && string(h.Peek("Sec-Fetch-Mode")) == "navigate" &&
			string(h.Peek("Sec-Fetch-Dest")) == "document"
		return !followed
	}
	return false
}
