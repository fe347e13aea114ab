package listen

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// TestLeastNeeded checks the order: connections without a key first, then connections from the
// address that has the most connections, then the connection that has waited longest.
func TestLeastNeeded(t *testing.T) {
	many, few, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	conns := []waitingConn{
		{waitingSince: 1, address: other, hasValidKey: true},
		{waitingSince: 2, address: few},
		{waitingSince: 9, address: many},
		{waitingSince: 7, address: many},
		{waitingSince: 8, address: many},
		{waitingSince: 3, address: few, hasValidKey: true},
		{waitingSince: 4, address: few, hasValidKey: true},
		{waitingSince: 5, address: few},
	}
	sortLeastNeeded(conns)
	got := ""
	for _, c := range conns {
		got += fmt.Sprint(c.waitingSince, " ")
	}
	// The address many has three connections, and one of them is first. After that, many and few
	// have two connections each, and a connection from few has waited longest.
	if want := "7 2 8 5 9 3 1 4 "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, row := range []struct{ known, most, left int }{{3, 2, 7}, {3, 6, 5}, {3, 4, 6}, {8, 8, 8}} {
		if n := len(protectKnownClients(conns, row.known, row.most)); n != row.left {
			t.Errorf("%d with a key of %d: %d may go, want %d", row.known, row.most, n, row.left)
		}
	}
}

func TestConnCountAddress(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1",
		"2001:db8:1:2:3::4": "2001:db8:1:2::", "2001:db8:1:2:ffff::": "2001:db8:1:2::", "2001:db8:1:3::1": "2001:db8:1:3::",
		"fe80::1%eth0": "fe80::",
	} {
		if got := connCountAddress(net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 1))); got.String() != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// TestEvictConn_ChecksAgain checks that a new connection is accepted even if all connections found by
// the last check have received requests since then. A second check must find room.
func TestEvictConn_ChecksAgain(t *testing.T) {
	l := open(t, Options{MaxConns: 4, MakeRoom: true})
	var conns []*Conn
	for range 4 {
		c, _ := pair(t, l)
		conns = append(conns, c)
	}
	last, _ := pair(t, l)
	for _, c := range append(conns, last) {
		if !c.isClosed.Load() {
			SetConnActive(c)
			MarkHeadersReceived(c)
			SetConnIdle(c)
		}
	}
	accept(t, l, func(c *Conn) { _ = c.Close() })
	newcomer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer newcomer.Close()
	waitFor(t, func() bool { return l.EvictedCount()+l.RejectedCount() == 2 })
	if l.RejectedCount() != 0 {
		t.Error("the newcomer was rejected")
	}
}

// TestEvictableConns checks that connections that have waited long enough may be closed. If no connection
// has, connections without a key may be closed if their address has more than half of all
// connections.
func TestEvictableConns(t *testing.T) {
	flood, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	crowds := func(a netip.Addr) bool { return a == flood }
	young := []waitingConn{{waitingSince: 11, address: flood}, {waitingSince: 12, address: other}, {waitingSince: 13, address: flood, hasValidKey: true}, {waitingSince: 14, address: flood}}
	for name, c := range map[string]struct {
		conns []waitingConn
		want  string
	}{
		"none":      {nil, ""},
		"young":     {young, "11 14 "},
		"of others": {young[1:3], ""},
		"old, too":  {append([]waitingConn{{waitingSince: 9, address: other}, {waitingSince: 10, address: flood, hasValidKey: true}}, young...), "9 10 "},
	} {
		got := ""
		for _, w := range evictableConns(slices.Clone(c.conns), 10, crowds) {
			got += fmt.Sprint(w.waitingSince, " ")
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestEvictConn_OneAddress checks that one address cannot occupy all connections by replacing them
// repeatedly.
func TestEvictConn_OneAddress(t *testing.T) {
	l := open(t, Options{MaxConns: 4, MakeRoom: true, EvictAfter: time.Hour})
	oldest, _ := pair(t, l)
	for range 3 {
		pair(t, l)
	}
	pair(t, l)
	if l.EvictedCount() != 1 || l.RejectedCount() != 0 || !oldest.isClosed.Load() {
		t.Errorf("%d evicted, %d rejected", l.EvictedCount(), l.RejectedCount())
	}
}

// TestEvictConn_SparedConns checks that a connection stays open if it has not waited long enough, if its
// client has sent a valid key, or if a request is in flight.
func TestEvictConn_SparedConns(t *testing.T) {
	l := open(t, Options{MaxConns: 4, MakeRoom: true, EvictAfter: time.Hour})
	for range 4 { // all from one address, but from clients with a valid key
		c, _ := pair(t, l)
		c.MarkAuthenticated()
	}
	accept(t, l, func(*Conn) { t.Error("one that has just come was closed for another") })
	rejected(t, l)
	if l.EvictedCount() != 0 || l.RejectedCount() != 1 {
		t.Errorf("%d evicted, %d rejected", l.EvictedCount(), l.RejectedCount())
	}

	l = open(t, Options{MaxConns: 4, MakeRoom: true})
	known, _ := pair(t, l)
	known.MarkAuthenticated()
	SetConnActive(known)
	MarkHeadersReceived(known)
	SetConnIdle(known)
	asking, client := pair(t, l)
	if _, err := io.WriteString(client, "POST / HTTP/1.1\r\n"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return hasUnread(asking.rawConn) })
	silent, _ := pair(t, l)
	half, _ := pair(t, l)
	SetConnActive(half) // only the first byte of the request headers has arrived
	for range 2 {
		newcomer, _ := pair(t, l)
		MarkHeadersReceived(newcomer)
	}
	for c, want := range map[*Conn]bool{known: true, asking: true, silent: false, half: false} {
		if c.isClosed.Load() == want {
			t.Errorf("closed %v, want it to stay: %v", !want, want)
		}
	}
	if l.EvictedCount() != 2 {
		t.Errorf("%d connections evicted, want 2", l.EvictedCount())
	}
}

func TestMaxPerAddress(t *testing.T) {
	l := open(t, Options{MaxConns: 10, MaxPerAddress: 2})
	first, _ := pair(t, l)
	pair(t, l)
	accept(t, l, func(c *Conn) {
		if got := c.RemoteAddr().(*net.TCPAddr).IP.String(); got != "127.0.0.2" {
			t.Errorf("%s is accepted although it has two connections", got)
		}
		_, _ = io.Copy(io.Discard, c)
		c.Close()
	})
	rejected(t, l)
	from2 := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := from2.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Skip("this system has one loopback address: ", err)
	}
	defer c.Close()
	waitFor(t, func() bool { return l.OpenConnCount() == 3 })
	first.Close()
	if n := l.addressConnCount(first.address); n != 1 {
		t.Errorf("%d open after a close", n)
	}
}

func rejected(t *testing.T, l *Listener) {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 503 {
		t.Errorf("turned away with %v, %v", res, err)
	}
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}
