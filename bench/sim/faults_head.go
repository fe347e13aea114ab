package sim

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"penstock/bench/sim/profile"
)

// headFaults are of an answer's head: none, a wrong one, another status, too large, or lengths that
// contradict each other.
var headFaults = []fault{
	{
		name: "garbage-head", usage: "[;kind=binary|nocolon|nostatus|version|space|badlength|negative|nul|encoding]", text: "a head that is not HTTP, then FIN",
		twist: func(t *misbehaviour, a *args) {
			kind := a.oneOf("kind", "binary", keys(garbageHeads)...)
			t.take = func(x *exchange) { x.raw(garbageHeads[kind]) }
		},
	},
	{
		name: "head-cut", usage: "[;reset=1]", text: "half a head, then FIN or RST",
		twist: func(t *misbehaviour, a *args) {
			reset := a.flag("reset")
			t.take = func(x *exchange) {
				x.broken = true
				_, _ = io.WriteString(x.c.nc, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Len")
				if reset {
					x.pause(5 * time.Millisecond)
					x.c.reset()
				}
				x.c.close()
			}
		},
	},
	{
		name: "status-101", text: "101 Switching Protocols, then silence",
		twist: func(t *misbehaviour, _ *args) {
			t.take = func(x *exchange) {
				x.broken = true
				_, _ = io.WriteString(x.c.nc,
					"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
				x.hang()
			}
		},
	},
	{
		name: "status-999", text: "a good answer under status 999",
		twist: func(t *misbehaviour, _ *args) { t.status = 999 },
	},
	{
		name: "http09", text: "a body without any head, then FIN",
		twist: func(t *misbehaviour, _ *args) {
			t.take = func(x *exchange) { x.raw(`{"id":"chatcmpl-09","object":"chat.completion","choices":[]}` + "\n") }
		},
	},
	{
		name: "interim", usage: "[=3][;code=103]", text: "so many 1xx heads before the answer",
		twist: func(t *misbehaviour, a *args) { t.interim, t.interimCode = a.number(3), a.num("code", 103) },
	},
	{
		name: "redirect", usage: "[=307][;to=URL]", text: "a redirect, by default to /sim/redirected of this engine, which counts visits in stats as followed",
		twist: func(t *misbehaviour, a *args) {
			code, to := a.number(307), a.str("to", "")
			t.take = func(x *exchange) {
				if to == "" {
					to = x.e.URL() + "/sim/redirected"
				}
				x.t.lines = append(x.t.lines, "Location: "+to+"\r\n"...)
				x.reply(code, "text/plain", []byte("moved\n"))
			}
		},
	},
	{
		name: "status", usage: "=NNN[;retry-after=SECONDS|DATE][;html=1][;empty=1][;message=TEXT][;type=TYPE]", text: "an error status with the profile's own body; html: a page that names a host",
		twist: func(t *misbehaviour, a *args) {
			code := a.number(500)
			if code < 200 || code > 999 {
				a.fail("status is 200 to 999")
			}
			html, empty, retry := a.flag("html"), a.flag("empty"), a.str("retry-after", "")
			message, kind := a.str("message", ""), a.str("type", "")
			t.take = func(x *exchange) {
				if message == "" {
					message = statusText(code)
				}
				if retry != "" {
					x.t.lines = append(x.t.lines, "Retry-After: "+retry+"\r\n"...)
				}
				switch {
				case empty:
					x.reply(code, "", nil)
				case html:
					x.reply(code, "text/html", htmlPage(code))
				default:
					x.fail(profile.APIError{Status: code, Message: message, Kind: kind})
				}
			}
		},
	},
	{
		name: "no-content", text: "204 without a body",
		twist: func(t *misbehaviour, _ *args) {
			t.take = func(x *exchange) {
				x.status, x.headed, x.closing = 204, true, !x.req.keep
				x.out = append(x.out, "HTTP/1.1 204 No Content\r\n\r\n"...)
				x.conclude()
			}
		},
	},
	{
		name: "huge-header", usage: "[=307200][;lines=0]", text: "so many bytes of header lines, in lines of 1 KB or (lines=1) in one",
		twist: func(t *misbehaviour, a *args) {
			n, one := a.number(300<<10), a.num("lines", 0) == 1
			t.filler = func(dst []byte) []byte {
				for i, left := 0, n; left > 0; i++ {
					k := min(left, 1000)
					if one {
						k = left
					}
					dst = fmt.Appendf(dst, "X-Filler-%d: ", i)
					dst = append(dst, bytes.Repeat([]byte("f"), k)...)
					dst = append(dst, "\r\n"...)
					left -= k
				}
				return dst
			}
		},
	},
	{
		name: "endless-header", text: "header lines that never end",
		twist: func(t *misbehaviour, _ *args) {
			t.take = func(x *exchange) {
				x.out = append(x.out, "HTTP/1.1 200 OK\r\n"...)
				x.endless([]byte("X-Filler: "+strings.Repeat("f", 1000)+"\r\n"), false)
			}
		},
	},
	{
		name: "leak-headers", text: "Set-Cookie, CORS, hop-by-hop and internal headers on a good answer",
		twist: func(t *misbehaviour, _ *args) {
			t.lines = append(t.lines, "Set-Cookie: sid="+LeakedSecret+"; Path=/\r\nX-Internal-Secret: "+LeakedSecret+
				"\r\nX-Served-By: "+LeakedHost+"\r\nX-Powered-By: Python/3.12\r\nVia: 1.1 "+LeakedHost+
				"\r\nAccess-Control-Allow-Origin: *\r\nAccess-Control-Allow-Credentials: true\r\nAlt-Svc: h3=\":443\""+
				"\r\nStrict-Transport-Security: max-age=1\r\nProxy-Authenticate: Basic\r\nTrailer: X-Late\r\n"...)
		},
	},
	{
		name: "two-content-length", usage: "[;same=1]", text: "two Content-Length lines that differ, or agree",
		twist: func(t *misbehaviour, a *args) {
			t.framing = twoLengths
			if a.flag("same") {
				t.framing = sameLengths
			}
		},
	},
	{
		name: "te-and-cl", text: "Transfer-Encoding: chunked and a Content-Length",
		twist: func(t *misbehaviour, _ *args) { t.framing = teAndLength },
	},
}
