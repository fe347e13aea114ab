package faults

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Rows 41 to 45: where a request ends, and what is behind it.

// badRequest is the refusal of what is wrong as HTTP.
var badRequest = refusal{400, "invalid_request_error", "bad_request", ""}

// answers sends text, ends the client's half, and returns everything that comes.
func (e *edge) answers(t testing.TB, text string) string {
	t.Helper()
	c := e.dial()
	c.t = t
	_ = c.send(text)
	_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite()
	all, ok := c.closed(patience)
	if !ok {
		t.Error("the connection stays open although nothing more can come")
	}
	return all
}

// served is how many good requests have reached the engine.
func (e *edge) served() int64 { return e.engines[0].Stats().Requests }

func TestFault41_ExpectContinue(t *testing.T) {
	t.Parallel()
	e := start(t, setup{key: "operations: [chat, messages]", limits: "request_body: 64KiB"})
	const expect = "Expect: 100-continue"
	json := "Content-Type: application/json"
	for name, c := range map[string]struct {
		w    way
		head string
		want refusal
	}{
		"no key":         {messages, "POST /v1/messages HTTP/1.1\r\nHost: edge\r\n" + expect + "\r\nContent-Length: 100\r\n\r\n", refusal{401, "authentication_error", "invalid_api_key", ""}},
		"wrong key":      {chat, "POST /v1/chat/completions HTTP/1.1\r\nHost: edge\r\nx-api-key: no\r\n" + expect + "\r\nContent-Length: 100\r\n\r\n", refusal{401, "authentication_error", "invalid_api_key", ""}},
		"key in query":   {chat, e.head("POST", chat.path+"?key=x", expect, json, "Content-Length: 100"), refusal{401, "authentication_error", "credential_in_query", ""}},
		"no right":       {responses, e.head("POST", responses.path, expect, json, "Content-Length: 100"), refusal{403, "permission_error", "operation_not_allowed", ""}},
		"no route":       {chat, e.head("POST", "/v1/nothing", expect, "Content-Length: 100"), refusal{404, "not_found_error", "not_found", ""}},
		"too large":      {messages, e.head("POST", messages.path, expect, json, "Content-Length: 100000"), bodyTooLarge},
		"compressed":     {chat, e.head("POST", chat.path, expect, "Content-Encoding: gzip", "Content-Length: 100"), refusal{415, "invalid_request_error", "unsupported_media_type", ""}},
		"no JSON":        {chat, e.head("POST", chat.path, expect, "Content-Type: text/plain", "Content-Length: 100"), refusal{415, "invalid_request_error", "unsupported_media_type", ""}},
		"malformed head": {chat, e.head("POST", chat.path, expect, json, "Content-Length: 100", "Host: b"), badRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := e.dial()
			conn.t = t
			_ = conn.send(c.head)
			if line, err := conn.in.Peek(12); err != nil || string(line) != fmt.Sprintf("HTTP/1.1 %d", c.want.status) {
				t.Fatalf("answer %q, %v, want %d and no invitation", line, err, c.want.status)
			}
			conn.reply("POST").wantRefused(c.w, c.want)
			if rest, ok := conn.closed(patience); !ok || rest != "" {
				t.Errorf("not closed, or more came: %q", rest)
			}
		})
	}
	for _, w := range []way{chat, chatStream, messages, messagesStream} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprint("good ", w, chunked), func(t *testing.T) {
				t.Parallel()
				body := w.body("sim", prompt, "")
				framing := "Content-Length: " + strconv.Itoa(len(body))
				if chunked {
					framing, body = "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
				}
				c := e.dial()
				c.t = t
				for range 2 {
					_ = c.send(e.head("POST", w.path, expect, json, framing))
					if line, err := c.in.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
						t.Fatalf("not invited: %q, %v", line, err)
					}
					_, _ = c.in.ReadString('\n')
					_ = c.send(body)
					c.reply("POST").text(w)
				}
			})
		}
	}
	t.Cleanup(func() {
		if n := e.served(); n != 16 {
			t.Errorf("%d requests upstream, want 16", n)
		}
	})
}

// TestFault42_Pipelining: requests that do not wait for answers are answered in order, or not at all; and their bytes are no
// farewell.
func TestFault42_Pipelining(t *testing.T) {
	t.Parallel()
	inWays(t, allWays, setup{}, func(e *edge, w way) {
		text := func(n int) string {
			return e.request(w.path, w.body("sim", prompt, fmt.Sprintf(`"ttft_ms":50,"text":"answer %d"`, n)))
		}
		c := e.dial()
		_ = c.send(text(0) + text(1) + text(2) + e.head("GET", "/health"))
		for i := range 3 {
			r, err := c.tryReply("POST")
			if err != nil && i > 0 {
				return // closed after the first
			} else if err != nil {
				e.t.Fatal(err)
			}
			if got := r.text(w); got != fmt.Sprintf("answer %d", i) {
				e.t.Errorf("answer %d is %q", i, got)
			}
		}
	})
}

