package rig

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// NewClient returns an HTTP client that does not follow redirects and trusts every certificate. Its
// connections are closed when the test ends.
func NewClient(t testing.TB) *http.Client {
	tr := &http.Transport{
		MaxIdleConnsPerHost: 4096, DisableCompression: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request,
		[]*http.Request,
	) error {
		return http.ErrUseLastResponse
	}}
}

// Reply is a response that has been read to the end.
type Reply struct {
	T      testing.TB
	Status int
	Header http.Header
	Body   string
	Err    error // the error from reading the body; nil if the body is complete
	Took   time.Duration
}

// Post sends body as JSON with the setup's key and reads the response. header contains "Name:
// value" lines. A line without a value removes the header.
func (e *Edge) Post(path, body string, header ...string) *Reply {
	e.T.Helper()
	return e.Do("POST", path, body, header...)
}

// Get is like Post, but sends a GET request without the key.
func (e *Edge) Get(path string, header ...string) *Reply {
	e.T.Helper()
	return e.Do("GET", path, "", append([]string{"Authorization: "}, header...)...)
}

// Do is like Post, but for any method. The response must conform to the published document (see
// WantConforming).
func (e *Edge) Do(method, path, body string, header ...string) *Reply {
	e.T.Helper()
	begun := time.Now()
	r := e.readReply(e.OpenResponse(context.Background(), method, path, body, header...), begun)
	if r.Err == nil && method != http.MethodOptions { // the document does not describe preflights
		r.WantConforming(method, path)
	}
	return r
}

// Fetch requests a page of the admin listener, or any URL, without a key.
func (e *Edge) Fetch(method, url string, header ...string) *Reply {
	e.T.Helper()
	r, err := e.tryFetch(method, url, header...)
	if err != nil {
		e.T.Fatalf("%s %s: %v", method, url, err)
	}
	return r
}

func (e *Edge) tryFetch(method, url string, header ...string) (*Reply, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	addHeaderLines(req.Header, header)
	begun := time.Now()
	res, err := e.Client.Do(req)
	if err != nil {
		return nil, err
	}
	return e.readReply(res, begun), nil
}

func (e *Edge) readReply(res *http.Response, begun time.Time) *Reply {
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return &Reply{T: e.T, Status: res.StatusCode, Header: res.Header, Body: string(b), Err: err, Took: time.Since(begun)}
}

// OpenResponse sends a request and returns the response unread. The caller must close its body.
func (e *Edge) OpenResponse(ctx context.Context, method, path, body string, header ...string) *http.Response {
	e.T.Helper()
	res, err := e.TryOpenResponse(ctx, method, path, body, header...)
	if err != nil {
		e.T.Fatalf("%s %s: %v", method, path, err)
	}
	return res
}

// TryOpenResponse is like OpenResponse, but for requests that may fail. It is safe for concurrent
// use.
func (e *Edge) TryOpenResponse(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, e.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+e.Key)
	addHeaderLines(req.Header, header)
	return e.Client.Do(req)
}

func addHeaderLines(h http.Header, lines []string) {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); value == "" {
			h.Del(name)
			continue
		}
		h.Set(name, value)
	}
}

// WantStatus checks the status of the response.
func (r *Reply) WantStatus(want int) *Reply {
	r.T.Helper()
	if r.Status != want {
		r.T.Fatalf("status %d, want %d\n%.2000s", r.Status, want, r.Body)
	}
	return r
}

// ChatRequest returns a chat request for the model "sim", with the canary in the prompt. more contains
// additional members. The member "sim" controls the simulator (see bench/sim).
func (e *Edge) ChatRequest(more string) string { return ChatBody("sim", more) }

// ChatBody is like Edge.ChatRequest, but for any model.
func ChatBody(model, more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"model":"` + model + `","messages":[{"role":"user","content":"` + Prompt + `"}]` + more + `}`
}

// WantWithin checks that a response took at most limit + TimingTolerance. The edge has then not
// waited for a longer, unrelated timeout.
func (r *Reply) WantWithin(limit time.Duration) {
	r.T.Helper()
	if r.Took > limit+TimingTolerance {
		r.T.Errorf("took %v, want at most %v", r.Took, limit)
	}
}
