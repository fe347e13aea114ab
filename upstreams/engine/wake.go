package engine

import (
	"cmp"
	"context"
	"net/url"
	"time"

	"penstock/config"
	"penstock/upstreams/http1"
)

// Wake sends the request that wakes an engine, and returns the status of the answer. The operator
// configures the request. It has no body, no credential and nothing from a client.
func Wake(ctx context.Context, w config.Wake, upstream string, limit time.Duration) (status int, err error) {
	u, err := url.Parse(w.URL)
	if err != nil {
		return 0, errNoPage // the configuration was validated
	}
	base := url.URL{Scheme: u.Scheme, Host: u.Host}
	t, err := http1.NewTransport(http1.TransportOptions{Upstream: upstream, URL: base.String(), MaxIdle: 1})
	if err != nil {
		return 0, err
	}
	defer t.Close()
	x, end := t.ExchangeWhile(ctx)
	defer end()
	err = x.Send(&http1.Request{
		Method: w.Method, Path: cmp.Or(u.RequestURI(), "/"), Accept: "*/*",
		ConnectTimeout: wakeConnect, WriteTimeout: wakeConnect, NoReplay: true,
	})
	if err == nil {
		err = x.Await(time.Now().Add(limit))
	}
	if err != nil {
		return 0, err
	}
	return x.Status(), nil
}

// wakeConnect bounds the connect of a wake request.
const wakeConnect = 10 * time.Second