func TestFault43_BigHeads(t *testing.T) {
	t.Parallel()
	e := start(t, setup{})
	body := chat.body("sim", prompt, "")
	good := e.request(chat.path, body, "X-Filler: "+strings.Repeat("f", 7600))
	c := e.dial()
	_ = c.send(good)
	c.reply("POST").wantStatus(200)
	for name, text := range map[string]string{
		"1 MB in one line":    e.request(chat.path, body, "X-Filler: "+strings.Repeat("f", 1<<20)),
		"5000 lines":          e.request(chat.path, body, strings.TrimSuffix(strings.Repeat("X-Filler: f\r\n", 5000), "\r\n")),
		"200 KB target":       e.head("POST", chat.path+"?"+strings.Repeat("x", 200<<10)),
		"endless name":        "POST /v1/chat/completions HTTP/1.1\r\n" + strings.Repeat("X", 1<<20),
		"endless target":      "GET /" + strings.Repeat("x", 1<<20),
		"endless method":      strings.Repeat("G", 1<<20),
		"endless blank lines": strings.Repeat("\r\n", 1<<20),
		"just over":           e.request(chat.path, body, "X-Filler: "+strings.Repeat("f", 9000)),
		"behind a good one":   good + e.request(chat.path, body, "X-Filler: "+strings.Repeat("f", 1<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := e.dial()
			c.t = t
			_ = c.send(text)
			if name == "behind a good one" {
				c.reply("POST").wantStatus(200)
			}
			r, err := c.tryReply("POST")
			if err != nil && name == "endless blank lines" {
				return // there is no request to answer
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.status == 431 {
				r.wantRefused(chat, refusal{431, "invalid_request_error", "request_too_large", ""})
			} else if r.status != 414 && (r.status != 400 || !strings.HasPrefix(name, "endless")) {
				t.Errorf("status %d: %s", r.status, r.body)
			}
			if rest, ok := c.closed(patience); !ok || rest != "" {
				t.Errorf("not closed, or more came: %.100q", rest)
			}
		})
	}
}

// framings are heads and bodies whose end is a matter of opinion; those in legal may be served, and so may what follows.
func (e *edge) framings(w way) (all map[string]string, legal map[string]bool) {
	body := w.body("sim", prompt, "")
	n := strconv.Itoa(len(body))
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
	const last, te = "0\r\n\r\n", "Transfer-Encoding: chunked"
	head := func(lines ...string) string {
		return e.head("POST", w.path, append([]string{"Content-Type: application/json"}, lines...)...)
	}
	sized := func(format string) string { return head(te) + fmt.Sprintf(format, len(body), body) + last }
	return map[string]string{
		"CL and TE": head("Content-Length: "+n, te) + chunk + last, "TE and CL": head(te, "Content-Length: "+n) + chunk + last,
		"CL 0 and TE": head("Content-Length: 0", te) + chunk + last, "CL short and TE": head("Content-Length: 4", te) + chunk + last,
		"two CL differ": head("Content-Length: "+n, "Content-Length: 5") + body, "two CL agree": head("Content-Length: "+n, "content-length: "+n) + body,
		"CL list": head("Content-Length: "+n+", "+n) + body, "CL list differ": head("Content-Length: "+n+", 5") + body, "CL plus": head("Content-Length: +"+n) + body,
		"CL minus": head("Content-Length: -"+n) + body, "CL hex": head("Content-Length: 0x"+n) + body, "CL empty": head("Content-Length: ") + body,
		"CL word": head("Content-Length: five") + body, "CL with blank": head("Content-Length: 1 0") + body, "CL huge": head("Content-Length: 99999999999999999999") + body,
		"CL float": head("Content-Length: "+n+".0") + body, "CL VT": head("Content-Length: "+n+"\x0b") + body, "CL underscore": head("Content_Length: 3", te) + chunk + last,
		"CL 2^63": head("Content-Length: 9223372036854775808") + body, "CL 2^64+n": head("Content-Length: 1844674407370955161"+n) + body, "CL semicolon": head("Content-Length: "+n+";x") + body,
		"TE identity": head("Transfer-Encoding: identity") + body, "TE gzip": head("Transfer-Encoding: gzip") + body, "TE gzip, chunked": head("Transfer-Encoding: gzip, chunked") + chunk + last,
		"TE chunked, gzip": head("Transfer-Encoding: chunked, gzip") + chunk + last, "TE twice": head(te, te) + chunk + last, "TE chunked, chunked": head("Transfer-Encoding: chunked, chunked") + chunk + last,
		"TE chunkedx": head("Transfer-Encoding: chunkedx") + chunk + last, "TE xchunked": head("Transfer-Encoding: xchunked") + chunk + last, "TE empty": head("Transfer-Encoding: ") + body,
		"TE VT": head("Transfer-Encoding: \x0bchunked") + chunk + last, "TE quoted": head(`Transfer-Encoding: "chunked"`) + chunk + last, "TE blank in name": head("Transfer-Encoding : chunked") + chunk + last,
		"TE folded": head("Transfer-Encoding:\r\n chunked") + chunk + last, "TE with CR": head("Transfer-Encoding: chun\rked") + chunk + last, "TE after NUL": head("X: a\x00Transfer-Encoding: chunked", "Content-Length: "+n) + body,
		"TE behind LF": head("X: a\nTransfer-Encoding: chunked", "Content-Length: "+n) + body, "TE parameter": head("Transfer-Encoding: chunked;q=1") + chunk + last, "TE comma": head("Transfer-Encoding: ,chunked") + chunk + last,
		"TE and 1.0": oldClient(head(te) + chunk + last), "TE identity and CL": head("Transfer-Encoding: identity", "Content-Length: "+n) + body,
		"chunk 0x": sized("0x%x\r\n%s\r\n"), "chunk plus": sized("+%x\r\n%s\r\n"), "chunk minus": head(te) + "-1\r\n" + body + "\r\n" + last, "chunk empty": head(te) + "\r\n" + body + "\r\n" + last,
		"chunk huge": head(te) + "ffffffffffffffffff\r\n" + body + "\r\n" + last, "chunk word": head(te) + "zz\r\n" + body + "\r\n" + last, "chunk blank": sized("%x \r\n%s\r\n"), "chunk no CRLF": sized("%x\r\n%s"),
		"chunk LF": head(te) + fmt.Sprintf("%x\n%s\n0\n\n", len(body), body), "chunk CR": head(te) + fmt.Sprintf("%x\r%s\r0\r\r", len(body), body), "chunk extension": sized("%x;a=b\r\n%s\r\n"),
		"chunk quoted extension": sized("%x;a=\"b\\\"c\"\r\n%s\r\n"), "chunk extension with LF": sized("%x;a=\n%s\r\n"), "chunk extension with CR": sized("%x;a=\rb\r\n%s\r\n"), "chunk zeros": sized("0000000%x\r\n%s\r\n"),
		"chunk lies": head(te) + fmt.Sprintf("%x\r\n%s\r\n", len(body)-2, body) + last, "chunk ends early": head(te) + chunk + "0\r\n", "trailers": head(te) + chunk + "0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"bad trailer": head(te) + chunk + "0\r\nX Y: z\r\n\r\n", "trailer with LF": head(te) + chunk + "0\r\nX: z\n\r\n",
	}, map[string]bool{"two CL agree": true, "CL underscore": true, "chunk extension": true, "chunk quoted extension": true, "chunk blank": true, "chunk zeros": true}
}

// TestFault44_Framing: behind each framing stands a whole good request, which must never be served unless the framing is legal.
func TestFault44_Framing(t *testing.T) {
	t.Parallel()
	timeouts := "client_body: 1s, client_header: 1s, client_idle: 1s"
	for _, w := range []way{chat, messages} {
		all, legal := (&edge{}).framings(w)
		for name := range all {
			t.Run(w.dialect+"/"+name, func(t *testing.T) {
				t.Parallel()
				e := start(t, setup{timeouts: timeouts})
				all, _ := e.framings(w)
				c := e.dial()
				_ = c.send(all[name] + e.request(w.path, w.body("sim", prompt, "")))
				// May be served, by the stricter reading; then the connection ends.
				once := strings.Contains(name, "trailer") || strings.Contains(name, "CL") && strings.Contains(name, "TE") && !strings.Contains(name, "identity")
				r, err := c.tryReply("POST")
				switch {
				case err != nil: // closed without a word
				case r.status == 200 && (legal[name] || once):
				case r.status == 400 || r.status == 408 || r.status == 413:
					if !strings.Contains(r.body, `"error"`) {
						t.Errorf("not the error record: %q", r.body)
					}
				default:
					t.Errorf("status %d: %s", r.status, r.body)
				}
				rest, closed := c.closed(patience)
				if !closed {
					t.Error("the connection stays open")
				}
				most := int64(0)
				if err == nil && r.status == 200 {
					most++
					if legal[name] {
						most++
					}
				}
				if rest != "" && most < 2 {
					t.Errorf("what follows was answered: %.300q", rest)
				}
				e.rest()
				if n := e.served(); n > most {
					t.Errorf("%d requests upstream, want at most %d", n, most)
				}
			})
		}
	}
}

// TestFault45_BodyOfARefusedRequest: a body that is a good request is never taken for one.
func TestFault45_BodyOfARefusedRequest(t *testing.T) {
	t.Parallel()
	e := start(t, setup{limits: "request_body: 64KiB", timeouts: "client_body: 2s"})
	hidden := e.request(chat.path, chat.body("sim", prompt, ""))
	n := "Content-Length: " + strconv.Itoa(len(hidden))
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden)
	te := "Transfer-Encoding: chunked"
	json := "Content-Type: application/json"
	anonymous := func(text string) string {
		return strings.Replace(text, "Authorization: Bearer "+e.key+"\r\n", "", 1)
	}
	for name, text := range map[string]string{
		"401": anonymous(e.head("POST", chat.path, json, n)) + hidden, "401 chunked": anonymous(e.head("POST", messages.path, json, te)) + chunked,
		"404": e.head("POST", "/v1/nothing", n) + hidden, "404 chunked": e.head("POST", "/v1/nothing", te) + chunked,
		"405": e.head("PUT", chat.path, n) + hidden, "405 chunked": e.head("PATCH", chat.path, te) + chunked, "OPTIONS": e.head("OPTIONS", chat.path, n) + hidden, "TRACE": e.head("TRACE", "/", n) + hidden,
		"415": e.head("POST", chat.path, json, "Content-Encoding: gzip", n) + hidden, "415 type": e.head("POST", chat.path, "Content-Type: text/plain", te) + chunked,
		"400": e.head("POST", chat.path, json, n) + hidden, "400 chunked": e.head("POST", responses.path, json, te) + chunked,
		"413": e.head("POST", chat.path, json, "Content-Length: 200000") + strings.Repeat(hidden, 200_000/len(hidden)+1), "413 chunked": e.head("POST", chat.path, json, te) + fmt.Sprintf("%x\r\n", 200_000) + strings.Repeat(hidden, 200_000/len(hidden)+1),
		"GET": e.head("GET", "/v1/models", n) + hidden, "GET chunked": e.head("GET", "/v1/models", te) + chunked, "HEAD": e.head("HEAD", "/", n) + hidden, "health": e.head("GET", "/health", n) + hidden, "openapi": e.head("GET", "/openapi.json", te) + chunked,
		"bad head": e.head("POST", chat.path, "X Y: z", n) + hidden, "expected": e.head("POST", "/v1/nothing", "Expect: 100-continue", n) + hidden, "multipart": e.head("POST", transcriptions, "Content-Type: multipart/form-data; boundary=B", n) + hidden,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := e.answers(t, text)
			if n := len(statusLine.FindAllString(all, -1)); n > 1 {
				t.Errorf("%d answers: the body was parsed as a request:\n%.2000s", n, all)
			}
		})
	}
	t.Cleanup(func() {
		if n := e.served(); n != 0 {
			t.Errorf("%d requests upstream", n)
		}
	})
}

// TestFault45_MultipartEpilogue: what stands behind the last boundary is no request either.
func TestFault45_MultipartEpilogue(t *testing.T) {
	t.Parallel()
	e := start(t, setup{models: "- { id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }] }"})
	for _, size := range []int{100, 300 << 10} {
		form := formStart("ears") + strings.Repeat("x", size) + "\r\n--B--\r\n"
		hidden := e.request(chat.path, chat.body("sim", prompt, ""))
		all := e.answers(t, e.head("POST", transcriptions, "Content-Type: multipart/form-data; boundary=B", "Content-Length: "+strconv.Itoa(len(form)+len(hidden)))+form+hidden)
		// None is right, too: who has closed the sending side counts as gone.
		if n := len(statusLine.FindAllString(all, -1)); n > 1 {
			t.Errorf("%d answers:\n%.1000s", n, all)
		}
	}
	if n := e.served(); n > 2 {
		t.Errorf("%d requests upstream", n)
	}
}

// statusLine is the beginning of an answer.
var statusLine = regexp.MustCompile(`HTTP/1\.1 \d\d\d `)
