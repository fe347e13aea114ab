package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Rows 41 to 51 of the fault matrix: what two parsers of HTTP could read differently. The test speaks through a plain
// socket, because no client library would send such things.

// smuggled is a whole good request that is hidden in, or follows, a bad one. It must never be served.
func (p *penstock) smuggled() string {
	return p.request(p.chat(`"user":"smuggled"`))
}

// only sends text and returns the first answer; the edge must close after it and send nothing else.
func (p *penstock) only(t *testing.T, text string) *reply {
	t.Helper()
	c := p.dial()
	_ = c.send(text)
	r, err := c.tryReply("POST")
	if err != nil {
		return nil // closed without an answer
	}
	rest, closed := c.closed(5 * time.Second)
	if !closed {
		t.Errorf("status %d, and the connection stays open", r.status)
	}
	if rest != "" {
		t.Errorf("something follows the answer: %.200q", rest)
	}
	r.t = t
	return r
}

// wantUnserved checks that no request has reached the engine.
func (p *penstock) wantUnserved(t *testing.T, upTo int64) {
	t.Helper()
	if n := p.engines[0].Stats().Requests; n > upTo {
		t.Errorf("%d requests upstream, want at most %d", n, upTo)
	}
}

func TestFault41_ExpectContinue(t *testing.T) {
	t.Parallel()
	p := start(t, setup{key: "operations: [chat]", limits: "request_body: 64KiB"})
	body := p.chat("")
	const expect = "Expect: 100-continue"
	for name, c := range map[string]struct {
		head   string
		status int
	}{
		"no key":     {"POST /v1/chat/completions HTTP/1.1\r\nHost: edge\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n", 401},
		"wrong key":  {"POST /v1/chat/completions HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer no\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n", 401},
		"no route":   {p.head("POST", "/v1/nothing", expect, "Content-Length: 100"), 404},
		"too large":  {p.head("POST", "/v1/chat/completions", expect, "Content-Length: 100000"), 413},
		"compressed": {p.head("POST", "/v1/chat/completions", expect, "Content-Encoding: gzip", "Content-Length: 100"), 415},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := p.dial()
			_ = conn.send(c.head)
			line, err := conn.in.Peek(len("HTTP/1.1 000"))
			if err != nil || string(line) != fmt.Sprintf("HTTP/1.1 %d", c.status) {
				t.Fatalf("answer %q, %v, want %d and no invitation", line, err, c.status)
			}
			conn.reply("POST").wantStatus(c.status)
			if _, closed := conn.closed(5 * time.Second); !closed {
				t.Error("the connection stays open")
			}
		})
	}
	t.Run("good", func(t *testing.T) {
		t.Parallel()
		c := p.dial()
		_ = c.send(p.head("POST", "/v1/chat/completions", expect, "Content-Type: application/json", "Content-Length: "+strconv.Itoa(len(body))))
		line, err := c.in.ReadString('\n')
		if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
			t.Fatalf("not invited: %q, %v", line, err)
		}
		if line, _ = c.in.ReadString('\n'); line != "\r\n" {
			t.Fatalf("after 100: %q", line)
		}
		_ = c.send(body)
		c.reply("POST").wantStatus(200)
	})
	if n := p.engines[0].Stats().Requests; n > 1 {
		t.Errorf("%d requests upstream", n)
	}
}

func TestFault42_Pipelining(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	one := func(more, text string) string {
		if more != "" {
			more += ","
		}
		return p.request(p.chat(more + `"sim":{"ttft_ms":50,"text":"` + text + `"}`))
	}
	for name, more := range map[string]string{"json": "", "stream": `"stream":true`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := p.dial()
			_ = c.send(one(more, "first") + one(more, "second") + one("", "third"))
			for i, want := range []string{"first", "second", "third"} {
				r, err := c.tryReply("POST")
				if err != nil {
					t.Fatalf("answer %d: %v", i, err)
				}
				if r.status != 200 || !strings.Contains(r.body, want) {
					t.Errorf("answer %d: status %d, %q", i, r.status, r.body)
				}
			}
		})
	}
}

