package socket

import (
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func start(run func()) { go run() }

// watched is a connection in a HangUpWatch.
type watched struct {
	HangUpHandle
	near, far *net.TCPConn
	raw       syscall.RawConn
	gone      chan struct{}
	calls     atomic.Int32
}

func watch(t *testing.T, h *HangUpWatch) *watched {
	t.Helper()
	near, _, far := pair(t)
	w := &watched{near: near, far: far, gone: make(chan struct{}, 8)}
	var err error
	if w.raw, err = near.SyscallConn(); err != nil {
		t.Fatal(err)
	}
	if err := h.Add(&w.HangUpHandle, w.raw, start, w.left); err != nil || !w.IsWatched() {
		t.Fatalf("Add = %v", err)
	}
	return w
}

// left shuts the connection down for reading, like exchanges do. With EPOLLET, the connection would
// then be reported again.
func (w *watched) left() {
	w.calls.Add(1)
	_ = w.raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RD) })
	w.gone <- struct{}{}
}

// end closes the connection like an exchange does.
func (w *watched) end(h *HangUpWatch) {
	w.near.Close()
	h.Remove(&w.HangUpHandle)
}

// reported reports whether the epoll set has an event within the given time.
func reported(t *testing.T, h *HangUpWatch, within time.Duration) bool {
	t.Helper()
	n := 0
	h.mu.Lock() // meanwhile, the goroutine cannot handle events
	defer h.mu.Unlock()
	err := h.callWithEpoll(func(epoll uintptr) (err error) {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(epoll), Events: unix.POLLIN}}, int(within.Milliseconds()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

// TestHangUps checks that every kind of hang-up is reported once, that bytes are not reported, and
// that other connections are not affected.
func TestHangUps(t *testing.T) {
	for name, hangUp := range map[string]func(far *net.TCPConn){
		"closed":      func(far *net.TCPConn) { far.Close() },
		"half closed": func(far *net.TCPConn) { _ = far.CloseWrite() },
		"reset":       func(far *net.TCPConn) { _ = far.SetLinger(0); far.Close() },
		"after bytes": func(far *net.TCPConn) { _, _ = far.Write([]byte("bytes")); far.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			var h HangUpWatch
			other, w := watch(t, &h), watch(t, &h)
			_, _ = other.far.Write([]byte("bytes"))
			hangUp(w.far)
			<-w.gone
			last := watch(t, &h) // its event is reported after all others
			last.far.Close()
			<-last.gone
			if reported(t, &h, 100*time.Millisecond) || w.calls.Load() != 1 || other.calls.Load() != 0 {
				t.Errorf("reported %d times, and the other connection %d times; want once and never", w.calls.Load(), other.calls.Load())
			}
			for _, w := range []*watched{other, w, last} {
				w.end(&h)
			}
			if h.epoll != nil || len(h.callbacks) > 0 {
				t.Error("the set remains without connections")
			}
			again := watch(t, &h)
			again.far.Close()
			<-again.gone
			again.end(&h)
		})
	}
}

// TestHangUpsBefore checks a peer that hangs up before the connection is watched, and a connection
// that is closed before it is watched.
func TestHangUpsBefore(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var h HangUpWatch
	w := watch(t, &h)
	near, _, far := pair(t)
	far.Close()
	late := &watched{near: near, gone: make(chan struct{}, 1)}
	raw, err := near.SyscallConn()
	late.raw = raw
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Add(&late.HangUpHandle, raw, start, late.left); err != nil {
		t.Fatal(err)
	}
	<-late.gone
	late.end(&h)
	if err := h.Add(&late.HangUpHandle, raw, start, late.left); err == nil || late.IsWatched() || len(h.callbacks) != 1 {
		t.Errorf("a closed connection: %v, watched %v, %d connections", err, late.IsWatched(), len(h.callbacks))
	}
	w.end(&h)
}

// TestHangUpsStale checks an event that was fetched before its connection was removed. The event
// must not be reported for another connection, even if the descriptor is the same.
func TestHangUpsStale(t *testing.T) {
	var h HangUpWatch
	first := watch(t, &h)
	id := first.id.Load()
	stale := syscall.EpollEvent{Events: syscall.EPOLLRDHUP, Fd: int32(id), Pad: int32(id >> 32)}
	first.end(&h)
	h.reportEvent(stale)
	next := watch(t, &h)
	defer next.end(&h)
	h.reportEvent(stale)
	if first.calls.Load()+next.calls.Load() != 0 {
		t.Error("a stale event was reported")
	}
	stale.Fd++
	if h.reportEvent(stale); next.calls.Load() == 0 { // a valid event is reported
		t.Error("the connection's own event was not reported")
	}
}

// TestHangUpsOpen checks that a set created by Open exists until Close, even without connections.
func TestHangUpsOpen(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var h HangUpWatch
	starts := 0
	if err := h.Open(func(run func()) { starts++; go run() }); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w := watch(t, &h)
		w.far.Close()
		<-w.gone
		w.end(&h)
	}
	if h.epoll == nil || starts != 1 {
		t.Errorf("started %d times, open %v", starts, h.epoll != nil)
	}
	h.Close()
}

// TestAwaitBytes checks that bytes and hang-ups end a wait, and that each wait ends only once. It
// also checks that a wait can be stopped, and that bytes without a wait are not reported.
func TestAwaitBytes(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var h HangUpWatch
	w := watch(t, &h)
	came := make(chan struct{}, 8)
	await := func() {
		t.Helper()
		if err := h.AwaitBytes(&w.HangUpHandle, w.raw, func() { came <- struct{}{} }); err != nil {
			t.Fatal(err)
		}
	}
	ends := func(c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(20 * time.Second):
			t.Fatal("nothing is reported")
		}
	}
	await()
	if !h.StopAwaitingBytes(&w.HangUpHandle) || h.StopAwaitingBytes(&w.HangUpHandle) {
		t.Error("a wait is not stopped once")
	}
	_, _ = w.far.Write([]byte("x"))
	if reported(t, &h, 50*time.Millisecond) {
		t.Error("bytes are reported that nobody waits for")
	}
	await() // the byte has already arrived
	ends(came)
	if h.StopAwaitingBytes(&w.HangUpHandle) || reported(t, &h, 50*time.Millisecond) {
		t.Error("the wait has not ended")
	}
	one := make([]byte, 1)
	_, _ = w.near.Read(one)
	await()
	w.far.Close()
	ends(w.gone)
	ends(came)
	w.end(&h)
	if err := h.AwaitBytes(&w.HangUpHandle, w.raw, func() {}); err == nil {
		t.Error("a wait on a connection that is not watched")
	}
	if n := w.calls.Load(); n != 1 || len(came) > 0 {
		t.Errorf("%d hang-ups and %d more arrivals are reported, want 1 and 0", n, len(came))
	}
}
