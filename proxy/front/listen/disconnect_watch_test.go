package listen

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func reset(c *net.TCPConn) error {
	if err := c.SetLinger(0); err != nil {
		return err
	}
	return c.Close()
}

func TestClientGone(t *testing.T) {
	leaves := map[string]func(c *net.TCPConn) error{
		"FIN":        (*net.TCPConn).Close,
		"half-close": (*net.TCPConn).CloseWrite,
		"RST":        reset,
	}
	for name, leave := range leaves {
		t.Run("plain "+name, func(t *testing.T) {
			server, client := pair(t, open(t, Options{}))
			w := newWaiter()
			if server.WatchDisconnect(w) {
				t.Fatal("gone at the start")
			}
			w.mustNotBeCalled(t)
			start := time.Now()
			if err := leave(client); err != nil {
				t.Fatal(err)
			}
			w.mustNotice(t, start)
			server.UnwatchDisconnect(w)
			if n := w.called.Load(); n != 1 {
				t.Errorf("called %d times", n)
			}
			if next := newWaiter(); !server.WatchDisconnect(next) || next.called.Load() != 0 {
				t.Error("a later call does not learn that the client has gone")
			}
		})
		t.Run("TLS "+name, func(t *testing.T) {
			server, client := tlsPair(t, open(t, Options{}))
			w := newWaiter()
			conn := UnwrapConn(server)
			if conn.WatchDisconnect(w) {
				t.Fatal("gone at the start")
			}
			start := time.Now()
			if err := leave(client.NetConn().(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			w.mustNotice(t, start)
			conn.UnwatchDisconnect(w)
		})
	}
}

// TestClientGoneBehindUnreadBytes checks that the edge detects a disconnected client even if
// requests from that client are still unread.
func TestClientGoneBehindUnreadBytes(t *testing.T) {
	server, client := pair(t, open(t, Options{}))
	w := newWaiter()
	server.WatchDisconnect(w)
	if _, err := client.Write(make([]byte, 10_000)); err != nil {
		t.Fatal(err)
	}
	w.mustNotBeCalled(t)
	start := time.Now()
	client.Close()
	w.mustNotice(t, start)
	server.UnwatchDisconnect(w)
}

// TestClientGoneBeforeWatch checks that WatchDisconnect reports a client that disconnected between the
// accept and the first call.
func TestClientGoneBeforeWatch(t *testing.T) {
	l := open(t, Options{})
	server, client := pair(t, l)
	client.Close()
	for deadline := time.Now().Add(noticeLimit); ; time.Sleep(time.Millisecond) {
		w := newWaiter()
		if server.WatchDisconnect(w) {
			return
		}
		server.UnwatchDisconnect(w)
		if time.Now().After(deadline) {
			t.Fatal("not noticed")
		}
	}
}

// TestPipelinedBytes checks that pipelined bytes cause no event and stay in the socket, and that
// the calls on a keep-alive connection do not affect each other.
func TestPipelinedBytes(t *testing.T) {
	server, client := pair(t, open(t, Options{}))
	var sent, got bytes.Buffer
	for i := range 200 {
		w := newWaiter()
		if server.WatchDisconnect(w) {
			t.Fatal("gone")
		}
		piece := fmt.Appendf(nil, "request %d;", i)
		sent.Write(piece)
		if _, err := client.Write(piece); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			buf := make([]byte, sent.Len()-got.Len())
			if _, err := io.ReadFull(server, buf); err != nil {
				t.Fatal(err)
			}
			got.Write(buf)
		}
		if i == 100 {
			w.mustNotBeCalled(t)
		}
		server.UnwatchDisconnect(w)
		if w.called.Load() != 0 {
			t.Fatal("OnDisconnect was called for bytes")
		}
	}
	rest := make([]byte, sent.Len()-got.Len())
	if _, err := io.ReadFull(server, rest); err != nil {
		t.Fatal(err)
	}
	got.Write(rest)
	if !bytes.Equal(got.Bytes(), sent.Bytes()) {
		t.Error("bytes were lost or changed")
	}
}

// recycledWaiter is a DisconnectWaiter for a call that may have ended. It counts notifications that
// arrive after the end.
type recycledWaiter struct {
	ended atomic.Bool
	late  *atomic.Int64
	calls *atomic.Int64
}

func (r *recycledWaiter) OnDisconnect() {
	r.calls.Add(1)
	if r.ended.Load() {
		r.late.Add(1)
	}
	time.Sleep(10 * time.Microsecond)
	if r.ended.Load() {
		r.late.Add(1)
	}
}

// TestNoCallAfterUnwatch disconnects clients while their calls are ending, and checks that no
// callback runs after UnwatchDisconnect.
func TestNoCallAfterUnwatch(t *testing.T) {
	l := open(t, Options{})
	var late, calls atomic.Int64
	for i := range 1500 {
		server, client := dialAccept(t, l)
		r := &recycledWaiter{late: &late, calls: &calls}
		go client.Close()
		if !server.WatchDisconnect(r) {
			for range rand.IntN(60) {
				runtime.Gosched()
			}
		}
		server.UnwatchDisconnect(r)
		r.ended.Store(true)
		if i%2 == 0 {
			server.Close()
		} else {
			go server.Close()
		}
	}
	if late.Load() != 0 {
		t.Errorf("%d calls after Unwatch", late.Load())
	}
	t.Logf("%d callbacks in 1500 calls", calls.Load())
}

// TestDescriptorReuse opens and closes thousands of connections on few descriptors. A call must be
// notified only if its client has disconnected.
func TestDescriptorReuse(t *testing.T) {
	l := open(t, Options{})
	stop := make(chan struct{})
	var held []*waiter
	var conns []*Conn
	var clients []net.Conn
	for range 20 {
		server, client := dialAccept(t, l)
		w := newWaiter()
		server.WatchDisconnect(w)
		held, conns, clients = append(held, w), append(conns, server), append(clients, client)
	}
	var group sync.WaitGroup
	var wrong, missed atomic.Int64
	accepted := make(chan *Conn, 64)
	group.Go(func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c.(*Conn)
		}
	})
	for range 4 {
		// The server runs a call on each connection, and either side closes the connection.
		group.Go(func() {
			for c := range accepted {
				var first [1]byte
				if _, err := io.ReadFull(c, first[:]); err != nil {
					c.Close()
					continue
				}
				w := newWaiter()
				if first[0] == 'l' {
					if _, err := c.Write([]byte{1}); err == nil && !c.WatchDisconnect(w) {
						select {
						case <-w.at:
						case <-time.After(5 * time.Second):
							missed.Add(1)
						}
						c.UnwatchDisconnect(w)
					}
					c.Close()
					continue
				}
				if c.WatchDisconnect(w) {
					wrong.Add(1)
				}
				_, _ = c.Write([]byte{1})
				c.UnwatchDisconnect(w)
				wrong.Add(int64(w.called.Load()))
				c.Close()
			}
		})
	}
	for k := range 4 {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					return
				}
				kind := "ls"[(i+k)%2]
				_, _ = c.Write([]byte{kind})
				_, _ = io.ReadFull(c, make([]byte, 1))
				if kind == 's' {
					_, _ = io.Copy(io.Discard, c) // blocks until the server closes the connection
				}
				if i%3 == 0 {
					_ = c.(*net.TCPConn).SetLinger(0)
				}
				c.Close()
			}
		})
	}
	time.Sleep(700 * time.Millisecond)
	close(stop)
	time.Sleep(50 * time.Millisecond)
	l.Close()
	group.Wait()
	for i, w := range held {
		if w.called.Load() != 0 {
			t.Errorf("client %d is there and its call was notified otherwise", i)
		}
		conns[i].UnwatchDisconnect(w)
		conns[i].Close()
		clients[i].Close()
	}
	if wrong.Load() != 0 || missed.Load() != 0 {
		t.Errorf("%d wrong callbacks, %d missing ones", wrong.Load(), missed.Load())
	}
}