func TestFault43_BigHeads(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	body := p.chat("")
	t.Run("fine", func(t *testing.T) {
		t.Parallel()
		// The limit is 8 KiB for the whole head.
		c := p.dial()
		_ = c.send(p.request(body, "X-Filler: "+strings.Repeat("f", 7600)))
		c.reply("POST").wantStatus(200)
	})
	lines := strings.Repeat("X-Filler: f\r\n", 5000)
	for name, text := range map[string]string{
		"1 MB in one line": p.request(body, "X-Filler: "+strings.Repeat("f", 1<<20)),
		"5000 lines":       p.request(body, strings.TrimSuffix(lines, "\r\n")),
		"200 KB target":    p.head("POST", "/v1/chat/completions?"+strings.Repeat("x", 200<<10)),
		"endless name":     "POST /v1/chat/completions HTTP/1.1\r\n" + strings.Repeat("X", 1<<20),
		"endless target":   "GET /" + strings.Repeat("x", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := p.only(t, text)
			if r == nil {
				t.Fatal("closed without an answer")
			}
			if r.status != 431 && r.status != 414 {
				t.Errorf("status %d, want 431 or 414", r.status)
			}
			if !strings.Contains(r.body, `"error"`) {
				t.Errorf("not the error record: %q", r.body)
			}
		})
	}
}

// framings are request heads and bodies whose end is a matter of opinion. %s stands for the good request behind them.
func (p *penstock) framings() map[string]string {
	body := p.chat("")
	n := strconv.Itoa(len(body))
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
	head := func(lines ...string) string {
		return p.head("POST", "/v1/chat/completions", append([]string{"Content-Type: application/json"}, lines...)...)
	}
	te := "Transfer-Encoding: chunked"
	f := map[string]string{
		"CL and TE":         head("Content-Length: "+n, te) + chunk + "0\r\n\r\n",
		"TE and CL":         head(te, "Content-Length: "+n) + chunk + "0\r\n\r\n",
		"CL 0 and TE":       head("Content-Length: 0", te) + chunk + "0\r\n\r\n",
		"CL short and TE":   head("Content-Length: 4", te) + chunk + "0\r\n\r\n",
		"two CL differ":     head("Content-Length: "+n, "Content-Length: 5") + body,
		"two CL agree":      head("Content-Length: "+n, "Content-Length: "+n) + body,
		"CL list":           head("Content-Length: "+n+", "+n) + body,
		"CL list differ":    head("Content-Length: "+n+", 5") + body,
		"CL plus":           head("Content-Length: +"+n) + body,
		"CL minus":          head("Content-Length: -"+n) + body,
		"CL hex":            head("Content-Length: 0x"+n) + body,
		"CL empty":          head("Content-Length: ") + body,
		"CL word":           head("Content-Length: five") + body,
		"CL with blank":     head("Content-Length: 1 0") + body,
		"CL huge":           head("Content-Length: 99999999999999999999") + body,
		"CL float":          head("Content-Length: "+n+".0") + body,
		"CL tab":            head("Content-Length:\t"+n+"\t\x0b") + body,
		"CL underscore":     head("Content_Length: 3", te) + chunk + "0\r\n\r\n",
		"TE identity":       head("Transfer-Encoding: identity") + body,
		"TE gzip":           head("Transfer-Encoding: gzip") + body,
		"TE gzip, chunked":  head("Transfer-Encoding: gzip, chunked") + chunk + "0\r\n\r\n",
		"TE chunked, gzip":  head("Transfer-Encoding: chunked, gzip") + chunk + "0\r\n\r\n",
		"TE twice":          head(te, te) + chunk + "0\r\n\r\n",
		"TE chunked x":      head("Transfer-Encoding: chunkedx") + chunk + "0\r\n\r\n",
		"TE x chunked":      head("Transfer-Encoding: xchunked") + chunk + "0\r\n\r\n",
		"TE empty":          head("Transfer-Encoding: ") + body,
		"TE vertical tab":   head("Transfer-Encoding: \x0bchunked") + chunk + "0\r\n\r\n",
		"TE quoted":         head(`Transfer-Encoding: "chunked"`) + chunk + "0\r\n\r\n",
		"TE blank in name":  head("Transfer-Encoding : chunked") + chunk + "0\r\n\r\n",
		"TE folded":         head("Transfer-Encoding:\r\n chunked") + chunk + "0\r\n\r\n",
		"TE with CR":        head("Transfer-Encoding: chun\rked") + chunk + "0\r\n\r\n",
		"TE after NUL":      head("X: a\x00Transfer-Encoding: chunked", "Content-Length: "+n) + body,
		"TE in LF line":     strings.Replace(head("X: a\nTransfer-Encoding: chunked", "Content-Length: "+n), "\r\n\r\n", "\r\n\r\n", 1) + body,
		"chunk size 0x":     head(te) + fmt.Sprintf("0x%x\r\n%s\r\n0\r\n\r\n", len(body), body),
		"chunk size plus":   head(te) + fmt.Sprintf("+%x\r\n%s\r\n0\r\n\r\n", len(body), body),
		"chunk size minus":  head(te) + "-1\r\n" + body + "\r\n0\r\n\r\n",
		"chunk size empty":  head(te) + "\r\n" + body + "\r\n0\r\n\r\n",
		"chunk size huge":   head(te) + "ffffffffffffffffff\r\n" + body + "\r\n0\r\n\r\n",
		"chunk size word":   head(te) + "zz\r\n" + body + "\r\n0\r\n\r\n",
		"chunk size blank":  head(te) + fmt.Sprintf("%x \r\n%s\r\n0\r\n\r\n", len(body), body),
		"chunk no CRLF":     head(te) + fmt.Sprintf("%x\r\n%s0\r\n\r\n", len(body), body),
		"chunk LF only":     head(te) + fmt.Sprintf("%x\n%s\n0\n\n", len(body), body),
		"chunk CR only":     head(te) + fmt.Sprintf("%x\r%s\r0\r\r", len(body), body),
		"chunk extension":   head(te) + fmt.Sprintf("%x;a=b\r\n%s\r\n0\r\n\r\n", len(body), body),
		"chunk ext with LF": head(te) + fmt.Sprintf("%x;a=\n%s\r\n0\r\n\r\n", len(body), body),
		"chunk size lies":   head(te) + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body)-2, body),
		"chunk ends early":  head(te) + fmt.Sprintf("%x\r\n%s\r\n0\r\n", len(body), body),
		"chunk trailers":    head(te) + chunk + "0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
	}
	return f
}

