package proxy

import (
	"bufio"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/translate/engineerror"
	"penstock/upstreams/http1/httptoken"
)

// FuzzRetryAfter: whatever an engine writes there, the wait is between nothing and what its own words say, and a whole minute
// at most once it has been bounded.
func FuzzRetryAfter(f *testing.F) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, s := range []string{"", "3", " 7 ", "-1", "0", "99999999999999999999", "1.5", "Sat, 21 Nov 2026 12:00:30 GMT", "Sat, 21 Nov 2020 12:00:30 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "soon", "+5", "0x10"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		d := retryAfter(value, now)
		if d < 0 {
			t.Fatalf("%q: %v", value, d)
		}
		at, err := http.ParseTime(strings.TrimSpace(string(value)))
		if isDate := err == nil; d > retryMax && (!isDate || d > max(at.Sub(now), 0)) {
			t.Fatalf("%q: %v", value, d)
		}
		e := fromStatus(503, &engineerror.Error{}, d).api
		if n := e.RetryAfterSeconds(); n < 1 || n > 60 {
			t.Fatalf("%q: Retry-After %d", value, n)
		}
	})
}

// TestRetryAfter: a wait that no number can hold is a long one, not none.
func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, "99999999999999999999": retryMax, "600": retryMax, "-99999999999999999999": 0, "1.5": 0, "soon": 0,
	} {
		if got := retryAfter([]byte(value), time.Now()); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

// FuzzRoute: a path leads somewhere only when it is, byte for byte, one of the table's, under its method; nothing is redirected,
// and nothing of the path comes back.
func FuzzRoute(f *testing.F) {
	e, _ := fuzzedEdge(f)
	handler := e.server.Handler
	public := []string{"/health", "/openapi.json", "/openapi.yaml", "/v1/models"}
	var generation []string
	for _, ep := range endpoints {
		generation = append(generation, ep.path)
	}
	for _, s := range append(slices.Concat(public, generation), "/", "/v1/models/a/b", "//health", "/health/", "/v1/%63hat/completions", "/v1/chat/../messages", "/V1/models", "/v1/models?x=y", "/health;x") {
		f.Add("GET", s)
		f.Add("POST", s)
		f.Add("post", s)
	}
	f.Fuzz(func(t *testing.T, method, target string) {
		if !httptoken.IsToken([]byte(method)) || !strings.HasPrefix(target, "/") || strings.ContainsAny(target, " \r\n\x00") {
			t.Skip()
		}
		var ctx fasthttp.RequestCtx
		ctx.Init(&fasthttp.Request{}, nil, nil)
		head := bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: e\r\n\r\n"))
		if ctx.Request.Header.Read(head) != nil {
			t.Skip() // answered before there is a route
		}
		handler(&ctx)
		path, _, _ := strings.Cut(target, "?")
		status, body := ctx.Response.StatusCode(), string(ctx.Response.Body())
		read := method == "GET" || method == "HEAD"
		known := slices.Contains(public, path) || strings.HasPrefix(path, "/v1/models/") && len(path) > len("/v1/models/") || path == "/" || slices.Contains(generation, path)
		switch {
		case status == 401 || status == 400: // the query, or a body that is not there
		case status >= 300 && status < 400:
			t.Fatalf("%s %q: %d", method, target, status)
		case !known && status != 404, known && status == 404 && !strings.HasPrefix(path, "/v1/models/") && !(path == "/" && method != "HEAD"):
			t.Fatalf("%s %q: %d %s", method, target, status, body)
		case status < 300 && !read:
			t.Fatalf("%s %q: %d", method, target, status)
		case slices.Contains(generation, path) && method != "POST" && status != 405:
			t.Fatalf("%s %q: %d", method, target, status)
		}
		if len(path) > 12 && !known && strings.Contains(body, path) {
			t.Fatalf("%s %q: the path comes back: %s", method, target, body)
		}
	})
}
