package fault

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"penstock/bench/sim/profile"
)

// ForgedText is in the second reply of surplus and second-reply, which must never reach a client.
// Tests look for it, and for what profile leaks.
const ForgedText = "this reply was forged"

// StatusText is what engines say with a status.
func StatusText(code int) string {
	if text := statusTexts[code]; text != "" {
		return text
	}
	if code >= 500 {
		return "EngineCore on " + profile.LeakedHost +
			" failed: CUDA error: an illegal memory access was encountered (" + profile.LeakedPath + "/model-00001.safetensors)"
	}
	return http.StatusText(code)
}

var statusTexts = map[int]string{
	400: "Bad request: 'temperature' must be non-negative",
	401: "Unauthorized",
	403: "Forbidden",
	404: "The model `sim` does not exist.",
	413: "Request body is too large: the limit is 1048576 bytes",
	422: "Input should be a valid integer: max_tokens",
	429: "Rate limit reached for requests",
	503: "The request queue is full.",
}

func htmlPage(code int) string {
	title := fmt.Sprintf("%d %s", code, http.StatusText(code))
	return "<html>\r\n<head><title>" + title + "</title></head>\r\n<body>\r\n<center><h1>" + title +
		"</h1></center>\r\n<hr><center>nginx/1.24.0 at " + profile.LeakedHost + "</center>\r\n</body>\r\n</html>\r\n"
}

// ForgedReply is a whole answer that nobody asked for.
func ForgedReply() []byte {
	const body = `{"id":"chatcmpl-forged","object":"chat.completion","created":1,"model":"sim","choices":[` +
		`{"index":0,"message":{"role":"assistant","content":"` + ForgedText + `"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
}

var garbageHeads = map[string]string{
	"binary":    "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1 not HTTP at all\r\n\r\n",
	"nocolon":   "HTTP/1.1 200 OK\r\nthis line has no colon\r\nContent-Length: 2\r\n\r\n{}",
	"nostatus":  "HTTP/1.1 OK\r\nContent-Length: 2\r\n\r\n{}",
	"version":   "HTTP/7.3 200 OK\r\nContent-Length: 2\r\n\r\n{}",
	"space":     "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n{}",
	"badlength": "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}",
	"negative":  "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
	"nul":       "HTTP/1.1 200 OK\r\nX-Nul: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
	"encoding":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip, identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
}

var badChunks = map[string]string{
	"size":     "zz\r\n{}\r\n",
	"negative": "-5\r\nhello\r\n",
	"huge":     "ffffffffffffffff1\r\nhello\r\n",
	"nocrlf":   "5\r\nhelloworld\r\n",
	"empty":    "\r\n",
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// leakedLines are header lines that an edge must not pass on.
const leakedLines = "Set-Cookie: sid=" + profile.LeakedSecret + "; Path=/\r\n" +
	"X-Internal-Secret: " + profile.LeakedSecret + "\r\n" +
	"X-Served-By: " + profile.LeakedHost + "\r\nX-Powered-By: Python/3.12\r\nVia: 1.1 " + profile.LeakedHost +
	"\r\nAccess-Control-Allow-Origin: *\r\nAccess-Control-Allow-Credentials: true\r\nAlt-Svc: h3=\":443\"" +
	"\r\nStrict-Transport-Security: max-age=1\r\nProxy-Authenticate: Basic\r\nTrailer: X-Late\r\n"

// fillerLines are n bytes of header lines, in lines of 1 KB or in one.
func fillerLines(n int, one bool) []byte {
	var dst []byte
	for i := 0; n > 0; i++ {
		k := min(n, 1000)
		if one {
			k = n
		}
		dst = fmt.Appendf(dst, "X-Filler-%d: %s\r\n", i, strings.Repeat("f", k))
		n -= k
	}
	return dst
}

// Text is the table for people.
func Text() string {
	var b strings.Builder
	width := 0
	for _, f := range table {
		width = max(width, len(f.name+f.usage))
	}
	width = min(width, 44)
	for _, f := range table {
		sep := strings.Repeat(" ", max(0, width-len(f.name+f.usage)))
		if len(f.name+f.usage) > width {
			sep = "\n" + strings.Repeat(" ", width)
		}
		fmt.Fprintf(&b, "%s%s  %s\n", f.name+f.usage, sep, f.text)
	}
	b.WriteString("\nNAME[=VALUE][;param=value…], several joined by +; every fault takes delay=DURATION.\n" +
		"By header X-Sim-Fault, by JSON member \"sim\":{\"fault\":\"…\"}," +
		" by [[sim {\"fault\":\"…\"}]] in the last user message,\n" +
		"or for all: POST /sim/fault {\"fault\":\"…\",\"count\":N,\"after\":N,\"share\":0.1,\"path\":\"…\"};" +
		" POST /sim/reset clears.\n")
	return b.String()
}

// Names are the names of all faults, in the order of the table.
func Names() []string {
	names := make([]string, len(table))
	for i := range table {
		names[i] = table[i].name
	}
	return names
}
