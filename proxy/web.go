package proxy

import (
	"bytes"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/snapshot"
	"penstock/translate/apierr"
	"penstock/upstreams/http1/httptoken"
)

// A browser lets every page send requests to this machine: what needs no preflight arrives whatever
// the page may read, and a page whose own name is made to lead here (DNS rebinding) may read the
// answers, too. A key or a token keeps such pages out; a port that wants neither has to tell them
// from programs, by what browsers say of a request and pages cannot change.

// checkPage refuses the requests of web pages to an edge without keys: those that come by a Host
// that is not this machine's, and those of another origin, unless cors.origins names it. Programs
// send no Origin and any Host that they were given.
func checkPage(s *snapshot.Snapshot, h *fasthttp.RequestHeader) *apierr.Error {
	origins := s.Config.CORS.Origins
	if !s.Open() || slices.Contains(origins, "*") {
		return nil
	}
	host := h.Host()
	if !ownHost(host, s.Hosts) {
		return apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed, "Without keys only the names of this machine are answered, and the Host header has another: call it by localhost or its address, or add its origin to cors.origins.")
	}
	origin := h.Peek(fasthttp.HeaderOrigin)
	if foreignOrigin(origin, host) && !slices.Contains(origins, string(origin)) || len(origin) == 0 && crossSite(h) {
		return apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed, "Without keys the pages of other origins are not answered: add the page's origin to cors.origins.")
	}
	return nil
}

// ownHosts are the names besides those of loopback by which a keyless edge may be called: what it
// listens on, what the machine is called, and what the listed origins are.
func ownHosts(f *config.File) (hosts []string) {
	if host, _, err := net.SplitHostPort(f.Listen); err == nil && host != "" {
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

// ownHost reports whether a Host header cannot be a name that somebody else gives out: an address,
// a name that is reserved for the own machine (RFC 6761) or network (.internal, as containers call
// their host), or one of hosts. None at all is HTTP/1.0's.
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

// isAddress4 reports whether name is an IPv4 address as browsers see it: they take every name whose
// last label is a number for one, so a name of the DNS cannot look like this.
func isAddress4(name []byte) bool {
	for _, c := range name {
		if c != '.' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// foreignOrigin reports whether an Origin header is that of a web page which host has not
// delivered. Origins of other schemes are those of programs that are installed on the machine, such
// as an editor's or a browser's extension.
func foreignOrigin(origin, host []byte) bool {
	if len(origin) == 0 || ownOrigin(origin, host) {
		return false
	}
	scheme, _, named := bytes.Cut(origin, []byte("://")) // "null" is a page that hides where it is from
	return !named || string(scheme) == "http" || string(scheme) == "https"
}

// ownOrigin reports whether host has delivered the page whose Origin header this is.
func ownOrigin(origin, host []byte) bool {
	scheme, from, _ := bytes.Cut(origin, []byte("://"))
	return (string(scheme) == "http" || string(scheme) == "https") && bytes.EqualFold(from, host)
}

// crossSite reports whether a browser says that a page of another origin asks, be it for an image,
// a script or a frame. A link that somebody follows is no such thing.
func crossSite(h *fasthttp.RequestHeader) bool {
	switch string(h.Peek("Sec-Fetch-Site")) {
	case "cross-site", "same-site":
		followed := h.IsGet() && string(h.Peek("Sec-Fetch-Mode")) == "navigate" && string(h.Peek("Sec-Fetch-Dest")) == "document"
		return !followed
	}
	return false
}
