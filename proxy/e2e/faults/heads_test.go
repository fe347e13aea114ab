package faults

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests cover rows 46 to 51: malformed heads, hosts, methods, versions and paths.

// wantSingleReply sends text and returns the response. The edge must send only one response and then close the
// connection.
func (e *edge) wantSingleReply(t *testing.T, text string) *rig.Reply {
	t.Helper()
	c := e.Dial()
	_ = c.Send(text)
	r, err := c.TryReadReply("POST")
	if err != nil {
		return nil // the connection was closed without an answer
	}
	rest, closed := c.WaitClosed(rig.WaitTimeout)
	if !closed {
		t.Errorf("status %d, and the connection stays open", r.Status)
	}
	if rest != "" {
		t.Errorf("something follows the answer: %.200q", rest)
	}
	r.T = t
	return r
}

func TestFault46_MalformedHeads(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Timeouts: "client_header: 1s, client_idle: 1s"})
	body := e.ChatRequest("")
	auth := "Authorization: Bearer " + e.Key
	length := "Content-Length: " + strconv.Itoa(len(body))
	build := func(first string, lines ...string) string {
		return first + "\r\n" + strings.Join(append(lines, auth, length, "Content-Type: application/json"), "\r\n") + "\r\n\r\n" + body
	}
	const line = "POST /v1/chat/completions HTTP/1.1"
	for name, text := range map[string]string{
		"no Host":           build(line),
		"two Hosts":         build(line, "Host: a", "Host: b"),
		"two equal Hosts":   build(line, "Host: a", "host: a"),
		"NUL in value":      build(line, "Host: a", "X: a\x00b"),
		"NUL in name":       build(line, "Host: a", "X\x00: a"),
		"bare CR":           build(line, "Host: a", "X: a\rb"),
		"bare CR as end":    build(line, "Host: a", "X: a\rY: b"),
		"folding":           build(line, "Host: a", "X: a\r\n b"),
		"folding with tab":  build(line, "Host: a", "X: a\r\n\tb"),
		"no colon":          build(line, "Host: a", "nocolon"),
		"empty name":        build(line, "Host: a", ": value"),
		"blank in name":     build(line, "Host: a", "X Y: a"),
		"blank before ':'":  build(line, "Host: a", "X : a"),
		"blank first":       build(line, " Host: a", "Host: a"),
		"DEL in value":      build(line, "Host: a", "X: a\x7fb"),
		"escape in value":   build(line, "Host: a", "X: \x1b[31m"),
		"8-bit in name":     build(line, "Host: a", "X\xff: a"),
		"two blanks":        build("POST  /v1/chat/completions HTTP/1.1", "Host: a"),
		"tab":               build("POST\t/v1/chat/completions\tHTTP/1.1", "Host: a"),
		"no version":        build("POST /v1/chat/completions", "Host: a"),
		"blank at the end":  build(line+" ", "Host: a"),
		"control in target": build("POST /v1/chat/\x01completions HTTP/1.1", "Host: a"),
		"NUL in target":     build("POST /v1/chat/completions\x00 HTTP/1.1", "Host: a"),
		"only LF":           strings.ReplaceAll(build(line, "Host: a", "X: a\x00"), "\r\n", "\n"),
		"rubbish":           "\x00\x01\x02\x03\r\n\r\n",
		"empty lines":       strings.Repeat("\r\n", 100) + "x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r := e.wantSingleReply(t, text); r != nil && r.Status != 400 && r.Status != 505 && r.Status != 404 {
				t.Errorf("status = %d, want 400, 404 or 505: %s", r.Status, r.Body)
			}
		})
	}
	t.Cleanup(func() { e.WantServedAtMost(t, 0) })
}

// TestFault46_BareLineEnds checks that a head whose lines end with only LF or CR is rejected before
// the header timeout expires. A body may contain such line ends.
func TestFault46_BareLineEnds(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	whole := e.RequestBytes(rig.Chat.Path, e.ChatRequest(""))
	get := "GET /health HTTP/1.1\r\nHost: edge\r\n\r\n"
	for name, text := range map[string]string{
		"LF":                     strings.ReplaceAll(get, "\r\n", "\n"),
		"LF in a POST":           strings.ReplaceAll(whole, "\r\n", "\n"),
		"one LF":                 strings.Replace(get, "edge\r\n", "edge\n", 1),
		"LF for the blank line":  strings.TrimSuffix(get, "\r\n") + "\n",
		"LF after the first":     strings.Replace(get, "\r\n", "\n", 1),
		"CR":                     strings.ReplaceAll(get, "\r\n", "\r"),
		"LF CR":                  strings.ReplaceAll(get, "\r\n", "\n\r"),
		"LF behind a good one":   get + strings.ReplaceAll(get, "\r\n", "\n"),
		"LF and a hidden header": strings.Replace(whole, "Host: edge\r\n", "Host: edge\r\nX: a\nTransfer-Encoding: chunked\r\n", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := rig.StartWatch()
			c := e.Dial()
			c.T = t
			_ = c.Send(text)
			r := c.ReadReply("GET")
			if name == "LF behind a good one" {
				r.WantStatus(200)
				r = c.ReadReply("GET")
			}
			r.WantRefused(rig.Chat, badRequest)
			if rest, ok := c.WaitClosed(rig.WaitTimeout); !ok || rest != "" {
				t.Errorf("not closed, or more came: %q", rest)
			}
			if took := begun.Elapsed(); took > 8*time.Second+begun.MachineDelay() { // the timeout is 10 s
				t.Errorf("it took %v", took)
			}
		})
	}
	t.Run("in a body", func(t *testing.T) {
		t.Parallel()
		body := strings.Replace(e.ChatRequest(""), ",", ",\n\r\n\n\r\r\n\r\n", 1)
		c := e.Dial()
		c.T = t
		for range 3 {
			_ = c.Send(e.RequestBytes(rig.Chat.Path, body))
			c.ReadReply("POST").WantStatus(200)
		}
		_ = c.Send(strings.Repeat(e.RequestBytes(rig.Chat.Path, body), 3))
		for range 3 {
			c.ReadReply("POST").WantStatus(200)
		}
	})
	t.Cleanup(func() { e.WantServedAtMost(t, 6) })
}

