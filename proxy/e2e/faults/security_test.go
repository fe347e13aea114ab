package faults

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// These tests check the security rules that are not rows of the matrix: keys, credentials, the
// admin listener, TLS, limits, CORS, and fuzz targets. At its end, every test searches headers,
// logs and metrics for secrets. Row 64 of the matrix checks that images are not fetched.

// TestSecurity1_Keys checks the format of keys and where they are stored, and that a configuration
// with a plain key is rejected.
func TestSecurity1_Keys(t *testing.T) {
	t.Parallel()
	// A key has 256 bits and a checksum. Secret scanners recognize the format.
	form := regexp.MustCompile(`^` + regexp.QuoteMeta(auth.KeyPrefix) + `[0-9A-Za-z]{49}$`)
	seen := map[string]bool{}
	for range 5 {
		out, _, code := rig.RunProgram(t, "", "key", "new", "--name", "team", "--models", "sim")
		key, lines, _ := strings.Cut(out, "\n")
		if code != 0 || !form.MatchString(key) || seen[key] || strings.Contains(lines, key) || !strings.Contains(lines, auth.HashKey(key)) {
			t.Fatalf("exit code %d, printed\n%s", code, out)
		}
		seen[key] = true
		flipped := []byte(key)
		flipped[20] ^= 1
		if auth.HasValidChecksum(string(flipped)) {
			t.Errorf("%s has a good checksum", flipped)
		}
	}
	dir := t.TempDir()
	check := func(keys string) (string, int) {
		path := filepath.Join(dir, "penstock.yaml")
		text := "listen: 127.0.0.1:0\nkeys: [{ id: a, hash: " + keys + " }]\nupstreams: [{ name: up, url: http://127.0.0.1:1 }]\nmodels: [{ id: m, deployments: [{ upstream: up }] }]\n"
		noError(t, os.WriteFile(path, []byte(text), 0o600))
		out, errs, code := rig.RunProgram(t, "", "check", path)
		return out + errs, code
	}
	for key := range seen {
		if said, code := check(`"` + key + `"`); code != 1 || strings.Contains(said, key) {
			t.Errorf("a plain key: exit code %d, and it says\n%s", code, said)
		}
		if said, code := check(`"` + auth.HashKey(key) + `"`); code != 0 {
			t.Errorf("its hash: exit code %d\n%s", code, said)
		}
	}
}

// TestSecurity1_RefusedKeysLookAlike checks that unknown, expired and inactive keys receive the
// same response, except for the request id and the date.
func TestSecurity1_RefusedKeysLookAlike(t *testing.T) {
	t.Parallel()
	expired, expiredHash, err := auth.NewKey()
	noError(t, err)
	inactive, inactiveHash, err := auth.NewKey()
	noError(t, err)
	stranger, _, err := auth.NewKey()
	noError(t, err)
	e := start(t, rig.Setup{Keys: `- { id: expired, hash: "` + expiredHash + `", expires: 2020-01-01T00:00:00Z }
- { id: inactive, hash: "` + inactiveHash + `", active: false }`})
	for _, w := range rig.UnstreamedRequestTypes {
		said := map[string]bool{}
		for _, key := range []string{expired, inactive, stranger, "sk-something", "x"} {
			r := e.Post(w.Path, w.RequestBody("sim", rig.Prompt, ""), "Authorization: Bearer "+key)
			r.WantRefused(w, rig.Refusal{Status: 401, Kind: "authentication_error", Code: "invalid_api_key", After: ""})
			id := r.Header.Get("X-Request-Id")
			for _, own := range []string{"X-Request-Id", "Request-Id", "Date"} {
				r.Header.Del(own)
			}
			var all strings.Builder
			noError(t, r.Header.Write(&all))
			said[strings.ReplaceAll(all.String()+r.Body, id, "ID")] = true
		}
		if len(said) != 1 {
			t.Errorf("%s: the answers differ: %v", w, said)
		}
	}
}

