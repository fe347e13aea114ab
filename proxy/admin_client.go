package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// readyPatience is how long RequestReady waits for the answer: it takes no work to give.
const readyPatience = 2 * time.Second

// RequestReady asks a running edge, by the base URL of its admin listener or its address, whether it takes new requests. The
// error says why it does not.
func RequestReady(admin string) error {
	_, err := askAdmin(fasthttp.MethodGet, admin, "/-/ready", "", nil, readyPatience)
	return err
}

// notReady says why an edge takes no new requests.
func notReady(body []byte) error {
	var answer readiness
	if json.Unmarshal(body, &answer) == nil && answer.Reason != "" {
		return fmt.Errorf("the edge takes no new requests: %s", answer.Reason)
	}
	return errors.New("the edge takes no new requests: it is draining")
}

// askAdmin sends one request to a running edge's admin listener. admin is its base URL or address; token is the admin token,
// empty where there is none; send is the request's body, or nil. It returns the body of a 200 or 422. The error says what to mend.
func askAdmin(method, admin, path, token string, send []byte, patience time.Duration) (body []byte, err error) {
	if !strings.Contains(admin, "://") {
		admin = "http://" + admin
	}
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(res)
	req.SetRequestURI(strings.TrimRight(admin, "/") + path)
	req.Header.SetMethod(method)
	req.Header.Set("Connection", "close")
	if send != nil {
		req.Header.SetContentType("application/yaml")
		req.SetBodyRaw(send)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	secure := string(req.URI().Scheme()) == "https"
	client := fasthttp.HostClient{ // a Client, and a dialer of fasthttp's, would leave goroutines behind
		Addr: fasthttp.AddMissingPort(string(req.URI().Host()), secure), IsTLS: secure,
		Dial:       func(addr string) (net.Conn, error) { return net.DialTimeout("tcp", addr, patience) },
		RetryIfErr: func(*fasthttp.Request, int, error) (bool, bool) { return false, false },
	}
	if err := client.DoTimeout(req, res, patience); err != nil {
		return nil, fmt.Errorf("ask the edge at %s: %w; --admin is the address of its admin listener", admin, err)
	}
	switch res.StatusCode() {
	case fasthttp.StatusOK, fasthttp.StatusUnprocessableEntity:
		return append(body, res.Body()...), nil
	case fasthttp.StatusServiceUnavailable:
		return nil, notReady(res.Body())
	case fasthttp.StatusUnauthorized:
		return nil, errors.New("the edge wants its admin token (admin.token): give it with --token")
	}
	return nil, fmt.Errorf("%s answers %d: that is not the admin listener of a penstock", admin, res.StatusCode())
}