func TestEachWaiter(t *testing.T) {
	l := open(t, Options{})
	a, _ := pair(t, l)
	b, _ := pair(t, l)
	pair(t, l)
	wa, wb := newWaiter(), newWaiter()
	a.WatchDisconnect(wa)
	b.WatchDisconnect(wb)
	b.UnwatchDisconnect(wb)
	var notified []DisconnectWaiter
	l.EachWaiter(func(w DisconnectWaiter) { notified = append(notified, w) })
	if len(notified) != 1 || notified[0] != wa {
		t.Errorf("notified %v, want %v alone", notified, wa)
	}
	a.UnwatchDisconnect(wb) // wb is not registered with a, so this has no effect
	l.EachWaiter(func(w DisconnectWaiter) { notified = append(notified, w) })
	if len(notified) != 2 {
		t.Error("another's Unwatch ended the call")
	}
	a.UnwatchDisconnect(wa)
}

func dialAccept(t testing.TB, l *Listener) (*Conn, net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return server.(*Conn), client
}

func BenchmarkBeginEnd(b *testing.B) {
	server, _ := pair(b, open(b, Options{}))
	w := newWaiter()
	b.ReportAllocs()
	for b.Loop() {
		server.WatchDisconnect(w)
		server.UnwatchDisconnect(w)
	}
}

// BenchmarkAcceptClose measures the cost of a connection, including the client's side.
func BenchmarkAcceptClose(b *testing.B) {
	l := open(b, Options{})
	b.ReportAllocs()
	for b.Loop() {
		server, client := dialAccept(b, l)
		_ = reset(client.(*net.TCPConn))
		server.Close()
	}
}

// BenchmarkDisconnectCallback measures the time from a client's close until the callback runs.
func BenchmarkDisconnectCallback(b *testing.B) {
	l := open(b, Options{})
	var total time.Duration
	for b.Loop() {
		server, client := dialAccept(b, l)
		w := newWaiter()
		server.WatchDisconnect(w)
		start := time.Now()
		client.Close()
		total += (<-w.at).Sub(start)
		server.UnwatchDisconnect(w)
		server.Close()
	}
	b.ReportMetric(float64(total.Microseconds())/float64(b.N), "µs/notice")
}