// TestSecurity5_Admin checks that the admin listener rejects requests from other web pages and, off
// loopback, requests without the token. It also checks that the listener serves only exact paths.
func TestSecurity5_Admin(t *testing.T) {
	t.Parallel()
	const token = "an-admin-token-of-the-tests"
	e := start(t, rig.Setup{Top: "", Untidy: true, Cold: true, Config: `
timeouts: { linger: 0s }
keys: [{ id: a, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}", engine: sim }]
models: [{ id: sim, deployments: [{ upstream: up-0 }] }]
`})
	ask := func(method, path string, header ...string) int {
		t.Helper()
		req, err := http.NewRequest(method, e.Admin+path, http.NoBody)
		noError(t, err)
		for i := 0; i < len(header); i += 2 {
			if req.Header.Set(header[i], header[i+1]); header[i] == "Host" {
				req.Host = header[i+1]
			}
		}
		res, err := e.Client.Do(req)
		noError(t, err)
		res.Body.Close()
		return res.StatusCode
	}
	for _, path := range []string{"/metrics", "/status", "/-/ready"} {
		if got := ask("GET", path); got != 200 {
			t.Errorf("GET %s = %d, want 200", path, got)
		}
		for _, lured := range [][]string{{"Origin", "http://evil.example"}, {"Origin", "null"}, {"Host", "evil.example"}, {"Host", "127.0.0.1.evil.example"}, {"Host", "evil.example:80"}} {
			if got := ask("GET", path, lured...); got != 403 {
				t.Errorf("GET %s with %v = %d, want 403", path, lured, got)
			}
		}
	}
	if got := ask("POST", "/-/reload", "Origin", "http://evil.example"); got != 403 {
		t.Errorf("a page reloads: %d", got)
	}
	if got := ask("GET", "/status", "Origin", "vscode-webview://abc"); got != 403 {
		t.Errorf("an editor's page: %d", got)
	}
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	if got := ask("GET", "/", link...); got != 200 {
		t.Errorf("a link that is followed: %d", got)
	}
	if got := ask("GET", "/status/events", link...); got != 403 {
		t.Errorf("a link to what never ends: %d", got)
	}
	for range 20 { // more pages than may be open; an open page receives updates forever
		if got := ask("GET", "/status/events", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"); got != 403 {
			t.Errorf("another page's image: %d", got)
		}
	}

	// Heads are parsed as strictly as on the public listener.
	for name, head := range map[string]string{
		"folded":     "GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\r\n b\r\n\r\n",
		"bare lines": "GET /status HTTP/1.1\nHost: 127.0.0.1\n\n",
		"no host":    "GET /status HTTP/1.1\r\n\r\n",
		"two hosts":  "GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: localhost\r\n\r\n",
		"TLS":        "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03",
		"blank":      "GET /status HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(e.Admin, "http://"))
		noError(t, err)
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(rig.WaitTimeout))
		c := rig.NewRawConn(t, conn)
		_ = c.Send(head)
		if r := c.ReadReply("GET"); r.Status != 400 {
			t.Errorf("%s: status = %d, want 400: %s", name, r.Status, r.Body)
		}
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/v1/models", "/metrics/", "/Metrics", "/-/reload/", "/config", "/../status"} {
		if got := ask("GET", path); got != 404 {
			t.Errorf("GET %s = %d, want 404", path, got)
		}
	}
	if got := ask("GET", "/-/reload"); got != 405 {
		t.Errorf("GET reloads: %d", got)
	}

	// Off loopback, a token is required.
	dir := t.TempDir()
	path := filepath.Join(dir, "penstock.yaml")
	open := "listen: 127.0.0.1:0\nadmin: { listen: 0.0.0.0:0 }\nkeys: [{ id: a, hash: \"" + auth.HashKey("x") + "\" }]\nupstreams: [{ name: up, url: http://127.0.0.1:1 }]\nmodels: [{ id: m, deployments: [{ upstream: up }] }]\n"
	noError(t, os.WriteFile(path, []byte(open), 0o600))
	if out, errs, code := rig.RunProgram(t, "", "check", path); code != 1 || !strings.Contains(out+errs, "admin.token") {
		t.Errorf("an open admin listener: exit code %d\n%s%s", code, out, errs)
	}
	noError(t, os.WriteFile(path, []byte(strings.Replace(open, "0.0.0.0:0 }", "0.0.0.0:0, token: "+token+" }", 1)), 0o600))
	p := rig.StartProcess(t, "serve", "--config", path)
	e.Admin = p.WaitOutput(`\(admin: (http://[^)]+)\)`)[1]
	for _, c := range []struct {
		header []string
		want   int
	}{
		{nil, 401},
		{[]string{"Authorization", "Bearer " + token + "x"}, 401},
		{[]string{"Authorization", "Bearer " + token[:len(token)-1]}, 401},
		{[]string{"Authorization", "Basic " + token}, 401},
		{[]string{"Authorization", "Bearer " + token}, 200},
	} {
		if got := ask("GET", "/metrics", c.header...); got != c.want {
			t.Errorf("%v: %d, want %d", c.header, got, c.want)
		}
	}
	if got := ask("GET", "/-/ready"); got != 200 {
		t.Errorf("a balancer without the token: %d", got)
	}
	braked := 0
	for i := range 60 {
		switch got := ask("GET", "/metrics", "Authorization", "Bearer "+token+strconv.Itoa(i)); got {
		case 401:
		case 429:
			braked++
		default:
			t.Fatalf("status of a guess = %d, want 401 or 429", got)
		}
	}
	if braked < 30 {
		t.Errorf("%d of 60 guesses were refused unheard", braked)
	}
	// 200 if the client has just regained an attempt.
	if got := ask("GET", "/metrics", "Authorization", "Bearer "+token); got != 429 && got != 200 {
		t.Errorf("the token among guesses: %d", got)
	}
	rig.WaitFor(t, rig.WaitTimeout, "the log tells of the guesses", func() bool { return strings.Contains(p.Err.String(), "repeated wrong admin tokens") })
	if said := p.Err.String() + p.Out.String(); strings.Contains(said, token) || strings.Count(said, "repeated wrong admin tokens") != 1 {
		t.Errorf("the token is in the log, or guesses are not, once:\n%s", said)
	}
}

