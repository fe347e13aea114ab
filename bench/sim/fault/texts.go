package fault

import (
	"fmt"
	"net/http"
	"strings"

	"penstock/bench/sim/profile"
)

// ForgedText is in the second response of the faults "surplus" and "second-reply". That response
// must never reach a client. Tests look for this text and for the texts that package profile leaks.
const ForgedText = "this reply was forged"

// StatusText returns the text that engines send with a status.
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

// HTMLPage returns an error page that contains a host name.
func HTMLPage(code int) string {
	title := fmt.Sprintf("%d %s", code, http.StatusText(code))
	return "<html>\r\n<head><title>" + title + "</title></head>\r\n<body>\r\n<center><h1>" + title +
		"</h1></center>\r\n<hr><center>nginx/1.24.0 at " + profile.LeakedHost + "</center>\r\n</body>\r\n</html>\r\n"
}

// ForgedReply returns a complete response that does not belong to any request.
func ForgedReply() []byte {
	const body = `{"id":"chatcmpl-forged","object":"chat.completion","created":1,"model":"sim","choices":[` +
		`{"index":0,"message":{"role":"assistant","content":"` + ForgedText + `"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
}

// FillerLines returns header lines with a total size of Filler bytes. Each line has 1 KB. If
// OneFiller is set, there is only a single line.
func (e *Effects) FillerLines() (lines string) {
	size := 1000
	if e.OneFiller {
		size = e.Filler
	}
	for i, n := 0, e.Filler; n > 0; i, n = i+1, n-size {
		lines += fmt.Sprintf("X-Filler-%d: %s\r\n", i, strings.Repeat("f", min(n, size)))
	}
	return lines
}
