package faults

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"penstock/proxy/e2e/rig"
)

// These are the cases of two public suites for HTTP/1.1 servers: all 33 cases of h1spec, and the
// cases of Http11Probe that require a rejection and are not covered by TestFault44_Framing. Both
// suites expect an echo of each POST at "/". These tests send a chat completion instead of such a
// POST.

// TestPublic_H1SpecFragments checks that the edge waits for the remaining bytes after each fragment
// of a request.
func TestPublic_H1SpecFragments(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	const request = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for _, begin := range []string{
		"G", "GET ", "GET /health", "GET /health ", "GET /health HTTP", "GET /health HTTP/1.1",
		"GET /health HTTP/1.1\r", "GET /health HTTP/1.1\r\n", "GET /health HTTP/1.1\r\nHos",
		"GET /health HTTP/1.1\r\nHost:", "GET /health HTTP/1.1\r\nHost: ",
		"GET /health HTTP/1.1\r\nHost: localhost", "GET /health HTTP/1.1\r\nHost: localhost\r",
		"GET /health HTTP/1.1\r\nHost: localhost\r\n", "GET /health HTTP/1.1\r\nHost: localhost\r\n\r",
	} {
		t.Run(begin, func(t *testing.T) {
			t.Parallel()
			c := e.Dial()
			c.T = t
			_ = c.Send(begin)
			_ = c.Send(strings.TrimPrefix(request, begin)) // an early response would be an error
			c.ReadReply("GET").WantStatus(200)
		})
	}
}

// TestPublic_H1SpecAnswers checks the statuses that h1spec demands.
func TestPublic_H1SpecAnswers(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	body := rig.Chat.RequestBody("sim", rig.Prompt, "")
	n := strconv.Itoa(len(body))
	chunks := strconv.FormatInt(int64(len(body)), 16) + "\r\n" + body + "\r\n0\r\n\r\n"
	post := func(header ...string) string {
		return e.RequestHead("POST", rig.Chat.Path, append([]string{"Content-Type: application/json"}, header...)...)
	}
	for name, c := range map[string]struct {
		request string
		want    []int
	}{
		"no version":              {"GET / \r\n\r\n", []int{400}},
		"Expect":                  {"GET / HTTP/1.1\r\nHost: example.com\r\nExpect: 100-continue\r\n\r\n", []int{200}},
		"GET":                     {"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", []int{200}},
		"GET, odd header":         {"GET / HTTP/1.1\r\nhoSt:\texample.com\r\nempty:\r\n\r\n", []int{200}},
		"bad name":                {"GET / HTTP/1.1\r\nHost: example.com\r\nX-Invalid[]: test\r\n\r\n", []int{400}},
		"no Host":                 {"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", []int{400}},
		"two Hosts":               {"GET / HTTP/1.1\r\nHost: example.com\r\nHost: example.org\r\n\r\n", []int{400}},
		"length below int64":      {"GET / HTTP/1.1\r\nHost: example.com\r\nContent-Length: -123456789123456789123456789\r\n\r\n", []int{400}},
		"negative length":         {"GET / HTTP/1.1\r\nHost: example.com\r\nContent-Length: -1234\r\n\r\n", []int{400}},
		"length is a word":        {"GET / HTTP/1.1\r\nHost: example.com\r\nContent-Length: abc\r\n\r\n", []int{400}},
		"empty value":             {"GET / HTTP/1.1\r\nHost: example.com\r\nX-Empty-Header: \r\n\r\n", []int{200}},
		"control character":       {"GET / HTTP/1.1\r\nHost: example.com\r\nX-Bad-Control-Char: test\x07\r\n\r\n", []int{400}},
		"HTTP/9.9":                {"GET / HTTP/9.9\r\nHost: example.com\r\n\r\n", []int{505}},
		"text before the request": {"Extra lineGET / HTTP/1.1\r\nHost: example.com\r\n\r\n", []int{400}},
		"bare CR":                 {"GET / HTTP/1.1\r\nHost: example.com\r\n\rSome-Header: Test\r\n\r\n", []int{400}},
		"POST":                    {post("Content-Length: "+n) + body, []int{200}},
		"POST in chunks":          {post("Transfer-Encoding: chunked") + chunks, []int{200}},
		"two framings":            {post("content-LengtH: "+n, "TransFer-Encoding: chunked") + chunks, []int{400}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantStatuses(t, e, c.request, c.want)
		})
	}
}