// fine are the framings that are legal, or may be served by the stricter reading; the connection need not survive.
var fine = map[string]bool{
	"CL and TE": true, "TE and CL": true, "CL 0 and TE": true, "CL short and TE": true, // by TE, then closed
	"two CL agree": true, "chunk extension": true, "chunk trailers": true, "CL underscore": true, "chunk size blank": true,
}

func TestFault44_Framing(t *testing.T) {
	t.Parallel()
	for name := range (&penstock{}).framings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{timeouts: "client_body: 1s, client_header: 1s, client_idle: 1s"})
			c := p.dial()
			_ = c.send(p.framings()[name] + p.smuggled())
			r, err := c.tryReply("POST")
			if err == nil {
				switch {
				case r.status == 200 && fine[name]:
				case r.status == 400 || r.status == 413 || r.status == 408 || r.status == 501:
					if !strings.Contains(r.body, `"error"`) {
						t.Errorf("not the error record: %q", r.body)
					}
				default:
					t.Errorf("status %d: %s", r.status, r.body)
				}
			}
			rest, closed := c.closed(5 * time.Second)
			if !closed {
				t.Error("the connection stays open")
			}
			legal := name == "two CL agree" || name == "chunk extension" || name == "CL underscore" || name == "chunk trailers" || name == "chunk size blank"
			if rest != "" && !(legal && r != nil && r.status == 200) {
				t.Errorf("what follows was answered: %.300q", rest)
			}
			for _, served := range p.calls() {
				if served.Status == 200 && r != nil && r.status != 200 {
					t.Errorf("the hidden request was served: %+v", served)
				}
			}
		})
	}
}