func TestFault47_HostAttacks(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Engines: []sim.Options{{Record: true}}})
	for _, host := range []string{"x/#@evil", "evil.example/path", "a b", "a@b", "a,b", "a;b", "<script>", "a\tb", "a\"b", "a\\b", "a?b", "http://a", "a{b}", "a|b"} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(e.RequestBytes(rig.Chat.Path, e.ChatRequest("")), "Host: edge", "Host: "+host, 1)
			if r := e.wantSingleReply(t, text); r == nil || r.Status != 400 {
				t.Errorf("answer = %+v, want 400", r)
			}
		})
	}
	t.Run("decides nothing", func(t *testing.T) {
		t.Parallel()
		for _, host := range []string{"evil.example", "127.0.0.1:1", "[::1]:80", "localhost"} {
			c := e.Dial()
			_ = c.Send(strings.Replace(e.RequestBytes(rig.Chat.Path, e.ChatRequest("")), "Host: edge", "Host: "+host, 1))
			r := c.ReadReply("POST").WantStatus(200)
			if strings.Contains(r.Body, "evil") || e.Engines[0].Stats().LastRequest.Get("Host") == host {
				t.Error("the Host was used")
			}
		}
	})
}

func TestFault48_Methods(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	body := e.ChatRequest("")
	for _, method := range strings.Fields("GET HEAD PUT DELETE PATCH OPTIONS FROB post Post CONNECT TRACE QUERY") {
		for _, path := range []string{"/v1/chat/completions", "/v1/models", "/health"} {
			if path != "/v1/chat/completions" && (method == "GET" || method == "HEAD") {
				continue
			}
			t.Run(method+path, func(t *testing.T) {
				t.Parallel()
				c := e.Dial()
				_ = c.Send(e.RequestHead(method, path, "Content-Type: application/json", "X-Echo: "+rig.Canary, "Content-Length: "+strconv.Itoa(len(body))) + body)
				r := c.ReadReply(method)
				if r.Status != 405 {
					t.Fatalf("status %d, want 405\n%s", r.Status, r.Body)
				}
				want := "POST"
				if path != "/v1/chat/completions" {
					want = "GET, HEAD"
				}
				if allow := r.Header.Get("Allow"); allow != want && allow != "HEAD, GET" {
					t.Errorf("Allow %q, want %q", allow, want)
				}
				if strings.Contains(r.Body, rig.Canary) {
					t.Error("the request was echoed")
				}
			})
		}
	}
	for _, text := range []string{
		"CONNECT engine:8000 HTTP/1.1\r\nHost: engine:8000\r\n\r\n",
		"TRACE * HTTP/1.1\r\nHost: edge\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: edge\r\n\r\n",
	} {
		t.Run(text[:8], func(t *testing.T) {
			t.Parallel()
			c := e.Dial()
			_ = c.Send(text)
			r := c.ReadReply("GET")
			options := strings.HasPrefix(text, "OPTIONS")
			// the parser rejects the target of TRACE first
			if want := map[bool]int{true: 204, false: 405}[options]; r.Status != want && !(r.Status == 400 && strings.HasPrefix(text, "TRACE")) {
				t.Errorf("status = %d, want %d: %s", r.Status, want, r.Body)
			}
			if r.Status != 400 && r.Header.Get("Allow") == "" {
				t.Error("no Allow")
			}
		})
	}
	t.Cleanup(func() { e.WantServedAtMost(t, 0) })
}

