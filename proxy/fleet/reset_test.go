package fleet

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/alicebob/miniredis/v2"
	"go.uber.org/zap"

	"penstock/config"
)

// resettingProxy forwards connections to a store and resets some of them, like a load balancer, or
// like a cluster node during a failover.
type resettingProxy struct {
	net.Listener
	store string
	armed atomic.Int32 // number of account messages whose connection will still be reset
	// Whether the store receives the message before the reset, so that only the answer is lost.
	after bool
	done  atomic.Int32
	conns sync.WaitGroup
}

func newResetting(t *testing.T, store string, after bool) *resettingProxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &resettingProxy{Listener: ln, store: store, after: after}
	r.conns.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			r.conns.Go(func() { r.lead(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		r.conns.Wait()
	})
	return r
}

// lead copies bytes in both directions until one side closes its connection, or until the
// connection is reset.
func (r *resettingProxy) lead(c *net.TCPConn) {
	defer c.Close()
	to, err := net.Dial("tcp", r.store)
	if err != nil {
		return
	}
	defer to.Close()
	var cut atomic.Bool
	r.conns.Go(func() {
		buf := make([]byte, 16<<10)
		for {
			n, err := to.Read(buf)
			if err != nil || cut.Load() {
				_ = c.SetLinger(0) // makes Close send a reset instead of a FIN
				c.Close()
				return
			}
			if _, err := c.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	buf := make([]byte, 16<<10)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if containsAccount(buf[:n]) && r.armed.Add(-1) >= 0 {
			r.done.Add(1)
			if !r.after {
				_ = c.SetLinger(0)
				return
			}
			cut.Store(true)
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func containsAccount(p []byte) bool {
	const key = "ps:{k:"
	for i := 0; i+len(key) <= len(p); i++ {
		if string(p[i:i+len(key)]) == key {
			return true
		}
	}
	return false
}

// TestReset checks that a call still gets its answer if the connection is reset. The message must
// be sent once more, and the account must count it only once, even if the store had received the
// first attempt. The breaker must stay closed. If the second attempt also fails, both attempts must
// count as one failure.
func TestReset(t *testing.T) {
	for name, after := range map[string]bool{"before the store has the message": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			between := newResetting(t, miniredis.RunT(t).Addr(), after)
			f := New(Options{
				Store:   StoreOptions{Addresses: []string{between.Addr().String()}, Prefix: "ps"},
				Timeout: 20 * time.Second, Edges: 1, WhenLost: config.StoreLostClosed,
				Log: zap.NewNop(), Metrics: metrics.NewSet(), Self: func() Member { return Member{} },
			})
			defer f.Close()
			waitUntil(t, "the store is reached", func() bool { f.sendHeartbeat(t.Context()); return f.Available() })
			key, limits := newAccount(&f.edgeState, "k:a"), config.KeyLimits{RequestsPerMinute: 10, Concurrency: 20}
			now := time.Now()
			for i := range 12 {
				between.armed.Store(1)
				if d := key.TakeRequest(limits, now); d.OK != (i < 10) || d.Unavailable {
					t.Errorf("call %d: TakeRequest = %+v, want OK: %t", i, d, i < 10)
				}
			}
			if between.done.Load() < 2 {
				t.Errorf("%d connections were reset", between.done.Load())
			}
			if n := f.edgeState.metrics.offlineDecisions.Get(); n != 0 || f.edgeState.store.ConsecutiveFailures() != 0 {
				t.Errorf("%d calls without the store, %d misses", n, f.edgeState.store.ConsecutiveFailures())
			}
			between.armed.Store(2)
			if d := newAccount(&f.edgeState, "k:b").TakeRequest(limits, now); !d.Unavailable || f.edgeState.store.ConsecutiveFailures() != 1 || !f.Available() {
				t.Errorf("two resets: %+v, %d misses", d, f.edgeState.store.ConsecutiveFailures())
			}
		})
	}
}