// TestSecurity7_TLS checks that the TLS version is at least 1.2, that the protocol is HTTP/1.1, and
// that the handshake counts against the header timeout. The rules for heads must also apply within
// TLS.
func TestSecurity7_TLS(t *testing.T) {
	t.Parallel()
	cert, key := pemPair(t, "edge", time.Now().Add(time.Hour))
	e := start(t, rig.Setup{Top: "tls: { cert: edge.pem, key: edge.key }", Files: map[string]string{"edge.pem": cert, "edge.key": key}, Timeouts: "client_header: 3s"})
	e.Client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	for name, c := range map[string]*tls.Config{
		"TLS 1.0":     {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10},
		"TLS 1.1":     {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
		"HTTP/2 only": {NextProtos: []string{"h2"}},
	} {
		c.InsecureSkipVerify = true
		if conn, err := tls.Dial("tcp", e.Addr, c); err == nil {
			conn.Close()
			t.Errorf("%s is accepted", name)
		}
	}
	for name, text := range map[string]string{"nothing": "", "half a hello": "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", "plain HTTP": e.RequestHead("GET", "/health")} {
		c := e.Dial()
		_ = c.Send(text)
		if rest, ok := c.WaitClosed(rig.WaitTimeout); !ok || strings.Contains(rest, "200 OK") {
			t.Errorf("%s: closed %v after %.100q, want the connection closed without 200", name, ok, rest)
		}
	}
	for _, text := range []string{e.RequestHead("GET", "/health"), e.RequestBytes(rig.Chat.Path, e.ChatRequest("")), e.RequestHead("OPTIONS", "/")} {
		c := e.Dial()
		_ = c.Send(text)
		c.ReadReply("GET").WantRefused(rig.Chat, badRequest)
		if _, ok := c.WaitClosed(rig.WaitTimeout); !ok {
			t.Error("a connection that spoke plain HTTP stays open")
		}
	}
	inside := func(text string) *rig.RawConn {
		t.Helper()
		conn, err := tls.Dial("tcp", e.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
		noError(t, err)
		if p := conn.ConnectionState().NegotiatedProtocol; p != "http/1.1" {
			t.Errorf("protocol = %q, want http/1.1", p)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(rig.WaitTimeout))
		c := rig.NewRawConn(t, conn)
		_ = c.Send(text)
		return c
	}
	for range 2 {
		c := inside("")
		for range 3 {
			_ = c.Send(e.RequestBytes(rig.Chat.Path, strings.Replace(e.ChatRequest(""), ",", ",\n", 1)))
			c.ReadReply("POST").WantStatus(200)
		}
	}
	begun := time.Now()
	inside(strings.ReplaceAll(e.RequestHead("GET", "/health"), "\r\n", "\n")).ReadReply("GET").WantRefused(rig.Chat, badRequest)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("a bare LF inside TLS took %v", took)
	}
	inside(e.RequestHead("POST", rig.Messages.Path, "Content-Type: application/json", "Content-Length: 10", "X Y: z")+"{}").ReadReply("POST").WantRefused(rig.Messages, badRequest)
}

// TestSecurity7_InsecureIsReported checks that the edge, when it starts, logs which engine
// certificates it does not verify.
func TestSecurity7_InsecureIsReported(t *testing.T) {
	t.Parallel()
	for insecure, want := range map[string]bool{"true": true, "false": false} {
		e := start(t, rig.Setup{
			Cold: true, Untidy: true,
			Upstreams: "- { name: other, url: https://127.0.0.1:1, engine: sim, tls: { insecure: " + insecure + " } }",
			Models:    "- { id: other, deployments: [{ upstream: other, served: sim }] }",
		})
		told := func() bool { return strings.Contains(e.Log.String(), "certificate is not verified") }
		if want {
			rig.WaitFor(t, rig.WaitTimeout, "an engine that is not verified is reported", told)
		} else if told() {
			t.Errorf("told of with insecure: %s\n%s", insecure, e.Log)
		}
	}
}

// TestSecurity8_AllLimited checks that every limit has a default, and that no limit can be disabled
// with zero or a negative number. If first_event or idle is zero, the limit depends on the engine's
// progress, up to a maximum: see TestSilenceHasACeiling in package attempt.
func TestSecurity8_AllLimited(t *testing.T) {
	t.Parallel()
	example, _, code := rig.RunProgram(t, "", "check", "--example")
	if code != 0 {
		t.Fatal(example)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "penstock.yaml")
	for _, line := range []string{
		"limits: { request_body: 0 }", "limits: { upload_body: 0 }", "limits: { body_memory: 0% }", "limits: { connections: 0 }", "limits: { header: 0 }", "limits: { connections: -1 }",
		"timeouts: { connect: 0s }", "timeouts: { answer: 0s }", "timeouts: { client_header: 0s }", "timeouts: { client_body: 0s }", "timeouts: { client_idle: 0s }", "timeouts: { write: 0s }",
		"timeouts: { first_event: -1s }", "timeouts: { idle: -1s }", "timeouts: { answer: -1s }", "timeouts: { total: -1s }",
	} {
		text := line + "\nkeys: [{ id: a, hash: \"" + auth.HashKey("x") + "\" }]\nupstreams: [{ name: up, url: http://127.0.0.1:1 }]\nmodels: [{ id: m, deployments: [{ upstream: up }] }]\n"
		noError(t, os.WriteFile(path, []byte(text), 0o600))
		if out, errs, code := rig.RunProgram(t, "", "check", path); code != 1 || !strings.Contains(out+errs, "penstock.yaml:1:") {
			t.Errorf("%s: exit code %d\n%s%s", line, code, out, errs)
		}
	}
}

// TestFault93_KeylessPages checks that an edge without keys serves programs on the same machine,
// but not web pages in a browser on that machine.
func TestFault93_KeylessPages(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Config: `
auth: none
timeouts: { linger: 0s }
cors: { origins: ["https://chat.example.com"] }
upstreams: [{ name: up-0, url: "{{up-0}}", engine: sim }]
models: [{ id: sim, deployments: [{ upstream: up-0 }] }]
`})
	body := rig.Chat.RequestBody("sim", rig.Prompt, "")
	for _, c := range []struct {
		header []string
		want   int
	}{
		{[]string{"Host: " + e.Addr, "Content-Type: application/json"}, 200},
		{[]string{"Host: localhost"}, 200},
		{[]string{"Host: " + e.Addr, "Origin: https://chat.example.com"}, 200},
		{[]string{"Host: " + e.Addr, "Origin: https://evil.example"}, 403},
		{[]string{"Host: evil.example", "Origin: http://evil.example"}, 403},
		{[]string{"Host: " + e.Addr, "Sec-Fetch-Site: cross-site"}, 403},
	} {
		conn := e.Dial()
		_ = conn.Send("POST " + rig.Chat.Path + " HTTP/1.1\r\n" + strings.Join(c.header, "\r\n") + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
		r := conn.ReadReply("POST")
		if r.Status != c.want {
			t.Errorf("header %q: status = %d, want %d: %s", c.header, r.Status, c.want, r.Body)
		}
		if c.want == 403 {
			r.WantRefused(rig.Chat, rig.Refusal{Status: 403, Kind: "permission_error", Code: "operation_not_allowed", After: ""})
		}
	}
	if n := e.Engines[0].Stats().Requests; n != 3 {
		t.Errorf("the engine has %d requests", n)
	}
}