func TestFault45_BodyOfARefusedRequest(t *testing.T) {
	t.Parallel()
	p := start(t, setup{limits: "request_body: 64KiB", models: "- { id: other, deployments: [{ upstream: up-0 }] }", key: `models: ["sim"]`})
	hidden := p.smuggled()
	n := strconv.Itoa(len(hidden))
	chunked := "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden)
	good := "Authorization: Bearer " + p.key + "\r\n"
	const path = "/v1/chat/completions"
	for name, text := range map[string]string{
		"401":          "POST " + path + " HTTP/1.1\r\nHost: edge\r\nContent-Length: " + n + "\r\n\r\n" + hidden,
		"401 chunked":  "POST " + path + " HTTP/1.1\r\nHost: edge\r\n" + chunked,
		"404":          p.head("POST", "/v1/nothing", "Content-Length: "+n) + hidden,
		"404 chunked":  "POST /v1/nothing HTTP/1.1\r\nHost: edge\r\n" + good + chunked,
		"405":          p.head("PUT", path, "Content-Length: "+n) + hidden,
		"405 chunked":  "PATCH " + path + " HTTP/1.1\r\nHost: edge\r\n" + good + chunked,
		"415":          p.head("POST", path, "Content-Encoding: gzip", "Content-Length: "+n) + hidden,
		"415 type":     p.head("POST", path, "Content-Type: text/plain", "Content-Length: "+n) + hidden,
		"400 not JSON": p.head("POST", path, "Content-Type: application/json", "Content-Length: "+n) + hidden,
		"400 chunked":  "POST " + path + " HTTP/1.1\r\nHost: edge\r\n" + good + "Content-Type: application/json\r\n" + chunked,
		"413":          p.head("POST", path, "Content-Type: application/json", "Content-Length: 200000") + strings.Repeat(hidden, 200000/len(hidden)+1),
		"GET":          p.head("GET", "/v1/models", "Content-Length: "+n) + hidden,
		"GET chunked":  "GET /v1/models HTTP/1.1\r\nHost: edge\r\n" + good + chunked,
		"HEAD":         p.head("HEAD", "/", "Content-Length: "+n) + hidden,
		"health":       p.head("GET", "/health", "Content-Length: "+n) + hidden,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := p.dial()
			_ = c.send(text)
			_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite()
			all, _ := c.closed(5 * time.Second)
			if n := strings.Count(all, "HTTP/1.1 "); n > 1 {
				t.Errorf("%d answers: the body was parsed as a request:\n%s", n, all)
			}
		})
	}
	t.Cleanup(func() { p.wantUnserved(t, 0) })
}

func TestFault46_MalformedHeads(t *testing.T) {
	t.Parallel()
	p := start(t, setup{timeouts: "client_header: 1s, client_idle: 1s"})
	body := p.chat("")
	auth := "Authorization: Bearer " + p.key
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
			if r := p.only(t, text); r != nil && r.status != 400 && r.status != 505 && r.status != 404 {
				t.Errorf("status %d: %s", r.status, r.body)
			}
		})
	}
	t.Cleanup(func() { p.wantUnserved(t, 0) })
}

func TestFault47_HostAttacks(t *testing.T) {
	t.Parallel()
	p := start(t, setup{engines: recording()})
	for _, host := range []string{"x/#@evil", "evil.example/path", "a b", "a@b", "a,b", "a;b", "<script>", "a\tb", "a\"b", "a\\b", "a?b", "http://a", "a{b}", "a|b"} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(p.request(p.chat("")), "Host: edge", "Host: "+host, 1)
			if r := p.only(t, text); r == nil || r.status != 400 {
				t.Errorf("answer %+v", r)
			}
		})
	}
	t.Run("decides nothing", func(t *testing.T) {
		t.Parallel()
		for _, host := range []string{"evil.example", "127.0.0.1:1", "[::1]:80", "localhost"} {
			c := p.dial()
			_ = c.send(strings.Replace(p.request(p.chat("")), "Host: edge", "Host: "+host, 1))
			r := c.reply("POST").wantStatus(200)
			if strings.Contains(r.body, "evil") || p.engines[0].Stats().LastRequest.Get("Host") == host {
				t.Error("the Host was used")
			}
		}
	})
}

