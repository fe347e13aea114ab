package faults

import (
	"fmt"
	"strings"
	"testing"

	"penstock/proxy/e2e/rig"
)

// These tests cover variants of rows 5, 10, 17, 21 and 29. They use the exact bytes of answers that
// engines, gateways and other servers have sent or could send.

// rawReply is an answer as bytes. If want is empty, the client must receive the text "Good.".
type rawReply struct {
	name string
	text string
	want rig.Refusal
}

// playRaw requests each answer with each type of request. After an answer, the fake engine closes
// the connection unless the answer's name contains "kept". Each answer has a separate model.
func playRaw(t *testing.T, ways []rig.RequestType, replies []rawReply) {
	t.Helper()
	for _, w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			var ups, models strings.Builder
			for i, c := range replies {
				fmt.Fprintf(&ups, "- { name: raw-%d, url: %q, engine: sim, %s }\n", i, startFakeEngine(t, c.play).url, rig.QuietProbes)
				fmt.Fprintf(&models, "- { id: raw-%d, deployments: [{ upstream: raw-%d, served: sim }] }\n", i, i)
			}
			e := start(t, rig.Setup{Upstreams: ups.String(), Models: models.String(), Timeouts: "answer: 10s, first_event: 10s, idle: 10s"})
			for i, c := range replies {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					r := e.Post(w.Path, w.RequestBody(fmt.Sprintf("raw-%d", i), rig.Prompt, ""))
					r.T = t
					if c.want != (rig.Refusal{}) {
						r.WantRefused(w, c.want)
						return
					}
					if text := r.VisibleText(w); text != "Good." {
						t.Errorf("the answer is %q", text)
					}
				})
			}
		})
	}
}

func (c *rawReply) play(call *fakeCall) {
	call.send(c.text)
	switch {
	case !strings.Contains(c.name, "kept"):
		call.Close()
	case c.want != (rig.Refusal{}):
		call.waitClosed()
	}
}

func plainReply(lines string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", lines, len(plainAnswer), plainAnswer)
}

