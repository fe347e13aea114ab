package load

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// noopServer immediately answers every request with a chat stream from memory, so that only the
// client is measured. The headers X-Null-Tokens and X-Null-Gap set the number of tokens and the
// interval between them. If they are missing, the server's defaults apply.
type noopServer struct {
	ln     net.Listener
	tokens int
	gap    time.Duration
	all    sync.WaitGroup
}

func startNoopServer(tokens int, gap time.Duration) (*noopServer, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &noopServer{ln: ln, tokens: tokens, gap: gap}
	n.all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			n.all.Go(func() {
				n.serve(c)
				c.Close()
			})
		}
	})
	return n, nil
}

func (n *noopServer) url() string { return "http://" + n.ln.Addr().String() }

// close stops the server. The clients must have closed their connections.
func (n *noopServer) close() {
	n.ln.Close()
	n.all.Wait()
}

// Parts of the stream. Each event is a separate chunk.
var (
	noopHead  = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	noopToken = noopChunk(`data: {"id":"null","object":"chat.completion.chunk","created":1,"model":"null","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}`)
)

func noopChunk(data string) []byte {
	data += "\n\n"
	return []byte(strconv.FormatInt(int64(len(data)), 16) + "\r\n" + data + "\r\n")
}

func noopTail(tokens int) []byte {
	n := strconv.Itoa(tokens)
	out := noopChunk(`data: {"id":"null","object":"chat.completion.chunk","created":1,"model":"null","choices":[{"index":0,"delta":{},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":` + n + `,"total_tokens":1}}`)
	out = append(out, noopChunk("data: [DONE]")...)
	return append(out, "0\r\n\r\n"...)
}

func (n *noopServer) serve(c net.Conn) {
	br := bufio.NewReader(c)
	for {
		tokens, gap, length := n.tokens, n.gap, 0
		for {
			line, err := br.ReadSlice('\n')
			if err != nil {
				return
			}
			line = bytes.TrimRight(line, "\r\n")
			if len(line) == 0 {
				break
			}
			name, value, _ := bytes.Cut(line, []byte(": "))
			switch string(name) {
			case "Content-Length":
				length, _ = strconv.Atoi(string(value))
			case "X-Null-Tokens":
				tokens, _ = strconv.Atoi(string(value))
			case "X-Null-Gap":
				gap, _ = time.ParseDuration(string(value))
			}
		}
		if _, err := io.CopyN(io.Discard, br, int64(length)); err != nil {
			return
		}
		if n.answer(c, tokens, gap) != nil {
			return
		}
	}
}

func (n *noopServer) answer(c net.Conn, tokens int, gap time.Duration) error {
	out := append([]byte(nil), noopHead...)
	due := time.Now()
	for i := range tokens {
		if i > 0 && gap > 0 {
			due = due.Add(gap)
			time.Sleep(time.Until(due))
		}
		out = append(out, noopToken...)
		if gap == 0 && i < tokens-1 {
			continue
		}
		if i == tokens-1 {
			out = append(out, noopTail(tokens)...)
		}
		if _, err := c.Write(out); err != nil {
			return err
		}
		out = out[:0]
	}
	return nil
}
