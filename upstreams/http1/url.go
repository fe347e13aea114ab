package http1

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"penstock/config/unixsocket"
)

// parseBaseURL parses a base URL. For a Unix socket, it also returns the socket's path, and u is the
// URL for requests. The error contains no credentials.
func parseBaseURL(raw string) (u *url.URL, socket string, err error) {
	if unixsocket.IsAddress(raw) {
		socket, base, err := unixsocket.ParseURL(raw)
		if err != nil {
			return nil, "", fmt.Errorf("url: %w", err)
		}
		return &url.URL{Scheme: "http", Host: unixSocketHost, Path: strings.TrimRight(base, "/")}, socket, nil
	}
	u, err = parseHTTPURL(raw)
	return u, "", err
}

// unixSocketHost is the Host header of requests over a Unix socket, like in nginx.
const unixSocketHost = "localhost"

func parseHTTPURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("url: it does not parse")
	case strings.Contains(u.Opaque, "@"): // the URL has a user and a password but no scheme
		return nil, errors.New("url: must begin with http:// or https:// and name a host; credentials go into api_key")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		shown := url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path}
		return nil, fmt.Errorf("url: %q must begin with http:// or https:// and name a host", shown.String())
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("url: a user, a query or a fragment has no place in a base URL; credentials go into api_key")
	}
	return u, nil
}

// NormalizeURL returns the canonical form of a base URL: scheme and host in lower case, no default
// port, no final slash. For a Unix socket it returns unix:/PATH, followed by :/BASE if there is a
// base path.
func NormalizeURL(raw string) (string, error) {
	u, socket, err := parseBaseURL(raw)
	switch {
	case err != nil:
		return "", err
	case socket != "" && u.Path != "":
		return unixsocket.FormatAddress(socket) + ":" + u.Path, nil
	case socket != "":
		return unixsocket.FormatAddress(socket), nil
	}
	host := strings.ToLower(u.Hostname())
	port := u.Port()
	if port == DefaultPort(u.Scheme) {
		port = ""
	}
	switch {
	case port != "":
		host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	return u.Scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/"), nil
}

// DefaultPort returns the default port for a scheme, http or https.
func DefaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}
