package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
)

// Clients of the edge: requests through an HTTP library, whole answers, and the contract's error record.

// newClient is an HTTP client with connections of its own, closed when the test ends.
func newClient(t testing.TB) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// reply is a whole answer of the edge, read to its end.
type reply struct {
	t      testing.TB
	status int
	header http.Header
	body   string
	err    error // how reading the body ended, nil for a whole one
	took   time.Duration
}

// post sends body as JSON under the key of the setup and reads the whole answer. header are further "Name: value" lines; one
// that names Authorization replaces the key.
func (p *penstock) post(path, body string, header ...string) *reply {
	p.t.Helper()
	return p.do("POST", path, body, header...)
}

// get is post for GET, without the key.
func (p *penstock) get(path string, header ...string) *reply {
	p.t.Helper()
	return p.do("GET", path, "", append([]string{"Authorization: "}, header...)...)
}

func (p *penstock) do(method, path, body string, header ...string) *reply {
	p.t.Helper()
	begun := time.Now()
	res := p.open(context.Background(), method, path, body, header...)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	r := &reply{t: p.t, status: res.StatusCode, header: res.Header, body: string(b), err: err, took: time.Since(begun)}
	if err == nil {
		r.conforms(method, path) // to the published OpenAPI document
	}
	return r
}

// open sends a request and returns the answer unread. The caller closes its body.
func (p *penstock) open(ctx context.Context, method, path, body string, header ...string) *http.Response {
	p.t.Helper()
	res, err := p.try(ctx, method, path, body, header...)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res
}

// try is open for requests that may fail.
func (p *penstock) try(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+p.key)
	for _, h := range header {
		name, value, _ := strings.Cut(h, ":")
		if value = strings.TrimSpace(value); value == "" {
			req.Header.Del(name)
			continue
		}
		req.Header.Set(name, value)
	}
	return p.client.Do(req)
}

// wantStatus fails the test unless the status is the wanted one.
func (r *reply) wantStatus(want int) *reply {
	r.t.Helper()
	if r.status != want {
		r.t.Fatalf("status %d, want %d\n%s", r.status, want, r.body)
	}
	return r
}

// apiError is the contract's error record.
type apiError struct {
	Message  string          `json:"message"`
	Type     string          `json:"type"`
	Code     string          `json:"code"`
	Param    *string         `json:"param"`
	Metadata json.RawMessage `json:"metadata"`
}

// wantError checks an error answer: JSON with a length, the request id, the Retry-After that the status demands, and no
// word that should have stayed inside.
func (r *reply) wantError(status int, kind, code string) *apiError {
	r.t.Helper()
	r.wantStatus(status)
	var e struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal([]byte(r.body), &e); err != nil || e.Error == nil {
		r.t.Fatalf("the error is not the contract's record: %q", r.body)
	}
	if e.Error.Type != kind || e.Error.Code != code {
		r.t.Errorf("error is %s / %s, want %s / %s: %s", e.Error.Type, e.Error.Code, kind, code, e.Error.Message)
	}
	if e.Error.Message == "" {
		r.t.Error("the error has no message")
	}
	if ct := r.header.Get("Content-Type"); ct != "application/json" {
		r.t.Errorf("Content-Type %q", ct)
	}
	if r.header.Get("Content-Length") == "" {
		r.t.Error("the error has no Content-Length")
	}
	if r.header.Get("X-Request-Id") == "" || r.header.Get("X-Request-Id") != r.header.Get("Request-Id") {
		r.t.Error("the error has no request id, or two different ones")
	}
	after, err := strconv.Atoi(r.header.Get("Retry-After"))
	switch status {
	case 429, 503, 504, 529:
		if err != nil || after < 1 || after > 60 {
			r.t.Errorf("Retry-After is %q, want an integer from 1 to 60", r.header.Get("Retry-After"))
		}
	}
	wantNoLeak(r.t, r.body)
	return e.Error
}

// wantNoLeak checks that text has nothing of what faulty engines and prompts carry.
func wantNoLeak(t testing.TB, text string) {
	t.Helper()
	for _, secret := range []string{canary, sim.LeakedHost, sim.LeakedPath, sim.LeakedSecret, sim.ForgedText, "127.0.0.1:"} {
		if strings.Contains(text, secret) {
			t.Errorf("the client was shown %q: %.300s", secret, text)
		}
	}
}

// wantUnserved checks that no request has reached the engine.
func (p *penstock) wantUnserved(t *testing.T, upTo int64) {
	t.Helper()
	if n := p.engines[0].Stats().Requests; n > upTo {
		t.Errorf("%d requests upstream, want at most %d", n, upTo)
	}
}
