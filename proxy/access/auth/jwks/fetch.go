package jwks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"penstock/proxy/access/auth/jwt"
)

const fetchTimeout = 10 * time.Second

// fetchClient opens a new connection for each fetch, because there are minutes between fetches.
var fetchClient = &http.Client{
	Timeout: fetchTimeout,
	Transport: &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// fetchKeySet fetches and parses a set. Its error contains nothing from the response except the
// status.
func fetchKeySet(ctx context.Context, address string) (*jwt.Set, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, errors.New("the address cannot be read")
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	r.Header.Set("User-Agent", "penstock")
	a, err := fetchClient.Do(r)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok { // the error text repeats the URL
			err = wrapped.Err
		}
		return nil, err
	}
	defer a.Body.Close()
	switch {
	case a.StatusCode >= 300 && a.StatusCode < 400:
		return nil, fmt.Errorf("it answers %d, and redirects are not followed: give the address that it leads to", a.StatusCode)
	case a.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answers %d", a.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(a.Body, jwt.MaxSet+1))
	if err != nil {
		return nil, errors.New("its answer is truncated")
	}
	return jwt.ParseSet(text)
}
