package proxy

import (
	"bufio"
	"slices"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"penstock/proxy/request/endpoint"
	"penstock/upstreams/http1/httptoken"
)

// FuzzRoute checks that a path is served only if it equals a path in the table byte for byte. It
// also checks that the edge never redirects, and that responses do not repeat text from the path.
func FuzzRoute(f *testing.F) {
	e, _ := fuzzedEdge(f)
	handler := e.server.Handler
	public := []string{"/health", "/openapi.json", "/openapi.yaml", "/v1/models"}
	var generation []string
	for _, ep := range endpoint.AllEndpoints {
		generation = append(generation, ep.Path)
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
			t.Skip() // the edge answers these requests before routing
		}
		handler(&ctx)
		path, _, _ := strings.Cut(target, "?")
		status, body := ctx.Response.StatusCode(), string(ctx.Response.Body())
		read := method == "GET" || method == "HEAD"
		known := slices.Contains(public, path) || strings.HasPrefix(path, "/v1/models/") && len(path) > len("/v1/models/") || path == "/" || slices.Contains(generation, path)
		switch {
		case status == 401 || status == 400: // because of the query or a missing body
		case status >= 300 && status < 400:
			t.Fatalf("%s %q = %d, want no redirect", method, target, status)
		case !known && status != 404, known && status == 404 && !strings.HasPrefix(path, "/v1/models/") && !(path == "/" && method != "HEAD"):
			t.Fatalf("%s %q = %d, want 404 only for an unknown path: %s", method, target, status, body)
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