func TestFault48_Methods(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	body := p.chat("")
	for _, method := range strings.Fields("GET HEAD PUT DELETE PATCH OPTIONS FROB post Post CONNECT TRACE QUERY") {
		for _, path := range []string{"/v1/chat/completions", "/v1/models", "/health"} {
			if path != "/v1/chat/completions" && (method == "GET" || method == "HEAD") {
				continue
			}
			t.Run(method+path, func(t *testing.T) {
				t.Parallel()
				c := p.dial()
				_ = c.send(p.head(method, path, "Content-Type: application/json", "X-Echo: "+canary, "Content-Length: "+strconv.Itoa(len(body))) + body)
				r := c.reply(method)
				if r.status != 405 {
					t.Fatalf("status %d, want 405\n%s", r.status, r.body)
				}
				want := "POST"
				if path != "/v1/chat/completions" {
					want = "GET, HEAD"
				}
				if allow := r.header.Get("Allow"); allow != want && allow != "HEAD, GET" {
					t.Errorf("Allow %q, want %q", allow, want)
				}
				if strings.Contains(r.body, canary) {
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
			c := p.dial()
			_ = c.send(text)
			r := c.reply("GET")
			if r.status != 405 && !(r.status == 400 && strings.Contains(text, "*")) { // the parser refuses that target first
				t.Errorf("status %d: %s", r.status, r.body)
			}
			if r.status == 405 && r.header.Get("Allow") == "" {
				t.Error("no Allow")
			}
		})
	}
	t.Cleanup(func() { p.wantUnserved(t, 0) })
}

func TestFault49_Versions(t *testing.T) {
	t.Parallel()
	p := start(t, setup{timeouts: "client_header: 1s, client_idle: 1s"})
	good := p.request(p.chat(""))
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
			if r := p.only(t, text); r != nil && r.status != 400 && r.status != 505 && r.status != 408 {
				t.Errorf("status %d: %s", r.status, r.body)
			}
		})
	}
	t.Run("Upgrade", func(t *testing.T) {
		t.Parallel()
		for _, lines := range [][]string{
			{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"},
			{"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"},
		} {
			c := p.dial()
			_ = c.send(p.head("GET", "/health", lines...))
			if r := c.reply("GET"); r.status != 200 && r.status != 400 {
				t.Errorf("status %d", r.status)
			}
		}
	})
}

func TestFault50_HTTP10(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	old := func(more string, header ...string) string {
		return strings.Replace(p.request(p.chat(more), header...), "HTTP/1.1", "HTTP/1.0", 1)
	}
	c := p.dial()
	_ = c.send(old(""))
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 200 || res.ContentLength < 0 || len(res.TransferEncoding) > 0 {
		t.Errorf("status %d, length %d, encoding %v", res.StatusCode, res.ContentLength, res.TransferEncoding)
	}
	if _, closed := c.closed(5 * time.Second); !closed {
		t.Error("the connection stays open")
	}
	p.only(t, old(`"stream":true`)).wantError(505, "invalid_request_error", "bad_request")
	// Large answers have a length too.
	c = p.dial()
	_ = c.send(old(`"sim":{"tokens":20000}`))
	res, err = http.ReadResponse(bufio.NewReader(c.in), nil)
	if err != nil || res.StatusCode != 200 || res.ContentLength < 64<<10 {
		t.Errorf("%v, %+v", err, res)
	}
	res.Body.Close()
	c.Close()
}

func TestFault51_Paths(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	body := p.chat("")
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
				text := p.head("POST", path, "Content-Type: application/json", "Content-Length: "+strconv.Itoa(len(body))) + body
				if !keyed {
					text = strings.Replace(text, "Authorization: Bearer "+p.key+"\r\n", "", 1)
				}
				c := p.dial()
				_ = c.send(text)
				r := c.reply("POST")
				switch {
				case r.status == 404 || r.status == 400 || r.status == 405:
				case r.status == 200 && keyed: // exactly the endpoint
				case r.status == 401 && !keyed:
				default:
					t.Errorf("status %d: %s", r.status, r.body)
				}
				if r.header.Get("Location") != "" || strings.Contains(r.body, "aaaaaaaa") {
					t.Error("a redirect or an echo")
				}
			})
		}
	}
	t.Run("absolute form", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{"http://engine:8000/v1/chat/completions", "http://edge/v1/chat/completions", "https://evil.example/"} {
			if r := p.only(t, p.head("POST", target, "Content-Type: application/json", "Content-Length: "+strconv.Itoa(len(body)))+body); r != nil && r.status != 400 && r.status != 404 {
				t.Errorf("%s: status %d", target, r.status)
			}
		}
	})
}
