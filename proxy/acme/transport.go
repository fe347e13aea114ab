package acme

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// requestTime is how long one request to the authority may take.
const requestTime = 30 * time.Second

// mostAnswer is how much of one answer is read: a chain of certificates has some kilobytes.
const mostAnswer = 1 << 20

// newClient returns the client for a directory and what it names. It follows no redirect.
func newClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport: bounded{transport}, Timeout: requestTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// directoryTransport asks a directory whose certificate the roots have signed.
func directoryTransport(roots *x509.CertPool) http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone() // with the proxy of the environment
	t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	t.DisableKeepAlives = true // some requests in months
	return t
}

// bounded asks over https alone, also what a directory names, and bounds the answers.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("the directory names a URL of %s: it must be https", r.URL.Host)
	}
	resp, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: mostAnswer}
	return resp, nil
}

// boundedBody fails after mostAnswer bytes.
type boundedBody struct {
	io.ReadCloser
	left int
}

var errLongAnswer = errors.New("the directory's answer is longer than 1 MiB")

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errLongAnswer
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
