package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"penstock/upstreams/http1"
)

// Timeouts for the API server.
const (
	connectTimeout = 5 * time.Second
	pageTimeout    = 30 * time.Second // for one page, or for the start of a watch
)

const (
	maxSecretBytes = 64 << 10 // maximum size of a file in the account's folder
	maxPageBytes   = 16 << 20 // maximum size of one response, such as a page of a list
)

// apiAccess describes how to reach an API server, and which credentials to use.
type apiAccess struct {
	server string // if empty, the cluster that the edge runs in
	folder string // folder with the files token, ca.crt and namespace
	guard  http1.Guard
}

type apiClient struct{ transport *http1.Transport }

// openClient returns a client that uses the current contents of the account's folder. It does not
// connect.
func (a *apiAccess) openClient() (*apiClient, error) {
	server := a.server
	if server == "" {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return nil, errors.New("the edge runs in no cluster: set kubernetes.server")
		}
		server = "https://" + net.JoinHostPort(host, port)
	}
	u, err := url.Parse(server)
	if err != nil {
		return nil, errors.New("kubernetes.server is not a URL")
	}
	o := http1.TransportOptions{
		Upstream: "kubernetes", URL: server, MaxIdle: 1, IdleTimeout: connectTimeout, Guard: a.guard,
	}
	if u.Scheme == "https" { // never send a token unencrypted
		if o.APIKey, err = a.readFile("token"); err != nil {
			return nil, fmt.Errorf("the token of the service account cannot be read: %s", filepath.Join(a.folder, "token"))
		}
		files := http1.TLSFiles{CA: filepath.Join(a.folder, "ca.crt")}
		if _, err := os.Stat(files.CA); errors.Is(err, os.ErrNotExist) {
			files.CA = ""
		}
		if o.TLS, err = http1.LoadTLS(files, u.Hostname(), func([]byte) {}); err != nil {
			return nil, errors.New("the service account's ca.crt cannot be used")
		}
	}
	t, err := http1.NewTransport(o)
	if err != nil {
		return nil, errors.New("kubernetes.server or the token cannot be used")
	}
	return &apiClient{t}, nil
}

// readFile returns the text of a file in the account's folder.
func (a *apiAccess) readFile(name string) (string, error) {
	f, err := os.Open(filepath.Join(a.folder, name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecretBytes))
	return strings.TrimSpace(string(text)), err
}

func (c *apiClient) close() { c.transport.Close() }

type statusError int

// Error explains to the operator how to fix the cause of the status. The explanation does not
// include the server's text.
func (e statusError) Error() string {
	switch e {
	case 401:
		return "the API server refuses the token (401)"
	case 403:
		return "the service account may not read this (403): its Role needs get, list and watch"
	case 404:
		return "the API server has no such object (404)"
	case 410:
		return "the version has expired (410)"
	}
	return fmt.Sprintf("the API server answers with %d", int(e))
}

// responseBody reads a response body.
type responseBody struct {
	exchange  *http1.Exchange
	end       func()
	deadline  time.Time
	bytesLeft int // number of bytes that may still be read; a watch resets it after every event
}

// get requests a path. The caller must read the whole body before until.
func (c *apiClient) get(ctx context.Context, path string, until time.Time) (*responseBody, error) {
	x, end := c.transport.ExchangeWithContext(ctx)
	err := x.Send(&http1.Request{
		Method: "GET", Path: path, Accept: "application/json",
		ConnectTimeout: connectTimeout, WriteTimeout: connectTimeout,
	})
	if err == nil {
		err = x.Await(time.Now().Add(pageTimeout))
	}
	if err == nil && x.Status() != 200 {
		err = statusError(x.Status())
	}
	if err != nil {
		end()
		return nil, shortenError(err)
	}
	return &responseBody{exchange: x, end: end, deadline: until, bytesLeft: maxPageBytes}, nil
}

// shortenError shortens an error for the operator. Errors of package http1 contain addresses and
// system errors, but no token.
func shortenError(err error) error {
	failure, ok := errors.AsType[*http1.Failure](err)
	switch {
	case errors.Is(err, http1.ErrNoBytesYet):
		return errors.New("the API server does not answer in time")
	case !ok:
		return err
	case errors.Is(failure.Err, context.Canceled), errors.Is(failure.Err, context.DeadlineExceeded):
		return failure.Err
	}
	return fmt.Errorf("the API server cannot be read: %s", failure.Reason)
}

// errTooLarge is returned for a response that exceeds its limit.
var errTooLarge = errors.New("the API server's answer is too large")

// Read implements io.Reader.
func (b *responseBody) Read(p []byte) (int, error) {
	if len(p) > b.bytesLeft {
		p = p[:b.bytesLeft]
	}
	if len(p) == 0 {
		return 0, errTooLarge
	}
	for {
		n, err := b.exchange.Read(p, b.deadline)
		b.bytesLeft -= n
		if n > 0 || errors.Is(err, io.EOF) {
			return n, err
		}
		if err != nil {
			return 0, shortenError(err)
		}
	}
}

func (b *responseBody) close() { b.end() }
