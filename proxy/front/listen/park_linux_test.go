package listen

import (
	"io"
	"net"
	"testing"
	"time"

	"penstock/config/instant"
)

// parkingListener returns a listener that parks connections, and a channel with the connections that are
// served again. The connections are not read from.
func parkingListener(t *testing.T) (*Listener, <-chan *Conn) {
	t.Helper()
	again := make(chan *Conn, 8)
	l := open(t, Options{ServeAgain: func(c net.Conn) error {
		again <- c.(*Conn)
		return nil
	}})
	return l, again
}

// park makes the goroutine of an idle connection park it, as the watch and a server do.
func park(t *testing.T, l *Listener, c *Conn) {
	t.Helper()
	SetConnActive(c)
	SetConnIdle(c)
	_ = c.SetReadDeadline(time.Now().Add(time.Hour))
	c.idle.idleSince.Store(1) // the connection has been idle since the process started
	done := make(chan error, 1)
	go func() {
		n, err := c.Read(make([]byte, 1))
		if n == 0 && err == io.EOF {
			err = c.Close()
		}
		done <- err
	}()
	l.parkIdleConns(instant.Now())
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !c.idle.isParked.Load() || c.isClosed.Load() {
		t.Fatalf("parked: %v, closed: %v; want a parked connection", c.idle.isParked.Load(), c.isClosed.Load())
	}
}

func servedAgain(t *testing.T, again <-chan *Conn) *Conn {
	t.Helper()
	select {
	case c := <-again:
		return c
	case <-time.After(noticeLimit):
		t.Fatal("the connection is not served again")
		return nil
	}
}

// TestParkedConnectionIsServedAgain checks that a parked connection is served when bytes arrive,
// and that it can be parked again. Afterwards, the watch must still detect that the client
// disconnects.
func TestParkedConnectionIsServedAgain(t *testing.T) {
	l, again := parkingListener(t)
	server, client := pair(t, l)
	for range 2 {
		park(t, l, server)
		if _, err := io.WriteString(client, "GET"); err != nil {
			t.Fatal(err)
		}
		c := servedAgain(t, again)
		b := make([]byte, 10)
		if n, err := c.Read(b); c != server || string(b[:n]) != "GET" || err != nil {
			t.Fatalf("read %q, %v", b[:n], err)
		}
	}
	w := newWaiter()
	if server.WatchDisconnect(w) {
		t.Fatal("bytes count as a disconnection")
	}
	if _, err := io.WriteString(client, "more"); err != nil { // must not be reported
		t.Fatal(err)
	}
	w.mustNotBeCalled(t)
	closed := time.Now()
	client.Close()
	w.mustNotice(t, closed)
}

// TestParkedClientDisconnects checks that a parked connection is served when the client disconnects, so
// that the read fails and the server closes the connection.
func TestParkedClientDisconnects(t *testing.T) {
	l, again := parkingListener(t)
	server, client := pair(t, l)
	park(t, l, server)
	client.Close()
	c := servedAgain(t, again)
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF || !c.IsClientGone() {
		t.Errorf("%d bytes, %v, gone: %v; want EOF and gone", n, err, c.IsClientGone())
	}
}

// TestParkedConnectionEnds checks what closes a parked connection immediately, and that a request that
// has already arrived is served instead.
func TestParkedConnectionEnds(t *testing.T) {
	for name, end := range map[string]func(l *Listener, c *Conn){
		"idle time": func(l *Listener, c *Conn) {
			c.readDeadline.wanted.Store(int64(instant.Now().Add(-time.Second)))
			l.parkIdleConns(instant.Now())
		},
		"graceful close": func(l *Listener, _ *Conn) { l.CloseGracefully() },
		"close":          func(l *Listener, _ *Conn) { l.CloseConns() },
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := parkingListener(t)
			server, client := pair(t, l)
			park(t, l, server)
			end(l, server)
			if l.OpenConnCount() != 0 {
				t.Error("the connection is still open")
			}
			_ = client.SetReadDeadline(time.Now().Add(noticeLimit))
			if _, err := client.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the client reads %v", err)
			}
		})
	}
	t.Run("request", func(t *testing.T) {
		l, again := parkingListener(t)
		server, client := pair(t, l)
		park(t, l, server)
		if !server.unpark() {
			t.Fatal("not parked")
		}
		if _, err := io.WriteString(client, "GET"); err != nil {
			t.Fatal(err)
		}
		waitUnread(t, server)
		server.closeUnlessReadable()
		if c := servedAgain(t, again); c != server || c.isClosed.Load() {
			t.Error("the request is lost")
		}
	})
}

// TestLongIdleConns checks that a parked connection is not looked at again until its idle time is over.
func TestLongIdleConns(t *testing.T) {
	l, _ := parkingListener(t)
	c, _ := pair(t, l)
	SetConnActive(c)
	SetConnIdle(c)
	c.idle.idleSince.Store(1)
	expect := func(state string, want int) {
		t.Helper()
		if got := len(l.longIdleConns(instant.Now())); got != want {
			t.Errorf("%s: %d connections, want %d", state, got, want)
		}
	}
	expect("idle", 1)
	park(t, l, c)
	expect("parked", 0)
	c.readDeadline.wanted.Store(int64(instant.Now().Add(-time.Second)))
	expect("idle time over", 1)
}

// TestMayPark checks which connections are parked.
func TestMayPark(t *testing.T) {
	l, _ := parkingListener(t)
	now := instant.Now()
	for name, test := range map[string]struct {
		hadRequest, closing bool
		idleSince           int64
		want                bool
	}{
		"idle for a second": {hadRequest: true, idleSince: int64(now) - int64(parkIdleTime), want: true},
		"idle for less":     {hadRequest: true, idleSince: int64(now) - int64(parkIdleTime) + 1},
		"busy":              {hadRequest: true},
		"new":               {idleSince: 1},
		"closing":           {hadRequest: true, closing: true, idleSince: 1},
	} {
		c := &Conn{ln: l}
		c.hadRequest.Store(test.hadRequest)
		c.idle.idleSince.Store(test.idleSince)
		l.isClosing.Store(test.closing)
		if got := c.mayPark(now); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	l.isClosing.Store(false)
	c := &Conn{ln: open(t, Options{})}
	c.hadRequest.Store(true)
	c.idle.idleSince.Store(1)
	if c.mayPark(now) {
		t.Error("a listener without ServeAgain parks")
	}
}
