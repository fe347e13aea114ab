package http1

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"penstock/config/testkit/fastset"
	"penstock/config/testkit/rawserver"
)

// TestHostWatch checks that failed connection attempts reveal a silent host, and that CloseConnsToLostHosts
// then closes the silent connections.
func TestHostWatch(t *testing.T) {
	fastset.SkipIfShort(t, "hosts that fall silent")
	t.Parallel()
	timeout := &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	var rows sync.WaitGroup
	defer rows.Wait()
	for _, c := range []struct {
		name  string
		fails []error // result of each connection attempt; nil means success
		late  bool    // a byte arrives on the connection after the failed attempts
		ends  int
	}{
		{name: "time ran out", fails: []error{timeout}, ends: 1},
		{name: "the system's time ran out", fails: []error{syscall.ETIMEDOUT}, ends: 1},
		{name: "no route to the host", fails: []error{syscall.EHOSTUNREACH}, ends: 1},
		{name: "no route to the network", fails: []error{syscall.ENETUNREACH}, ends: 1},
		{name: "no connect failed"},
		{name: "refused", fails: []error{refused}},
		{name: "reset", fails: []error{syscall.ECONNRESET}},
		{name: "given up from this side", fails: []error{context.Canceled}},
		{name: "no descriptor", fails: []error{syscall.EMFILE}},
		{name: "no local address", fails: []error{syscall.EADDRNOTAVAIL}},
		{name: "refused after time ran out", fails: []error{timeout, refused}},
		{name: "connected after time ran out", fails: []error{timeout, nil}},
		{name: "time ran out after a refusal", fails: []error{refused, timeout}, ends: 1},
		{name: "a byte came since", fails: []error{timeout}, late: true},
	} {
		far, vanish := make(chan *rawserver.Peer, 1), make(chan bool)
		tr := transportTo(t, rawserver.Serve(t, func(p *rawserver.Peer) {
			far <- p
			<-vanish
		}).URL())
		t.Cleanup(func() { close(vanish) })
		dial := func() (*conn, *rawserver.Peer) {
			c, f := tr.connectOnce(t.Context())
			if f != nil {
				t.Fatal(f)
			}
			return c, <-far
		}
		conn, p := dial()
		for _, err := range c.fails {
			if err == nil {
				other, _ := dial()
				other.close()
				continue
			}
			tr.hosts.recordDialError(conn.addr, err, time.Now())
		}
		rows.Go(func() { // in parallel, because an acknowledgement is overdue only after two seconds
			if c.late {
				time.Sleep(50 * time.Millisecond) // longer than a tick of the kernel's clock
				p.Send("x")
			}
			p.DropPackets()
			ended, patience := 0, 4*time.Second
			if c.ends > 0 { // on a busy machine, this may take longer
				patience = 30 * time.Second
			}
			for end := time.Now().Add(patience); ended == 0 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				ended = tr.hosts.CloseConnsToLostHosts()
			}
			if ended != c.ends {
				t.Errorf("%s: %d connections were ended, want %d", c.name, ended, c.ends)
			}
			conn.close()
			if len(tr.hosts.hosts) != 0 || tr.hosts.hasSilentHost.Load() {
				t.Errorf("%s: %d hosts are left without a connection", c.name, len(tr.hosts.hosts))
			}
		})
	}
}