// TestFault93_CrossOrigin covers row 93 and rule 10. A page may read a response only if the page's
// origin is listed. Access-Control-Allow-Origin must then name this origin rather than *, unless *
// itself is listed. Credentials must never be allowed.
func TestFault93_CrossOrigin(t *testing.T) {
	t.Parallel()
	const evil, good = "https://evil.example", "https://app.example"
	preflight := func(e *edge, origin, path string) *rig.Reply {
		return e.Do("OPTIONS", path, "", "Authorization: ", "Origin: "+origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type,openai-project,x-stainless-os,x-unknown")
	}
	silent := func(r *rig.Reply) {
		t.Helper()
		for name := range r.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("header %s: %s; want no such header", name, r.Header.Get(name))
			}
		}
	}
	closed := start(t, rig.Setup{})
	open := start(t, rig.Setup{Top: "cors: { origins: [" + good + "] }"})
	for _, w := range rig.UnstreamedRequestTypes {
		for _, e := range []*edge{closed, open} {
			silent(preflight(e, evil, w.Path))
			silent(e.Post(w.Path, w.RequestBody("sim", rig.Prompt, ""), "Origin: "+evil))
		}
		silent(preflight(closed, good, w.Path))
		for _, near := range []string{good + ".evil.example", "http://app.example", good + ":8443", "null", strings.ToUpper(good) + "/"} {
			silent(preflight(open, near, w.Path))
		}
		for _, r := range []*rig.Reply{preflight(open, good, w.Path), open.Post(w.Path, w.RequestBody("sim", rig.Prompt, ""), "Origin: "+good)} {
			if got := r.Header.Get("Access-Control-Allow-Origin"); got != good || r.Status >= 300 {
				t.Errorf("%s: status = %d, allowed origin %q; want success and %q", w, r.Status, got, good)
			}
			if r.Header.Get("Access-Control-Allow-Credentials") != "" || !strings.Contains(r.Header.Get("Vary"), "Origin") {
				t.Errorf("%s: header = %v, want no credentials and Vary: Origin", w, r.Header)
			}
		}
	}
	if got := preflight(open, good, rig.Chat.Path).Header.Get("Access-Control-Allow-Headers"); got != "authorization, content-type, openai-project, x-stainless-os" {
		t.Errorf("headers of an SDK: %q are allowed", got)
	}
	star := start(t, rig.Setup{Top: `cors: { origins: ["*"] }`})
	for _, r := range []*rig.Reply{preflight(star, evil, rig.Chat.Path), star.Post(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, ""), "Origin: "+evil)} {
		if got := r.Header.Get("Access-Control-Allow-Origin"); got != "*" || r.Header.Get("Access-Control-Allow-Credentials") != "" || r.Status >= 300 {
			t.Errorf("for everybody: %d %v", r.Status, r.Header)
		}
	}
}

