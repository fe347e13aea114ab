package e2e

import (
	"strings"
	"testing"
	"time"
)

// After a stream the connection serves on, and says so when it will not.
func TestConnectionAfterStream(t *testing.T) {
	t.Parallel()
	p := start(t, setup{limits: "header: 16KiB", timeouts: "client_header: 500ms, client_idle: 3s"})
	stream := func(c *raw) *reply {
		t.Helper()
		if err := c.send(p.request(p.chat(`"stream":true,"sim":{"text":"hello there"}`))); err != nil {
			t.Fatal(err)
		}
		return c.reply("POST").wantStatus(200)
	}
	t.Run("kept", func(t *testing.T) {
		t.Parallel()
		c := p.dial()
		for range 3 {
			r := stream(c)
			if r.err != nil || !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
				t.Fatalf("%v: %q", r.err, r.body)
			}
			_ = c.send(p.request(p.chat("")))
			c.reply("POST").wantStatus(200)
		}
		// Its silence is that of a kept connection, not of a new one.
		stream(c)
		time.Sleep(1200 * time.Millisecond)
		stream(c)
		if rest, ok := c.closed(patience); !ok || rest != "" {
			t.Errorf("closed: %v, after %q", ok, rest)
		}
	})
	t.Run("closed when asked", func(t *testing.T) {
		t.Parallel()
		c := p.dial()
		_ = c.send(p.request(p.chat(`"stream":true,"sim":{"text":"hello there"}`), "Connection: close"))
		all, ok := c.closed(patience)
		if !ok || !strings.Contains(all, "\r\nConnection: close\r\n") || !strings.HasSuffix(all, "0\r\n\r\n") {
			t.Errorf("closed: %v, after %q", ok, all)
		}
	})
	t.Run("pipelined beyond a read", func(t *testing.T) {
		t.Parallel()
		c := p.dial()
		long := "X-Filler: " + strings.Repeat("f", 7000)
		one := p.request(p.chat(`"stream":true,"sim":{"ttft_ms":50}`), long)
		if err := c.send(one + one + one); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if r := c.reply("POST").wantStatus(200); r.err != nil {
				t.Fatal(r.err)
			}
		}
	})
}
