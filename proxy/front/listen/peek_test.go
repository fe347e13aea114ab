//go:build unix

package listen

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestHungUp checks isHungUp, which systems without epoll use.
func TestHungUp(t *testing.T) {
	l := open(t, Options{})
	for name, c := range map[string]struct {
		do   func(c *net.TCPConn) error
		want bool
	}{
		"idle": {func(*net.TCPConn) error { return nil }, false},
		"data": {func(c *net.TCPConn) error { _, err := c.Write([]byte("x")); return err }, false},
		"FIN":  {(*net.TCPConn).Close, true},
		"RST":  {reset, true},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := pair(t, l)
			w := newWaiter()
			if server.client.hasWaiter() {
				t.Error("waits without a call")
			}
			server.WatchDisconnect(w)
			if err := c.do(client); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
			for deadline := time.Now().Add(noticeLimit); isHungUp(server.rawConn) != c.want; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("onHangUp is %v", !c.want)
				}
			}
			if name == "data" {
				if !server.client.hasWaiter() {
					t.Error("does not wait with a call")
				}
				if b, err := io.ReadAll(io.LimitReader(server, 1)); string(b) != "x" {
					t.Errorf("read %q, %v: the look took a byte", b, err)
				}
			}
			server.UnwatchDisconnect(w)
		})
	}
	server, _ := pair(t, l)
	server.Close()
	if isHungUp(server.rawConn) {
		t.Error("a connection that we closed ourselves hung up")
	}
}
