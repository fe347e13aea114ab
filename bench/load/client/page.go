package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"penstock/bench/exit"
	"penstock/translate/jsonx"
)

// fetchedPage is the response to a request that is not part of the load.
type fetchedPage struct {
	Status   int
	Body     []byte
	Upstream string        // the upstream reported by an edge, or empty
	Queue    time.Duration // the wait reported by an edge, or 0
}

// Fetch sends a GET or, if there is a body, a POST. Use it for small requests that are not part of
// the load.
func (t *Target) Fetch(ctx context.Context, path string, body []byte, headers []byte) (*fetchedPage, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return t.FetchWithoutTimeout(ctx, path, body, headers)
}

// FetchWithoutTimeout is like Fetch, but has no timeout.
func (t *Target) FetchWithoutTimeout(ctx context.Context, path string, body []byte, headers []byte) (*fetchedPage, error) {
	c, err := t.acquireConn(ctx, true)
	if err != nil {
		return nil, err
	}
	defer c.release(false)
	nc := c.Conn // the function may run after c was released
	defer context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })()
	method := "GET"
	if body != nil {
		method = "POST"
	}
	head := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: penstock-bench\r\nConnection: close\r\n%s", method, path, t.host, headers)
	if body != nil {
		head = fmt.Appendf(head, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	if _, err := c.Write(append(append(head, "\r\n"...), body...)); err != nil {
		return nil, err
	}
	if err := c.readHead(); err != nil {
		return nil, err
	}
	text, err := c.readAll()
	if err != nil {
		return nil, err
	}
	queue, _ := strconv.Atoi(string(c.head.Peek("X-Penstock-Queue-Ms"))) // 0 without an edge
	return &fetchedPage{
		c.head.StatusCode(), bytes.Clone(text), string(c.head.Peek("X-Penstock-Upstream")), time.Duration(queue) * time.Millisecond,
	}, nil
}

// ListModels returns the models that the target lists. The error explains how to fix the problem.
func (t *Target) ListModels(ctx context.Context, wait time.Duration) ([]string, error) {
	for begin := time.Now(); ; {
		p, err := t.Fetch(ctx, t.Path+"/v1/models", nil, t.Headers)
		switch {
		case err != nil && time.Since(begin) < wait && ctx.Err() == nil:
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
			continue
		case err != nil:
			return nil, exit.Usagef("%s cannot be reached: %s", t.Base, DescribeNetworkError(err))
		case p.Status == 401 || p.Status == 403:
			return nil, exit.Usagef("%s refuses the key (status %d): give one by PENSTOCK_API_KEY or --api-key", t.Base, p.Status)
		case p.Status != 200:
			return nil, nil // the target has no such page, so --model must name the model
		}
		var doc jsonx.Doc
		_ = doc.Parse(p.Body, jsonx.Options{}) // a page that is not JSON lists no models
		var out []string
		for it := doc.Root().Get("data").Iter(); it.Next(); {
			if id := it.Value().Get("id"); id.IsString() {
				out = append(out, string(id.AppendText(nil)))
			}
		}
		return out, nil
	}
}

// DescribeNetworkError describes a network error briefly.
func DescribeNetworkError(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens there"
	case errors.As(err, &dns):
		return "no such host: " + dns.Name
	case errors.As(err, &op) && op.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it closed the connection without an answer"
	}
	return err.Error()
}

// enginePages lists pages that only one kind of engine serves. The first page that responds with
// 200 identifies the engine.
var enginePages = []struct{ path, engine string }{
	{"/sim/stats", "sim"},
	{"/props", "llamacpp"},
	{"/get_server_info", "sglang"},
	{"/api/version", "ollama"},
	{"/version", "vllm"},
}

// DetectEngine returns the kind of server at a target. It requests pages that only one kind of
// server has. If the target serves none of these pages, DetectEngine returns "".
func (t *Target) DetectEngine(ctx context.Context) string {
	if p, err := t.Fetch(ctx, t.Path+"/openapi.json", nil, nil); err == nil && p.Status == 200 &&
		strings.Contains(string(p.Body), "Penstock") {
		return "edge"
	}
	for _, x := range enginePages {
		if p, err := t.Fetch(ctx, t.Path+x.path, nil, t.Headers); err == nil && p.Status == 200 {
			return x.engine
		}
	}
	return ""
}

// Post sends a POST request to any server. The error describes the problem in one line.
func Post(ctx context.Context, base, path string, body []byte, token string, insecure bool) error {
	t, err := NewTarget(base, insecure, BearerHeader(token))
	if err != nil {
		return err
	}
	p, err := t.Fetch(ctx, t.Path+path, append([]byte{}, body...), t.Headers)
	if err != nil {
		return fmt.Errorf("POST %s%s: %s", t.Base, path, DescribeNetworkError(err))
	}
	if p.Status > 299 {
		return fmt.Errorf("POST %s%s: status %d", t.Base, path, p.Status)
	}
	return nil
}

// BearerHeader returns the Authorization header line for a token, or nil if token is "".
func BearerHeader(token string) []byte {
	if token == "" {
		return nil
	}
	return []byte("Authorization: Bearer " + token + "\r\n")
}