// TestPublic_Http11Probe checks that heads get the statuses that Http11Probe lists.
func TestPublic_Http11Probe(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	const host = "Host: localhost\r\n"
	refused := []int{400}
	for name, c := range map[string]struct {
		request string
		want    []int
	}{
		"bare LF in the request line":    {"GET / HTTP/1.1\n" + host + "\r\n", refused},
		"bare LF in the header":          {"GET / HTTP/1.1\r\nHost: localhost\nX-Test: value\r\n\r\n", refused},
		"folded line":                    {"GET / HTTP/1.1\r\n" + host + "X-Test: value\r\n continued\r\n\r\n", refused},
		"blank before the colon":         {"GET / HTTP/1.1\r\n" + host + "X-Test : value\r\n\r\n", refused},
		"two blanks in the request line": {"GET  / HTTP/1.1\r\n" + host + "\r\n", refused},
		"tab in the request line":        {"GET\t/ HTTP/1.1\r\n" + host + "\r\n", refused},
		"no name":                        {"GET / HTTP/1.1\r\n" + host + ": empty-name\r\n\r\n", refused},
		"CR alone":                       {"GET / HTTP/1.1\rHost: localhost\r\n\r\n", refused},
		"no target":                      {"GET HTTP/1.1\r\n" + host + "\r\n", refused},
		"fragment":                       {"GET /path#frag HTTP/1.1\r\n" + host + "\r\n", refused},
		"HTTP/0.9":                       {"GET /\r\n", refused},
		"HTTP/1.2":                       {"GET / HTTP/1.2\r\n" + host + "\r\n", []int{505}},
		"no colon":                       {"GET / HTTP/1.1\r\n" + host + "NoColonHere\r\n\r\n", refused},
		"the same Host twice":            {"GET / HTTP/1.1\r\n" + host + host + "\r\n", refused},
		"blank line of a space":          {"GET / HTTP/1.1\r\n \r\n" + host + "\r\n", refused},
		"user in Host":                   {"GET / HTTP/1.1\r\nHost: user@localhost\r\n\r\n", refused},
		"path in Host":                   {"GET / HTTP/1.1\r\nHost: localhost/path\r\n\r\n", refused},
		"GET *":                          {"GET * HTTP/1.1\r\n" + host + "\r\n", refused},
		"OPTIONS *":                      {"OPTIONS * HTTP/1.1\r\n" + host + "\r\n", []int{204}},
		"empty lines before":             {"\r\n\r\nGET / HTTP/1.1\r\n" + host + "\r\n", []int{200}},
		"absolute form":                  {"GET http://localhost/ HTTP/1.1\r\n" + host + "\r\n", []int{200}},
		"method in lower case":           {"get / HTTP/1.1\r\n" + host + "\r\n", []int{405}},
		"unknown method":                 {"FOOBAR / HTTP/1.1\r\n" + host + "\r\n", []int{405}},
		"CONNECT":                        {"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", []int{405}},
		"TRACE":                          {"TRACE / HTTP/1.1\r\n" + host + "Authorization: Bearer none\r\n\r\n", []int{405}},
		"unknown expectation":            {"GET / HTTP/1.1\r\n" + host + "Expect: 200-ok\r\n\r\n", []int{417}},
		"unknown upgrade":                {"GET / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: made-up/1.0\r\n\r\n", []int{200}},
		"upgrade without Connection":     {"GET / HTTP/1.1\r\n" + host + "Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n", []int{200}},
		"upgrade by POST":                {"POST / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n", []int{405}},
		"NUL in a value":                 {"GET / HTTP/1.1\r\n" + host + "X-Test: val\x00ue\r\n\r\n", refused},
		"bytes above ASCII in a name":    {"GET / HTTP/1.1\r\n" + host + "X-T\xc3\xa9st: value\r\n\r\n", refused},
		"overlong UTF-8 in the target":   {"GET /\xc0\xaf HTTP/1.1\r\n" + host + "\r\n", []int{400, 404}},
		"garbage":                        {"\x00\x01\x02\x03\xff\xfe\xfd\r\n\r\n", refused},
		"blanks alone":                   {"   \r\n\r\n", refused},
		"preface of HTTP/2":              {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{400, 505}},
		"method of 100 KB":               {strings.Repeat("A", 100_000) + " / HTTP/1.1\r\n" + host + "\r\n", []int{400, 431}},
		"target of 100 KB":               {"GET /" + strings.Repeat("A", 100_000) + " HTTP/1.1\r\n" + host + "\r\n", []int{414, 431}},
		"name of 100 KB":                 {"GET / HTTP/1.1\r\n" + host + strings.Repeat("A", 100_000) + ": val\r\n\r\n", []int{431}},
		"value of 100 KB":                {"GET / HTTP/1.1\r\n" + host + "X-Big: " + strings.Repeat("A", 100_000) + "\r\n\r\n", []int{431}},
		"10,000 header lines":            {"GET / HTTP/1.1\r\n" + host + strings.Repeat("X-H: value\r\n", 10_000) + "\r\n", []int{431}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantStatuses(t, e, c.request, c.want)
		})
	}
}

// wantStatuses sends a request and checks the status of its response. If the edge rejects the head,
// it must close the connection.
func wantStatuses(t *testing.T, e *edge, request string, want []int) {
	t.Helper()
	c := e.Dial()
	c.T = t
	_ = c.Send(request)
	method, _, _ := strings.Cut(strings.TrimLeft(request, "\r\n"), " ")
	r := c.ReadReply(method)
	if !slices.Contains(want, r.Status) {
		t.Fatalf("status %d (%s), want one of %v", r.Status, r.Body, want)
	}
	if s := r.Status; s == 400 || s == 414 || s == 431 || s == 505 {
		if rest, ok := c.WaitClosed(rig.WaitTimeout); !ok || rest != "" {
			t.Errorf("closed: %v, and %.100q followed", ok, rest)
		}
	}
}