func TestFault49_Versions(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Timeouts: "client_header: 1s, client_idle: 1s"})
	good := e.RequestBytes(rig.Chat.Path, e.ChatRequest(""))
	for name, text := range map[string]string{
		"0.9":            "GET /health\r\n",
		"0.9 whole":      "GET /health\r\n\r\n",
		"1.2":            strings.Replace(good, "HTTP/1.1", "HTTP/1.2", 1),
		"2.0":            strings.Replace(good, "HTTP/1.1", "HTTP/2.0", 1),
		"3.0":            strings.Replace(good, "HTTP/1.1", "HTTP/3.0", 1),
		"1.10":           strings.Replace(good, "HTTP/1.1", "HTTP/1.10", 1),
		"01.1":           strings.Replace(good, "HTTP/1.1", "HTTP/01.1", 1),
		"lower":          strings.Replace(good, "HTTP/1.1", "http/1.1", 1),
		"word":           strings.Replace(good, "HTTP/1.1", "ICY", 1),
		"h2 preface":     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"TLS hello":      "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + strings.Repeat("\x7a", 160),
		"SSH":            "SSH-2.0-OpenSSH_9.6\r\n",
		"PROXY protocol": "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + good,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r := e.wantSingleReply(t, text); r != nil && r.Status != 400 && r.Status != 505 && r.Status != 408 {
				t.Errorf("status = %d, want 400, 408 or 505: %s", r.Status, r.Body)
			}
		})
	}
	t.Run("Upgrade", func(t *testing.T) {
		t.Parallel()
		for _, lines := range [][]string{
			{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"},
			{"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"},
		} {
			c := e.Dial()
			_ = c.Send(e.RequestHead("GET", "/health", lines...))
			if r := c.ReadReply("GET"); r.Status != 200 && r.Status != 400 {
				t.Errorf("status = %d, want 200 or 400", r.Status)
			}
		}
	})
}

// TestFault49_OtherProtocols checks that bytes that cannot start a request are rejected at the
// first byte.
func TestFault49_OtherProtocols(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Timeouts: "client_header: 5m"})
	for name, text := range map[string]string{
		"TLS hello":           "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + strings.Repeat("\x7a", 160),
		"first byte of a TLS": "\x16",
		"SOCKS":               "\x05\x01\x00",
		"HTTP/2 frame":        "\x00\x00\x12\x04",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := e.wantSingleReply(t, text)
			if r == nil {
				t.Fatal("no answer")
			}
			r.WantRefused(rig.Chat, badRequest)
		})
	}
}

func TestFault51_Paths(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	body := e.ChatRequest("")
	paths := []string{
		"//v1/chat/completions", "/v1//chat/completions", "/./v1/chat/completions", "/v1/../v1/chat/completions", "/v1/chat/../chat/completions",
		"/v1%2fchat/completions", "/v1/chat%2Fcompletions", "/v1/%63hat/completions", "/v1/chat/completions;x=1", "/v1/chat/completions#frag",
		"/v1\\chat\\completions", "/V1/CHAT/COMPLETIONS", "/v1/chat/completions/", "/v1/chat/completions%00", "/v1/chat/completions%20", "/v1/chat",
		"/%2e%2e/v1/chat/completions", "/health/../v1/chat/completions", "/v1/models/../chat/completions", "/" + strings.Repeat("a", 4000),
		"/health/", "/Health", "//health", "/..;/health", "/v1", "/v1/", "",
	}
	for _, path := range paths {
		for _, keyed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%.60q/%v", path, keyed), func(t *testing.T) {
				t.Parallel()
				text := e.RequestHead("POST", path, "Content-Type: application/json", "Content-Length: "+strconv.Itoa(len(body))) + body
				if !keyed {
					text = strings.Replace(text, "Authorization: Bearer "+e.Key+"\r\n", "", 1)
				}
				c := e.Dial()
				_ = c.Send(text)
				r := c.ReadReply("POST")
				switch {
				case r.Status == 404 || r.Status == 400 || r.Status == 405:
				case r.Status == 200 && keyed: // allowed only for the endpoint's exact path
				case r.Status == 401 && !keyed:
				default:
					t.Errorf("status %d: %s", r.Status, r.Body)
				}
				if r.Header.Get("Location") != "" || strings.Contains(r.Body, "aaaaaaaa") {
					t.Error("a redirect or an echo")
				}
			})
		}
	}
	t.Run("absolute form", func(t *testing.T) {
		t.Parallel()
		for target, want := range map[string]int{
			"http://edge/v1/chat/completions":          200,
			"HTTPS://edge:443/v1/chat/completions":     200,
			"http://edge/v1/nothing":                   404,
			"https://edge":                             405,
			"http://edge/v1/chat/completions?key=abc":  401, // the query contains a credential
			"http://user@edge/v1/chat/completions":     400,
			"http://a:b@edge/v1/chat/completions":      400,
			"http:///v1/chat/completions":              400,
			"http://:80/v1/chat/completions":           400,
			"http://edge\\@evil/v1/chat/completions":   400,
			"ftp://edge/v1/chat/completions":           400,
			"http:/v1/chat/completions":                400,
			"//edge/v1/chat/completions":               404,
			"http://edge/v1/chat/completions#fragment": 400,
		} {
			if r := e.wantSingleReply(t, e.RequestHead("POST", target, "Connection: close", "Content-Type: application/json", "Content-Length: "+strconv.Itoa(len(body)))+body); r == nil || r.Status != want {
				t.Errorf("%s: %+v, want %d", target, r, want)
			}
		}
	})
}
