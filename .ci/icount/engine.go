package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// workload is a row of the table: the clients' requests and the engine's answers.
type workload struct {
	name     string
	size     int           // bytes of the request body
	stream   bool          // the answer is a stream that sends a token every gap
	tokens   int           // tokens of a stream
	gap      time.Duration // time between two tokens of a stream
	clients  int           // number of connections, each with one request at a time
	requests int           // number of counted requests; the warm-up sends a quarter of that number
	perToken bool          // the unit is a token rather than a request
	targets  int           // number of engines that serve the model
}

var workloads = []workload{
	{name: "1KB", size: 1024, clients: 8, requests: 3000, targets: 1},
	{name: "1KB, four targets", size: 1024, clients: 8, requests: 3000, targets: 4},
	{name: "100KB", size: 100 << 10, clients: 8, requests: 600, targets: 1},
	{name: "100KB, four targets", size: 100 << 10, clients: 8, requests: 600, targets: 4},
	{name: "short stream", size: 1024, stream: true, tokens: 8, gap: 5 * time.Millisecond, clients: 16, requests: 800, targets: 1},
	{name: "token", size: 1024, stream: true, tokens: 100, gap: 20 * time.Millisecond, clients: 20, requests: 100, perToken: true, targets: 1},
	{name: "token, four targets", size: 1024, stream: true, tokens: 100, gap: 20 * time.Millisecond, clients: 20, requests: 100, perToken: true, targets: 4},
}

// systemCallWorkload returns the workload whose system calls are counted. The goal of a token was
// measured on 50 running streams. If the streams are long, less than 2 % of the system calls open
// or end a stream.
func (w *workload) systemCallWorkload() *workload {
	if !w.perToken {
		return w
	}
	long := *w
	long.clients, long.requests, long.tokens = 50, 50, 300
	return &long
}

var streamedHead = []byte(`{"model":"m","stream":true,`)

// body returns the body of all requests, which is prose with the usual JSON escapes.
func (w *workload) body() []byte {
	head := `{"model":"m","stream":false,`
	if w.stream {
		head = string(streamedHead) + `"stream_options":{"include_usage":true},`
	}
	head += `"temperature":0.7,"max_tokens":500,"messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"`
	const end, sentence = `"}]}`, `The quick brown fox said \"no\" to the lazy dog.\n`
	n := w.size - len(head) - len(end)
	text := strings.Repeat(sentence, n/len(sentence))
	return []byte(head + text + strings.Repeat("A", n-len(text)) + end)
}

const modelsResponse = `{"object":"list","data":[{"id":"m","object":"model"}]}`

const chunkHead = `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[`

// engine answers on a loopback address until its listener closes.
type engine struct {
	*workload
	whole []byte // head and body of an answer that is not streamed
}

func startEngine(w *workload) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	body := `{"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("lorem ipsum dolor ", 39)[:694] +
		`","tool_calls":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":200,"total_tokens":300,"prompt_tokens_details":null}}`
	e := &engine{w, fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nServer: engine\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go e.serve(c)
		}
	}()
	return l, nil
}

func (e *engine) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, e.size+4<<10)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		switch {
		case req.Method != http.MethodPost && req.URL.Path == "/v1/models":
			_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(modelsResponse), modelsResponse)
		case req.Method != http.MethodPost:
			_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		case bytes.HasPrefix(body, streamedHead):
			err = e.streamTokens(c)
		default:
			_, err = c.Write(e.whole)
		}
		if err != nil {
			return
		}
	}
}

// streamTokens sends a stream. Each event is a separate write.
func (e *engine) streamTokens(c net.Conn) error {
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nServer: engine\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		return err
	}
	event := chunkHead + `{"index":0,"delta":{"content":"` + strings.Repeat("x", 27) + `"},"finish_reason":null}]}` + "\n\n"
	token := fmt.Appendf(nil, "%x\r\n%s\r\n", len(event), event)
	for range e.tokens {
		if _, err := c.Write(token); err != nil {
			return err
		}
		time.Sleep(e.gap)
	}
	var end bytes.Buffer
	for _, event := range []string{
		chunkHead + `{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n",
		chunkHead + `],"usage":{"prompt_tokens":100,"completion_tokens":500,"total_tokens":600}}` + "\n\n",
		"data: [DONE]\n\n",
	} {
		fmt.Fprintf(&end, "%x\r\n%s\r\n", len(event), event)
	}
	end.WriteString("0\r\n\r\n")
	_, err := c.Write(end.Bytes())
	return err
}
