package engine

import (
	"cmp"
	"context"
	"net/url"
	"strings"
	"time"

	"penstock/config"
	"penstock/config/unixsocket"
	"penstock/upstreams/http1"
)

// SendWake sends the configured request that wakes an engine, and returns the response status. The
// request contains no body, no credentials and no client data.
func SendWake(ctx context.Context, w config.Wake, upstream string, limit time.Duration) (status int, err error) {
	base, path, err := wakeURL(w.URL)
	if err != nil {
		return 0, errNoPage // cannot happen: the configuration was validated
	}
	t, err := http1.NewTransport(http1.TransportOptions{Upstream: upstream, URL: base, MaxIdle: 1})
	if err != nil {
		return 0, err
	}
	defer t.Close()
	x, end := t.ExchangeWithContext(ctx)
	defer end()
	err = x.Send(&http1.Request{
		Method: w.Method, Path: path, Accept: "*/*",
		ConnectTimeout: wakeConnectTimeout, WriteTimeout: wakeConnectTimeout, NoReplay: true,
	})
	if err == nil {
		err = x.Await(time.Now().Add(limit))
	}
	if err != nil {
		return 0, err
	}
	return x.Status(), nil
}

// wakeURL splits a wake address into the server's base URL and the path, which includes the query.
func wakeURL(address string) (base, path string, err error) {
	if unixsocket.IsAddress(address) {
		address, query, asks := strings.Cut(address, "?")
		file, path, err := unixsocket.ParseURL(address)
		if asks {
			query = "?" + query
		}
		return unixsocket.FormatAddress(file), cmp.Or(path, "/") + query, err
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", "", err
	}
	server := url.URL{Scheme: u.Scheme, Host: u.Host}
	return server.String(), cmp.Or(u.RequestURI(), "/"), nil
}

const wakeConnectTimeout = 10 * time.Second
