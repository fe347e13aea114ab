package rawload

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

var errNoLength = errors.New("a message has no Content-Length")

var headEnd = []byte("\r\n\r\n")

// messageLength returns the length of the message that begins with b, or 0 if its head is
// incomplete. A GET request has no body. Other messages must have a Content-Length.
func messageLength(b []byte) (int, error) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		return 0, nil
	}
	head := end + len(headEnd)
	if bytes.HasPrefix(b, []byte("GET ")) {
		return head, nil
	}
	for rest := b[:end]; len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found || !bytes.EqualFold(name, []byte("Content-Length")) {
			continue
		}
		n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
		if err != nil || n < 0 {
			return 0, fmt.Errorf("Content-Length: %q", value)
		}
		return head + n, nil
	}
	return 0, errNoLength
}

// checkStatus returns an error unless the status of a response is 200.
func checkStatus(b []byte) error {
	if bytes.HasPrefix(b, []byte("HTTP/1.1 200 ")) {
		return nil
	}
	line, _, _ := bytes.Cut(b, []byte("\r\n"))
	return fmt.Errorf("the response is %q", line)
}

const modelListJSON = `{"object":"list","data":[{"id":"sim","object":"model"}]}`

// The responses of the engine.
var (
	modelListResponse  = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(modelListJSON), modelListJSON)
	emptyResponse      = []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	completionResponse = newCompletionResponse()
)

// newCompletionResponse returns the response of 1 KB to a chat request.
func newCompletionResponse() []byte {
	const head, tail = `{"id":"chatcmpl-0123456789abcdef","object":"chat.completion","created":1700000000,"model":"sim","choices":[{"index":0,"message":{"role":"assistant","content":"`,
		`"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":200,"total_tokens":300}}`
	text := bytes.Repeat([]byte("lorem ipsum dolor "), 57)[:1024-len(head)-len(tail)]
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1024\r\n\r\n%s%s%s", head, text, tail)
}

// engineResponse returns the engine's response to a request.
func engineResponse(request []byte) []byte {
	switch {
	case bytes.HasPrefix(request, []byte("POST ")):
		return completionResponse
	case bytes.HasPrefix(request, []byte("GET /v1/models ")):
		return modelListResponse
	}
	return emptyResponse
}

// ChatRequest returns a chat request of 1 KB.
func ChatRequest(host, key string) []byte {
	const head, tail = `{"model":"sim","stream":false,"temperature":0.7,"max_tokens":500,"messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"`,
		`"}]}`
	text := bytes.Repeat([]byte(`The quick brown fox said \"no\" to the lazy dog. `), 21)[:1024-len(head)-len(tail)-1]
	return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: 1024\r\n\r\n%s%s.%s",
		host, key, head, text, tail)
}
