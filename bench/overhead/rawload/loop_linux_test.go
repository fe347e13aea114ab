package rawload

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLoop sends loads directly to the engine.
func TestLoop(t *testing.T) {
	l, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, rate := range []float64{0, 500} {
		load := Load{Address: l.Address(), Request: ChatRequest(l.Address(), "key"), Conns: 3, Rate: rate, Duration: 200 * time.Millisecond}
		r, err := l.Run(t.Context(), &load)
		if err != nil {
			t.Fatal(err)
		}
		if r.Completed < 3 || rate > 0 && r.Completed > 101 || len(r.Latencies) != r.Completed || r.Elapsed < load.Duration {
			t.Errorf("rate %v: %d responses, %d latencies in %v", rate, r.Completed, len(r.Latencies), r.Elapsed)
		}
		if p50, p99 := r.Percentile(50), r.Percentile(99); p50 <= 0 || p99 < p50 {
			t.Errorf("rate %v: p50 %v, p99 %v", rate, p50, p99)
		}
	}
}

// TestLoopFails checks that a load fails if a response fails, if nothing listens, and if its
// context ends.
func TestLoopFails(t *testing.T) {
	l, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	closing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := closing.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1<<12))
			c.Close()
		}
	}()
	load := Load{Address: closing.Addr().String(), Request: ChatRequest("a", "key"), Conns: 1, Duration: time.Minute}
	if r, err := l.Run(t.Context(), &load); err == nil {
		t.Errorf("a connection that ends: %+v", r)
	}
	closing.Close()
	if r, err := l.Run(t.Context(), &load); err == nil {
		t.Errorf("a closed port: %+v", r)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	load.Address = l.Address()
	if _, err := l.Run(ctx, &load); !errors.Is(err, context.Canceled) {
		t.Errorf("a load that is stopped: %v", err)
	}
}

func TestMessageLength(t *testing.T) {
	for in, want := range map[string]int{
		"": 0, "HTTP/1.1 200 OK\r\nContent-Le": 0, "GET / HTTP/1.1\r\nHost: a\r\n\r\n": 27,
		"HTTP/1.1 200 OK\r\ncontent-length:  3\r\n\r\n": 42, "POST / HTTP/1.1\r\nA: b\r\nContent-Length: 1024\r\n\r\n{": 1071,
	} {
		if got, err := messageLength([]byte(in)); got != want || err != nil {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"} {
		if n, err := messageLength([]byte(in)); err == nil {
			t.Errorf("%q: %d, want an error", in, n)
		}
	}
	if n, err := messageLength(ChatRequest("a", "b")); err != nil || n != len(ChatRequest("a", "b")) {
		t.Errorf("the request: %d, %v", n, err)
	}
	if n, err := messageLength(completionResponse); err != nil || n != len(completionResponse) {
		t.Errorf("the response: %d of %d, %v", n, len(completionResponse), err)
	}
}
