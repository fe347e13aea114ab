package faults

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock/config"
	"penstock/proxy/e2e/rig"
)

// These tests cover rows 41 to 45: where a request ends, and which bytes follow it.

var badRequest = rig.Refusal{Status: 400, Kind: "invalid_request_error", Code: "bad_request", After: ""}

// exchangeRaw sends text, closes the client's sending side, and returns all bytes that it receives.
func (e *edge) exchangeRaw(t testing.TB, text string) string {
	t.Helper()
	c := e.Dial()
	c.T = t
	_ = c.Send(text)
	_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite()
	all, ok := c.WaitClosed(rig.WaitTimeout)
	if !ok {
		t.Error("the connection stays open although nothing more can come")
	}
	return all
}

// served returns how many valid requests have reached the engine.
func (e *edge) served() int64 { return e.Engines[0].Stats().Requests }

func TestFault41_ExpectContinue(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Key: "operations: [chat, messages]", Limits: "request_body: 64KiB"})
	const expect = "Expect: 100-continue"
	json := "Content-Type: application/json"
	for name, c := range map[string]struct {
		w    rig.RequestType
		head string
		want rig.Refusal
	}{
		"no key":         {rig.Messages, "POST /v1/messages HTTP/1.1\r\nHost: edge\r\n" + expect + "\r\nContent-Length: 100\r\n\r\n", rig.Refusal{Status: 401, Kind: "authentication_error", Code: "invalid_api_key", After: ""}},
		"wrong key":      {rig.Chat, "POST /v1/chat/completions HTTP/1.1\r\nHost: edge\r\nx-api-key: no\r\n" + expect + "\r\nContent-Length: 100\r\n\r\n", rig.Refusal{Status: 401, Kind: "authentication_error", Code: "invalid_api_key", After: ""}},
		"key in query":   {rig.Chat, e.RequestHead("POST", rig.Chat.Path+"?key=x", expect, json, "Content-Length: 100"), rig.Refusal{Status: 401, Kind: "authentication_error", Code: "credential_in_query", After: ""}},
		"no right":       {rig.Responses, e.RequestHead("POST", rig.Responses.Path, expect, json, "Content-Length: 100"), rig.Refusal{Status: 403, Kind: "permission_error", Code: "operation_not_allowed", After: ""}},
		"no route":       {rig.Chat, e.RequestHead("POST", "/v1/nothing", expect, "Content-Length: 100"), rig.Refusal{Status: 404, Kind: "not_found_error", Code: "not_found", After: ""}},
		"too large":      {rig.Messages, e.RequestHead("POST", rig.Messages.Path, expect, json, "Content-Length: 100000"), rig.RefusalBodyTooLarge},
		"compressed":     {rig.Chat, e.RequestHead("POST", rig.Chat.Path, expect, "Content-Encoding: br", "Content-Length: 100"), rig.Refusal{Status: 415, Kind: "invalid_request_error", Code: "unsupported_media_type", After: ""}},
		"no JSON":        {rig.Chat, e.RequestHead("POST", rig.Chat.Path, expect, "Content-Type: text/plain", "Content-Length: 100"), rig.Refusal{Status: 415, Kind: "invalid_request_error", Code: "unsupported_media_type", After: ""}},
		"malformed head": {rig.Chat, e.RequestHead("POST", rig.Chat.Path, expect, json, "Content-Length: 100", "Host: b"), badRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := e.Dial()
			conn.T = t
			_ = conn.Send(c.head)
			if line, err := conn.In.Peek(12); err != nil || string(line) != fmt.Sprintf("HTTP/1.1 %d", c.want.Status) {
				t.Fatalf("answer %q, %v, want %d and no invitation", line, err, c.want.Status)
			}
			conn.ReadReply("POST").WantRefused(c.w, c.want)
			if rest, ok := conn.WaitClosed(rig.WaitTimeout); !ok || rest != "" {
				t.Errorf("not closed, or more came: %q", rest)
			}
		})
	}
	for _, w := range []rig.RequestType{rig.Chat, rig.ChatStream, rig.Messages, rig.MessagesStream} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprint("good ", w, chunked), func(t *testing.T) {
				t.Parallel()
				body := w.RequestBody("sim", rig.Prompt, "")
				framing := "Content-Length: " + strconv.Itoa(len(body))
				if chunked {
					framing, body = "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
				}
				c := e.Dial()
				c.T = t
				for range 2 {
					_ = c.Send(e.RequestHead("POST", w.Path, expect, json, framing))
					if line, err := c.In.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
						t.Fatalf("not invited: %q, %v", line, err)
					}
					_, _ = c.In.ReadString('\n')
					_ = c.Send(body)
					c.ReadReply("POST").VisibleText(w)
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

// TestFault41_ExpectWithoutBody checks that a request with Expect but without a body is answered
// like any other request.
func TestFault41_ExpectWithoutBody(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	c := e.Dial()
	for range 2 { // twice, because the connection must stay open
		_ = c.Send(e.RequestHead("GET", "/v1/models", "Expect: 100-continue"))
		c.ReadReply("GET").WantStatus(200)
	}
	_ = c.Send(e.RequestHead("PUT", "/v1/models", "Expect: 100-continue", "Content-Length: 0"))
	c.ReadReply("PUT").WantStatus(405)
}

// TestFault42_Pipelining checks that pipelined requests are answered in order or not at all, and
// that the edge does not mistake the additional bytes for a disconnect.
func TestFault42_Pipelining(t *testing.T) {
	t.Parallel()
	forEachRequestType(t, rig.TextRequestTypes, rig.Setup{}, func(e *edge, w rig.RequestType) {
		text := func(n int) string {
			return e.RequestBytes(w.Path, w.RequestBody("sim", rig.Prompt, fmt.Sprintf(`"ttft_ms":50,"text":"answer %d"`, n)))
		}
		c := e.Dial()
		_ = c.Send(text(0) + text(1) + text(2) + e.RequestHead("GET", "/health"))
		for i := range 3 {
			r, err := c.TryReadReply("POST")
			if err != nil && i > 0 {
				return // the connection was closed after the first response
			} else if err != nil {
				e.T.Fatal(err)
			}
			if got := r.VisibleText(w); got != fmt.Sprintf("answer %d", i) {
				e.T.Errorf("answer %d is %q", i, got)
			}
		}
	})
}

func TestFault43_BigHeads(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	body := rig.Chat.RequestBody("sim", rig.Prompt, "")
	most := int(config.Defaults().Limits.Header)
	good := e.RequestBytes(rig.Chat.Path, body, "X-Filler: "+strings.Repeat("f", most-600))
	c := e.Dial()
	_ = c.Send(good)
	c.ReadReply("POST").WantStatus(200)
	for name, text := range map[string]string{
		"1 MB in one line":    e.RequestBytes(rig.Chat.Path, body, "X-Filler: "+strings.Repeat("f", 1<<20)),
		"5000 lines":          e.RequestBytes(rig.Chat.Path, body, strings.TrimSuffix(strings.Repeat("X-Filler: f\r\n", 5000), "\r\n")),
		"200 KB target":       e.RequestHead("POST", rig.Chat.Path+"?"+strings.Repeat("x", 200<<10)),
		"endless name":        "POST /v1/chat/completions HTTP/1.1\r\n" + strings.Repeat("X", 1<<20),
		"endless target":      "GET /" + strings.Repeat("x", 1<<20),
		"endless method":      strings.Repeat("G", 1<<20),
		"endless blank lines": strings.Repeat("\r\n", 1<<20),
		"just over":           e.RequestBytes(rig.Chat.Path, body, "X-Filler: "+strings.Repeat("f", most)),
		"behind a good one":   good + e.RequestBytes(rig.Chat.Path, body, "X-Filler: "+strings.Repeat("f", 1<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := e.Dial()
			c.T = t
			_ = c.Send(text)
			if name == "behind a good one" {
				c.ReadReply("POST").WantStatus(200)
			}
			r, err := c.TryReadReply("POST")
			if err != nil && name == "endless blank lines" {
				return // there is no request to answer
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Status == 431 {
				r.WantRefused(rig.Chat, rig.Refusal{Status: 431, Kind: "invalid_request_error", Code: "request_too_large", After: ""})
			} else if r.Status != 414 && (r.Status != 400 || !strings.HasPrefix(name, "endless")) {
				t.Errorf("status = %d, want 414, or 400 for an endless line: %s", r.Status, r.Body)
			}
			if rest, ok := c.WaitClosed(rig.WaitTimeout); !ok || rest != "" {
				t.Errorf("not closed, or more came: %.100q", rest)
			}
		})
	}
}

// ambiguousRequests returns requests whose end is ambiguous. If legal contains a request, the edge
// may serve both this request and the request after it.
func (e *edge) ambiguousRequests(w rig.RequestType) (all map[string]string, legal map[string]bool) {
	body := w.RequestBody("sim", rig.Prompt, "")
	n := strconv.Itoa(len(body))
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
	const last, te = "0\r\n\r\n", "Transfer-Encoding: chunked"
	head := func(lines ...string) string {
		return e.RequestHead("POST", w.Path, append([]string{"Content-Type: application/json"}, lines...)...)
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
		"TE and 1.0": toHTTP10(head(te) + chunk + last), "TE identity and CL": head("Transfer-Encoding: identity", "Content-Length: "+n) + body,
		"chunk 0x": sized("0x%x\r\n%s\r\n"), "chunk plus": sized("+%x\r\n%s\r\n"), "chunk minus": head(te) + "-1\r\n" + body + "\r\n" + last, "chunk empty": head(te) + "\r\n" + body + "\r\n" + last,
		"chunk huge": head(te) + "ffffffffffffffffff\r\n" + body + "\r\n" + last, "chunk word": head(te) + "zz\r\n" + body + "\r\n" + last, "chunk blank": sized("%x \r\n%s\r\n"), "chunk no CRLF": sized("%x\r\n%s"),
		"chunk LF": head(te) + fmt.Sprintf("%x\n%s\n0\n\n", len(body), body), "chunk CR": head(te) + fmt.Sprintf("%x\r%s\r0\r\r", len(body), body), "chunk extension": sized("%x;a=b\r\n%s\r\n"),
		"chunk quoted extension": sized("%x;a=\"b\\\"c\"\r\n%s\r\n"), "chunk extension with LF": sized("%x;a=\n%s\r\n"), "chunk extension with CR": sized("%x;a=\rb\r\n%s\r\n"), "chunk zeros": sized("0000000%x\r\n%s\r\n"),
		"chunk extension without a name": sized("%x;\r\n%s\r\n"), "chunk extension with a bad name": sized("%x;a[=b\r\n%s\r\n"),
		"chunk lies": head(te) + fmt.Sprintf("%x\r\n%s\r\n", len(body)-2, body) + last, "chunk ends early": head(te) + chunk + "0\r\n", "trailers": head(te) + chunk + "0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"bad trailer": head(te) + chunk + "0\r\nX Y: z\r\n\r\n", "trailer with LF": head(te) + chunk + "0\r\nX: z\n\r\n",
	}, map[string]bool{"two CL agree": true, "CL underscore": true, "chunk extension": true, "chunk quoted extension": true, "chunk zeros": true}
}

// TestFault44_Framing sends a complete valid request after each framing. This second request must
// be served only if the framing is legal.
func TestFault44_Framing(t *testing.T) {
	t.Parallel()
	timeouts := "client_body: 1s, client_header: 1s, client_idle: 1s"
	for _, w := range []rig.RequestType{rig.Chat, rig.Messages} {
		all, legal := (&edge{&rig.ProgramEdge{Edge: new(rig.Edge)}}).ambiguousRequests(w)
		for name := range all {
			t.Run(w.Dialect+"/"+name, func(t *testing.T) {
				t.Parallel()
				e := start(t, rig.Setup{Timeouts: timeouts})
				all, _ := e.ambiguousRequests(w)
				c := e.Dial()
				_ = c.Send(all[name] + e.RequestBytes(w.Path, w.RequestBody("sim", rig.Prompt, "")))
				// The edge may serve the request in its strict interpretation, but must then close
				// the connection.
				once := strings.Contains(name, "trailer")
				r, err := c.TryReadReply("POST")
				switch {
				case err != nil: // the connection was closed without an answer
				case r.Status == 200 && (legal[name] || once):
				case r.Status == 400 || r.Status == 408 || r.Status == 413:
					if !strings.Contains(r.Body, `"error"`) {
						t.Errorf("not the error record: %q", r.Body)
					}
				default:
					t.Errorf("status %d: %s", r.Status, r.Body)
				}
				rest, closed := c.WaitClosed(rig.WaitTimeout)
				if !closed {
					t.Error("the connection stays open")
				}
				most := int64(0)
				if err == nil && r.Status == 200 {
					most++
					if legal[name] {
						most++
					}
				}
				if rest != "" && most < 2 {
					t.Errorf("what follows was answered: %.300q", rest)
				}
				e.WaitIdle()
				if n := e.served(); n > most {
					t.Errorf("%d requests upstream, want at most %d", n, most)
				}
			})
		}
	}
}

// TestFault44_TwoLengths checks that a head with two lengths is rejected, regardless of how much of
// the body is in the same segment.
func TestFault44_TwoLengths(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	for _, w := range []rig.RequestType{rig.Chat, rig.Messages} {
		for _, body := range []string{"", "z", "zz", "zz\r\n", "2\r\n{}\r\n0\r\n\r\n", w.RequestBody("sim", rig.Prompt, "")} {
			c := e.Dial()
			_ = c.Send(e.RequestHead("POST", w.Path, "Content-Type: application/json", "Content-Length: 4", "Transfer-Encoding: chunked") + body)
			r := c.ReadReply("POST").WantStatus(400)
			if !strings.Contains(r.Body, "The head has a Content-Length and a Transfer-Encoding.") {
				t.Errorf("%s with %.20q: answer = %s, want both header fields named", w.Dialect, body, r.Body)
			}
		}
		for says, line := range map[string]string{ // errors must be in the endpoint's dialect
			"Content-Length header": "Content-Length: -1", "Transfer-Encoding header": "Transfer-Encoding: gzip", "no name": ": value",
			"Trailer header": "Trailer: Content-Length",
		} {
			c := e.Dial()
			_ = c.Send(e.RequestHead("POST", w.Path, line))
			r := c.ReadReply("POST")
			r.WantRefused(w, badRequest)
			if !strings.Contains(r.Body, says) {
				t.Errorf("%s with %q: answer = %s, want %s", w.Dialect, line, r.Body, says)
			}
		}
	}
}

// TestFault44_StrictChunks checks that malformed chunks are rejected before the client closes its
// side. Such chunks do not end in CR LF, or have extensions or trailers that do not end.
func TestFault44_StrictChunks(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Models: "- { id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }] }"})
	for _, w := range []rig.RequestType{rig.Chat, rig.Messages, rig.Transcription} {
		body := w.RequestBody("sim", rig.Prompt, "")
		if w == rig.Transcription {
			body = w.RequestBody("ears", rig.Prompt, "")
		}
		whole := fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
		first := fmt.Sprintf("1\r\n%s\r\n", body[:1])
		for name, text := range map[string]string{
			"last line LF":       whole + "0\r\n\n",
			"trailer LF":         whole + "0\r\nX: z\n\r\n",
			"folded trailer":     whole + "0\r\nX: z\r\n y\r\n\r\n",
			"size LF":            first + fmt.Sprintf("%x\n%s\r\n0\r\n\r\n", len(body)-1, body[1:]),
			"data LF":            first + fmt.Sprintf("%x\r\n%s\n0\r\n\r\n", len(body)-1, body[1:]),
			"endless extension":  first + "1;" + strings.Repeat("x", 64<<10),
			"many extensions":    strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\n \r\n", 40),
			"endless trailer":    whole + "0\r\n" + strings.Repeat("x", 64<<10),
			"many trailers":      whole + "0\r\n" + strings.Repeat("X: "+strings.Repeat("x", 100)+"\r\n", 600),
			"behind another one": whole + "0\r\n\r\n" + e.RequestHead("POST", w.Path, w.ContentType(), "Transfer-Encoding: chunked") + whole + "0\r\n\n",
		} {
			t.Run(w.Dialect+"/"+name, func(t *testing.T) {
				t.Parallel()
				c := e.Dial()
				c.T = t
				begun := rig.StartWatch()
				_ = c.Send(e.RequestHead("POST", w.Path, w.ContentType(), "Transfer-Encoding: chunked") + text)
				if name == "behind another one" {
					c.ReadReply("POST").WantStatus(200)
				}
				c.ReadReply("POST").WantStatus(400)
				// The timeouts for the head and the body are 10 and 30 s.
				if took := begun.Elapsed(); took > 8*time.Second+begun.MachineDelay() {
					t.Errorf("it took %v", took)
				}
				if rest, ok := c.WaitClosed(rig.WaitTimeout); !ok || rest != "" {
					t.Errorf("not closed, or more came: %.100q", rest)
				}
			})
		}
	}
}