func bodyReply(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func chunks(body string) string {
	var b strings.Builder
	for len(body) > 0 {
		n := min(len(body), 100)
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

const chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"

func TestFault05_Neighbours(t *testing.T) {
	t.Parallel()
	fail := func(name, text string) rawReply { return rawReply{name, text, rig.RefusalBadResponse} }
	good := func(name, text string) rawReply { return rawReply{name, text, rig.Refusal{}} }
	playRaw(t, rig.UnstreamedRequestTypes, []rawReply{
		good("plain, kept", plainReply("")),
		good("http 1.0 without a length", "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"+plainAnswer),
		good("no reason phrase", strings.Replace(plainReply(""), "200 OK", "200 ", 1)),
		good("header names in capitals, blanks around values", strings.Replace(plainReply("X-A:   b  \r\n"), "Content-Type:", "CONTENT-TYPE:  ", 1)),
		good("empty header value", plainReply("X-Empty:\r\n")),
		good("charset", strings.Replace(plainReply(""), "application/json", "application/json; charset=utf-8", 1)),
		good("hundred header lines", plainReply(strings.Repeat("X-Line: value\r\n", 100))),
		good("chunk extensions", chunkedHead+strings.Replace(chunks(plainAnswer), "\r\n", ";a=b\r\n", 1)),
		good("trailers", chunkedHead+strings.TrimSuffix(chunks(plainAnswer), "\r\n")+"X-Trailer: yes\r\n\r\n"),
		good("chunk sizes in capitals and zeros", chunkedHead+"00"+strings.ToUpper(fmt.Sprintf("%x", len(plainAnswer)))+"\r\n"+plainAnswer+"\r\n0\r\n\r\n"),
		fail("nothing but line ends, kept", "\r\n\r\n\r\n"+strings.Repeat("\r\n", 100)),
		fail("http 2 settings", "\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80\x00\x04\x00\x01\x00\x00\x00\x05\x00\xff\xff\xff"),
		fail("tls alert", "\x15\x03\x01\x00\x02\x02\x46"),
		fail("ssh", "SSH-2.0-OpenSSH_9.6\r\n"),
		fail("http 2 in the status line", strings.Replace(plainReply(""), "HTTP/1.1", "HTTP/2.0", 1)),
		fail("status of two digits", strings.Replace(plainReply(""), "200 OK", "20 OK", 1)),
		fail("status of four digits", strings.Replace(plainReply(""), "200 OK", "2000 OK", 1)),
		fail("negative status", strings.Replace(plainReply(""), "200 OK", "-200 OK", 1)),
		fail("folded header", plainReply("X-Folded: a\r\n b\r\n")),
		fail("blank before the colon", plainReply("X-Blank : a\r\n")),
		fail("length with a plus", strings.Replace(plainReply(""), "Content-Length: ", "Content-Length: +", 1)),
		fail("length in hex", strings.Replace(plainReply(""), "Content-Length: ", "Content-Length: 0x", 1)),
		fail("two lengths in a line", strings.Replace(plainReply(""), "Content-Length: ", "Content-Length: 3, ", 1)),
		fail("length too large for any number", strings.Replace(plainReply(""), "Content-Length: ", "Content-Length: 99999999999999999999", 1)),
		fail("length of terabytes", strings.Replace(plainReply(""), "Content-Length: ", "Content-Length: 999999999999", 1)),
		fail("transfer encoding twice", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks(plainAnswer)),
		fail("transfer encoding of another kind", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"+chunks(plainAnswer)),
		fail("chunk size with a sign", chunkedHead+"+"+chunks(plainAnswer)),
		fail("chunk size with a blank before", chunkedHead+" "+chunks(plainAnswer)),
		fail("chunk size too large", chunkedHead+"ffffffffffffffff1\r\n"+plainAnswer),
		fail("chunk size without end, kept", chunkedHead+strings.Repeat("0", 100_000)),
		fail("continue and no more", "HTTP/1.1 100 Continue\r\n\r\n"),
		fail("a no-content that is interim", "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"),
		fail("partial content", strings.Replace(plainReply(""), "200 OK", "206 Partial Content", 1)),
		fail("created", strings.Replace(plainReply(""), "200 OK", "201 Created", 1)),
		fail("not modified", "HTTP/1.1 304 Not Modified\r\n\r\n"),
	})
}

func TestFault21_Neighbours(t *testing.T) {
	t.Parallel()
	fail := func(name, text string) rawReply { return rawReply{name, text, rig.RefusalBadResponse} }
	var list []rawReply
	for name, body := range map[string]string{
		"null": `null`, "number": `42`, "string": `"Good."`, "array": `[` + plainAnswer + `]`, "empty object": `{}`,
		"choices are an object": `{"choices":{"message":{"content":"Good."}}}`, "choices are null": `{"choices":null}`, "a choice is null": `{"choices":[null]}`,
		"a choice without a message":  `{"choices":[{"index":0,"finish_reason":"stop"}]}`,
		"a message that is text":      `{"choices":[{"index":0,"message":"Good.","finish_reason":"stop"}]}`,
		"content is a number":         strings.Replace(plainAnswer, `"Good."`, `17`, 1),
		"a refusal that is an object": strings.Replace(plainAnswer, `"Good."`, `null,"refusal":{}`, 1),
		"calls that are text":         strings.Replace(plainAnswer, `"Good."`, `null,"tool_calls":"f()"`, 1),
		"two documents":               plainAnswer + plainAnswer, "a comma behind": plainAnswer + ",", "a comma within": strings.Replace(plainAnswer, `"choices"`, `,"choices"`, 1),
		"not UTF-8": strings.Replace(plainAnswer, "Good.", "Good\xff.", 1), "raw line end": strings.Replace(plainAnswer, "Good.", "Go\nod.", 1),
		"only a lone surrogate's half is cut": strings.TrimSuffix(plainAnswer, "}"),
		"deep":                                strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000),
		"an array of a million":               `{"choices":[` + strings.Repeat("1,", 1_000_000) + `1]}`,
		"an SSE event":                        "data: " + plainAnswer + "\n\n",
		"a page":                              "<!DOCTYPE html><html><body>It works!</body></html>",
	} {
		list = append(list, fail(name, bodyReply(body)))
	}
	list = append(list,
		rawReply{"blanks around", bodyReply(" \n\t" + plainAnswer + "\r\n "), rig.Refusal{}},
		rawReply{"content in members that nobody knows", bodyReply(strings.Replace(plainAnswer, `"choices"`, `"novelty":{"a":[1,null]},"choices"`, 1)), rig.Refusal{}},
		rawReply{"length zero, kept", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n", rig.RefusalBadResponse},
		// Some gateways send an error object with status 200, which must count as an engine failure
		// rather than as an answer.
		rawReply{"an error as the answer", bodyReply(`{"error":{"message":"out of memory at /srv/models/secret-checkpoint","type":"server_error","code":500}}`), rig.RefusalEngineFailed},
	)
	playRaw(t, rig.UnstreamedRequestTypes, list)
}

func streamReply(events string) string {
	return strings.Replace(chunkedHead, "application/json", "text/event-stream", 1) + chunks(events)
}

// goodEvents returns the stream of a successful answer, without its end.
func goodEvents() string {
	return "data: " + strings.Join(streamAnswer, "\n\ndata: ") + "\n\n"
}

func TestFault19_Neighbours(t *testing.T) {
	t.Parallel()
	done := "data: [DONE]\n\n"
	good := func(name, text string) rawReply { return rawReply{name, text, rig.Refusal{}} }
	playRaw(t, rig.StreamRequestTypes, []rawReply{
		good("media type in capitals", strings.Replace(streamReply(goodEvents()+done), "text/event-stream", "Text/Event-Stream; Charset=UTF-8", 1)),
		good("plain, kept", streamReply(goodEvents()+done)),
		good("as plain text", strings.Replace(streamReply(goodEvents()+done), "text/event-stream", "text/plain; charset=utf-8", 1)),
		good("as JSON", strings.Replace(streamReply("\r\n: a comment\n\n"+goodEvents()+done), "text/event-stream", "application/json", 1)),
		good("without a media type", strings.Replace(streamReply(goodEvents()+done), "Content-Type: text/event-stream\r\n", "", 1)),
		good("a whole answer", plainReply("")),
		good("a whole answer in chunks", chunkedHead+chunks("\n"+strings.ReplaceAll(plainAnswer, `,"`, ",\n\""))),
		{"a whole answer that is cut", bodyReply(strings.TrimSuffix(plainAnswer, "}")), rig.RefusalBadResponse},
		{"an answer that breaks off", strings.Replace(plainReply(""), "Content-Length: ", "Content-Length: 9", 1), rig.RefusalBadResponse},
		{"a page as HTML", strings.Replace(bodyReply("<html>It works!</html>"), "application/json", "text/html", 1), rig.RefusalBadResponse},
		good("blanks after done", streamReply(goodEvents()+"data:  [DONE]  \n\n")),
		good("empty events between", streamReply(strings.ReplaceAll(goodEvents(), "\n\n", "\n\n\n\n\n\n")+done)),
		good("data without a value", streamReply("data:\n\ndata\n\n"+goodEvents()+done)),
		good("unknown fields", streamReply("weather: fine\nid: 1\nretry: 5\n\n"+goodEvents()+done)),
		good("events of another name", streamReply("event: ping\ndata: {\"type\":\"ping\"}\n\n"+goodEvents()+done)),
		good("events behind the end", streamReply(goodEvents()+done+goodEvents()+done)),
		good("usage in a chunk without choices", streamReply(goodEvents()+`data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`+"\n\n"+done)),
		good("choices that are empty first", streamReply(`data: {"choices":[],"prompt_filter_results":[{"prompt_index":0}]}`+"\n\n"+goodEvents()+done)),
		good("content null first", streamReply(`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}`+"\n\n"+goodEvents()+done)),
		good("finish reason twice", streamReply(goodEvents()+"data: "+streamAnswer[2]+"\n\n"+done)),
		{"nothing", streamReply(""), rig.RefusalBadResponse},
		{"done alone", streamReply(done), rig.RefusalBadResponse},
		{"comments alone", streamReply(strings.Repeat(": still here\n\n", 20)), rig.RefusalBadResponse},
		{"null", streamReply("data: null\n\n" + done), rig.RefusalBadResponse},
		{"a number", streamReply("data: 17\n\n" + done), rig.RefusalBadResponse},
		{"text", streamReply("data: Good.\n\n" + done), rig.RefusalBadResponse},
		{"choices null", streamReply(`data: {"choices":null}` + "\n\n" + done), rig.RefusalBadResponse},
		{"choice null", streamReply(`data: {"choices":[null]}` + "\n\n" + done), rig.RefusalBadResponse},
		{"delta a string", streamReply(`data: {"choices":[{"index":0,"delta":"Good."}]}` + "\n\n" + done), rig.RefusalBadResponse},
		{"content a number", streamReply(`data: {"choices":[{"index":0,"delta":{"content":17}}]}` + "\n\n" + done), rig.RefusalBadResponse},
		{"calls that are text", streamReply(`data: {"choices":[{"index":0,"delta":{"tool_calls":"f()"}}]}` + "\n\n" + done), rig.RefusalBadResponse},
		{"an index of a million", streamReply(`data: {"choices":[{"index":1000000,"delta":{"content":"a"}}]}` + "\n\n" + done), rig.RefusalBadResponse},
		{"an index below zero", streamReply(`data: {"choices":[{"index":-1,"delta":{"content":"a"}}]}` + "\n\n" + done), rig.RefusalBadResponse},
		{"not UTF-8", streamReply(strings.Replace(goodEvents(), `"Go"`, "\"G\xff\"", 1) + done), rig.RefusalBadResponse},
		{"a page", streamReply("<!DOCTYPE html><html><body>It works!</body></html>"), rig.RefusalBadResponse},
	})
}

func TestFault17_Neighbours(t *testing.T) {
	t.Parallel()
	var first, later []rawReply
	for name, event := range map[string]string{
		"vLLM":                  `data: {"object":"error","message":"died in /srv/models/secret-checkpoint","type":"InternalServerError","param":null,"code":500}`,
		"vLLM, new":             `data: {"error":{"message":"died in /srv/models/secret-checkpoint","type":"InternalServerError","param":null,"code":500}}`,
		"SGLang":                `data: {"error":{"object":"error","message":"died in /srv/models/secret-checkpoint","type":"InternalServerError","code":500}}`,
		"error text":            `data: {"error":"died in /srv/models/secret-checkpoint"}`,
		"event name":            "event: error\ndata: {\"message\":\"died in /srv/models/secret-checkpoint\"}",
		"event name, not JSON":  "event: error\ndata: died in /srv/models/secret-checkpoint",
		"llama.cpp error field": `error: {"code":500,"message":"died in /srv/models/secret-checkpoint","type":"server_error"}`,
	} {
		want := rig.RefusalEngineFailed
		if strings.HasPrefix(name, "llama.cpp") { // an unknown SSE field, so the stream has no answer
			want = rig.RefusalBadResponse
		}
		first = append(first, rawReply{name, streamReply(event + "\n\ndata: [DONE]\n\n"), want})
		later = append(later, rawReply{name, streamReply("data: " + streamAnswer[0] + "\n\n" + event + "\n\ndata: [DONE]\n\n"), want})
	}
	t.Run("first", func(t *testing.T) {
		t.Parallel()
		playRaw(t, rig.StreamRequestTypes, first)
	})
	t.Run("later", func(t *testing.T) {
		t.Parallel()
		for _, c := range later {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				f := startFakeEngine(t, c.play)
				forEachRequestType(t, rig.StreamRequestTypes, rig.Setup{Fakes: []string{f.url}, Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
					e.SendRequest(w, "").WantBrokenStream(w, c.want.Code)
				})
			})
		}
	})
}

func TestFault29_Neighbours(t *testing.T) {
	t.Parallel()
	busy := func(after string) string {
		return "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\n" + after + "Content-Length: 4\r\n\r\nbusy"
	}
	var list []rawReply
	for value, want := range map[string]string{
		"0": "1", "1.5": "", "5 seconds": "1", "0x10": "1", "99999999999999999999": "", "": "1", "  8  ": "8", "+3": "", "61": "60",
	} {
		list = append(list, rawReply{fmt.Sprintf("retry after %q", value), busy("Retry-After: " + value + "\r\n"), rig.Refusal{Status: 429, Kind: "rate_limit_error", Code: "capacity_full", After: want}})
	}
	list = append(list,
		rawReply{"two of them", busy("Retry-After: 5\r\nRetry-After: 9\r\n"), rig.RefusalCapacityFull},
		rawReply{"a long page", "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\n\r\n" + strings.Repeat("<p>nginx</p>", 100_000), rig.RefusalNoRoute},
		rawReply{"a body that never comes, kept", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\n", rig.RefusalNoRoute},
		rawReply{"a body cut short", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\nhalf", rig.RefusalNoRoute},
		rawReply{"a broken chunk", "HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", rig.RefusalNoRoute},
	)
	playRaw(t, rig.TextRequestTypes, list)
}
