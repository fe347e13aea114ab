package e2e

import (
	"strings"
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
)

// TestConnectionAfterStream checks that, after a stream, the connection serves further requests, or
// the response has announced that the connection closes.
func TestConnectionAfterStream(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Limits: "header: 16KiB", Timeouts: "client_header: 8s, client_idle: 8s"})
	stream := func(c *rig.RawConn) *rig.Reply {
		t.Helper()
		if err := c.Send(p.RequestBytes(chatPath, p.ChatRequest(`"stream":true,"sim":{"text":"hello there"}`))); err != nil {
			t.Fatal(err)
		}
		return c.ReadReply("POST").WantStatus(200)
	}
	t.Run("kept", func(t *testing.T) {
		t.Parallel()
		c := p.Dial()
		for range 3 {
			r := stream(c)
			if r.Err != nil || !strings.HasSuffix(r.Body, "data: [DONE]\n\n") {
				t.Fatalf("answer = %q, %v; want it to end in [DONE]", r.Body, r.Err)
			}
			_ = c.Send(p.RequestBytes(chatPath, p.ChatRequest("")))
			c.ReadReply("POST").WantStatus(200)
		}
		// The connection must have the idle timeout of a keep-alive connection rather than that of
		// a new connection.
		stream(c)
		time.Sleep(1200 * time.Millisecond)
		stream(c)
		if rest, ok := c.WaitClosed(rig.WaitTimeout); !ok || rest != "" {
			t.Errorf("closed: %v, after %q", ok, rest)
		}
	})
	t.Run("closed when asked", func(t *testing.T) {
		t.Parallel()
		c := p.Dial()
		_ = c.Send(p.RequestBytes(chatPath, p.ChatRequest(`"stream":true,"sim":{"text":"hello there"}`), "Connection: close"))
		all, ok := c.WaitClosed(rig.WaitTimeout)
		if !ok || !strings.Contains(all, "\r\nConnection: close\r\n") || !strings.HasSuffix(all, "0\r\n\r\n") {
			t.Errorf("closed: %v, after %q", ok, all)
		}
	})
	t.Run("pipelined beyond a read", func(t *testing.T) {
		t.Parallel()
		c := p.Dial()
		long := "X-Filler: " + strings.Repeat("f", 7000)
		one := p.RequestBytes(chatPath, p.ChatRequest(`"stream":true,"sim":{"ttft_ms":50}`), long)
		if err := c.Send(one + one + one); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if r := c.ReadReply("POST").WantStatus(200); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	})
}