// TestFault45_BodyOfARefusedRequest checks that a body that looks like a valid request is never
// served as a request.
func TestFault45_BodyOfARefusedRequest(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Limits: "request_body: 64KiB", Timeouts: "client_body: 2s"})
	hidden := e.RequestBytes(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, ""))
	n := "Content-Length: " + strconv.Itoa(len(hidden))
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden)
	te := "Transfer-Encoding: chunked"
	json := "Content-Type: application/json"
	anonymous := func(text string) string {
		return strings.Replace(text, "Authorization: Bearer "+e.Key+"\r\n", "", 1)
	}
	for name, text := range map[string]string{
		"401": anonymous(e.RequestHead("POST", rig.Chat.Path, json, n)) + hidden, "401 chunked": anonymous(e.RequestHead("POST", rig.Messages.Path, json, te)) + chunked,
		"404": e.RequestHead("POST", "/v1/nothing", n) + hidden, "404 chunked": e.RequestHead("POST", "/v1/nothing", te) + chunked,
		"405": e.RequestHead("PUT", rig.Chat.Path, n) + hidden, "405 chunked": e.RequestHead("PATCH", rig.Chat.Path, te) + chunked, "OPTIONS": e.RequestHead("OPTIONS", rig.Chat.Path, n) + hidden, "TRACE": e.RequestHead("TRACE", "/", n) + hidden,
		"415": e.RequestHead("POST", rig.Chat.Path, json, "Content-Encoding: br", n) + hidden, "415 type": e.RequestHead("POST", rig.Chat.Path, "Content-Type: text/plain", te) + chunked,
		"400": e.RequestHead("POST", rig.Chat.Path, json, n) + hidden, "400 chunked": e.RequestHead("POST", rig.Responses.Path, json, te) + chunked,
		"413": e.RequestHead("POST", rig.Chat.Path, json, "Content-Length: 200000") + strings.Repeat(hidden, 200_000/len(hidden)+1), "413 chunked": e.RequestHead("POST", rig.Chat.Path, json, te) + fmt.Sprintf("%x\r\n", 200_000) + strings.Repeat(hidden, 200_000/len(hidden)+1),
		"GET": e.RequestHead("GET", "/v1/models", n) + hidden, "GET chunked": e.RequestHead("GET", "/v1/models", te) + chunked, "HEAD": e.RequestHead("HEAD", "/", n) + hidden, "health": e.RequestHead("GET", "/health", n) + hidden, "openapi": e.RequestHead("GET", "/openapi.json", te) + chunked,
		"bad head": e.RequestHead("POST", rig.Chat.Path, "X Y: z", n) + hidden, "expected": e.RequestHead("POST", "/v1/nothing", "Expect: 100-continue", n) + hidden, "multipart": e.RequestHead("POST", transcriptions, "Content-Type: multipart/form-data; boundary=B", n) + hidden,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := e.exchangeRaw(t, text)
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

// TestFault45_RefusedWhileSendingChunks checks that a client that sends its whole chunked body before
// it reads gets the answer to a request that no endpoint serves. A reset would lose the answer.
func TestFault45_RefusedWhileSendingChunks(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	te, data := "Transfer-Encoding: chunked", strings.Repeat("x", 10_000)
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(data), data)
	for name, row := range map[string]struct {
		head, piece string
		status      int
	}{
		"unknown path": {e.RequestHead("POST", "/v1/nothing", te), chunk, 404},
		"wrong method": {e.RequestHead("POST", "/v1/models", te), chunk, 405},
		"bad head":     {e.RequestHead("POST", "/v1/nothing", "X Y: z", te), chunk, 400},
		"HTTP/1.0":     {strings.Replace(e.RequestHead("POST", "/v1/nothing", "Content-Length: 300000"), "HTTP/1.1", "HTTP/1.0", 1), data, 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 5 {
				c := e.Dial()
				c.T = t
				text := row.head
				for range 31 {
					if err := c.Send(text); err != nil {
						t.Fatalf("cut off while sending: %v", err)
					}
					text = row.piece
				}
				c.ReadReply("POST").WantStatus(row.status)
			}
		})
	}
}

// TestFault45_MultipartEpilogue checks that text after the last boundary is never served as a
// request.
func TestFault45_MultipartEpilogue(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Models: "- { id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }] }"})
	for _, size := range []int{100, 300 << 10} {
		form := formStart("ears") + strings.Repeat("x", size) + "\r\n--B--\r\n"
		hidden := e.RequestBytes(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, ""))
		all := e.exchangeRaw(t, e.RequestHead("POST", transcriptions, "Content-Type: multipart/form-data; boundary=B", "Content-Length: "+strconv.Itoa(len(form)+len(hidden)))+form+hidden)
		// It is also correct not to answer, because a client that has closed its sending side
		// counts as disconnected.
		if n := len(statusLine.FindAllString(all, -1)); n > 1 {
			t.Errorf("%d answers, want at most 1:\n%.1000s", n, all)
		}
	}
	if n := e.served(); n > 2 {
		t.Errorf("%d requests upstream", n)
	}
}

var statusLine = regexp.MustCompile(`HTTP/1\.1 \d\d\d `)