// TestSecurity12_FuzzTargets checks that all code that must be fuzzed has a fuzz target with a seed
// corpus.
func TestSecurity12_FuzzTargets(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	for _, target := range []string{
		"proxy/access/auth FuzzQuery", "proxy/access/auth FuzzAuthorization", "translate/jsonx FuzzParse", "translate/jsonx FuzzFields", "translate/chat FuzzRequestDecode", "translate/chat/answer FuzzCompletion",
		"translate/chat/answer FuzzStream", "translate/messages FuzzDecode", "translate/messages FuzzStream", "translate/responses FuzzDecode", "translate/responses FuzzStream", "translate/forward FuzzRequest",
		"translate/forward FuzzStream", "translate/sse FuzzReader", "proxy/request/multipart FuzzReader", "upstreams/http1 FuzzReply", "upstreams/engine FuzzScanMetrics", "config FuzzParse", "proxy/request/failure FuzzRetryAfter", "proxy FuzzRoute", "proxy FuzzFraming",
		"proxy/front/listen FuzzFraming",
	} {
		dir, name, _ := strings.Cut(target, " ")
		files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		noError(t, err)
		found := ""
		for _, file := range files {
			text, err := os.ReadFile(file)
			noError(t, err)
			if _, rest, ok := strings.Cut(string(text), "func "+name+"("); ok {
				found, _, _ = strings.Cut(rest, "\nfunc ")
			}
		}
		seeds, _ := filepath.Glob(filepath.Join(root, dir, "testdata", "fuzz", name, "*"))
		if found == "" || !strings.Contains(found, ".Add(") && len(seeds) == 0 {
			t.Errorf("%s: there is none, or it has no seeds", target)
		}
	}
}

// TestSecurity13_ThreatModel checks that the README says what the program trusts.
func TestSecurity13_ThreatModel(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	noError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## Security\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, word := range []string{"untrusted", "engines", "configuration"} {
		if !ok || !strings.Contains(strings.ToLower(section), word) {
			t.Errorf("the Security section does not speak of %q", word)
		}
	}
}
