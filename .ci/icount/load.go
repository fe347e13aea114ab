package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// sendRequests sends n requests from the workload's clients, and returns the number of served units
// (requests or tokens). It returns an error if any request is not served completely.
func (e *edge) sendRequests(w *workload, n int) (int, error) {
	request := w.requestBytes(e.address)
	var (
		left  atomic.Int64
		wait  sync.WaitGroup
		mutex sync.Mutex
		errs  []error
	)
	left.Store(int64(n))
	for range min(w.clients, n) {
		wait.Go(func() {
			if err := runClient(e.address, request, w, &left); err != nil {
				mutex.Lock()
				errs = append(errs, err)
				mutex.Unlock()
			}
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	if w.perToken {
		n *= w.tokens
	}
	return n, nil
}

// requestBytes returns the head and the body of a request.
func (w *workload) requestBytes(address string) []byte {
	body := w.body()
	return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nUser-Agent: load\r\nAccept: */*\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", address, edgeKey, len(body), body)
}

func runClient(address string, request []byte, w *workload, left *atomic.Int64) error {
	c, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	r := bufio.NewReaderSize(c, 64<<10)
	for left.Add(-1) >= 0 {
		if err := c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			return err
		}
		if _, err := c.Write(request); err != nil {
			return err
		}
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		switch {
		case err != nil:
			return err
		case answer.StatusCode != http.StatusOK:
			return fmt.Errorf("status %d: %s", answer.StatusCode, text)
		case w.stream && bytes.Count(text, []byte("data: ")) != w.tokens+3:
			return fmt.Errorf("a stream of %d events, want %d", bytes.Count(text, []byte("data: ")), w.tokens+3)
		}
	}
	return nil
}

// lockedBuffer collects the output of a process, and may be read concurrently.
type lockedBuffer struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.String()
}
