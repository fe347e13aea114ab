package socket

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// hangUpEvents is the mask of the watched events. The mask requests an event when the peer closes
// its side. epoll reports failed connections without a request. With EPOLLONESHOT, a connection is
// reported only once. With EPOLLET, it would be reported again whenever this side shuts it down for
// reading.
const hangUpEvents = syscall.EPOLLRDHUP | syscall.EPOLLONESHOT

// endEvents are the events that mean a hang-up.
const endEvents = syscall.EPOLLRDHUP | syscall.EPOLLHUP | syscall.EPOLLERR

// HangUpWatch reports connections whose peer has closed its side, and connections that have failed.
// On request, it also reports that bytes have arrived (AwaitBytes). All connections share an epoll
// set and a goroutine. The goroutine waits for the set in the runtime's poller, so it needs no
// thread. The set and the goroutine exist while there are connections, or from Open to Close. The
// zero value has no connections.
//
// It is for connections from which no goroutine reads. It is also for connections that stay in the
// runtime's poller, because the poller may report bytes and the end of the stream in one event.
type HangUpWatch struct {
	mu        sync.Mutex
	epoll     *os.File // nil while there is no set
	isOpen    bool     // Open was called
	callbacks map[uint64]func()
	arrivals  map[uint64]byteWaiter // connections that wait for bytes
	lastID    uint64
}

// byteWaiter is a connection that waits for bytes.
type byteWaiter struct {
	raw  syscall.RawConn
	came func()
}

// HangUpHandle identifies a connection in a HangUpWatch. The zero value is not watched. Ids are
// never reused. An event for a removed connection is therefore never reported for another
// connection, even if the descriptor is the same.
type HangUpHandle struct{ id atomic.Uint64 }

// IsWatched reports whether the connection is in a HangUpWatch.
func (u *HangUpHandle) IsWatched() bool { return u.id.Load() != 0 }

// Open creates the set, which then exists until Close. start must call run in a new goroutine, and
// must catch panics.
func (h *HangUpWatch) Open(start func(run func())) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isOpen = true
	return h.createSet(start)
}

// Close stops the watch.
func (h *HangUpWatch) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.callbacks)
	clear(h.arrivals)
	h.isOpen = false
	h.closeSet()
}

// Add watches a connection. The goroutine calls the function gone once: when the peer hangs up, or
// immediately if it has already done so. The goroutine may still call gone just after Remove. gone
// must not block or panic. If there is no set yet, Add creates it (see Open for start).
func (h *HangUpWatch) Add(u *HangUpHandle, c syscall.RawConn, start func(run func()), gone func()) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoll == nil {
		if err := h.createSet(start); err != nil {
			return err
		}
	}
	h.lastID++
	h.callbacks[h.lastID] = gone
	u.id.Store(h.lastID)
	err := h.changeEpoll(syscall.EPOLL_CTL_ADD, c, hangUpEvents, h.lastID)
	if err != nil {
		h.removeLocked(u)
	}
	return err
}

// AwaitBytes makes the goroutine call the function came once: when bytes arrive or the peer hangs
// up, or immediately if this has already happened. came must not block or panic. AwaitBytes fails
// if the connection is not watched.
func (h *HangUpWatch) AwaitBytes(u *HangUpHandle, c syscall.RawConn, came func()) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := u.id.Load()
	if h.callbacks[id] == nil {
		return net.ErrClosed
	}
	if err := h.changeEpoll(syscall.EPOLL_CTL_MOD, c, hangUpEvents|syscall.EPOLLIN, id); err != nil {
		return err
	}
	if h.arrivals == nil {
		h.arrivals = map[uint64]byteWaiter{}
	}
	h.arrivals[id] = byteWaiter{c, came}
	return nil
}

// StopAwaitingBytes undoes AwaitBytes. It returns false if came has been called or will be called,
// or if the connection is not waiting.
func (h *HangUpWatch) StopAwaitingBytes(u *HangUpHandle) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.endByteWait(u.id.Load(), false) != nil
}

// endByteWait ends a connection's wait for bytes and returns the function to call. It returns nil
// if the connection is not waiting. Unless the peer has hung up, hang-ups are reported again from
// then on. The caller must hold mu.
func (h *HangUpWatch) endByteWait(id uint64, hungUp bool) (came func()) {
	a, ok := h.arrivals[id]
	if !ok {
		return nil
	}
	delete(h.arrivals, id)
	if !hungUp {
		_ = h.changeEpoll(syscall.EPOLL_CTL_MOD, a.raw, hangUpEvents, id) // fails only if the connection is closed
	}
	return a.came
}

// changeEpoll changes the events of a connection in the epoll set. The caller must hold mu.
func (h *HangUpWatch) changeEpoll(operation int, c syscall.RawConn, events uint32, id uint64) error {
	event := syscall.EpollEvent{Events: events, Fd: int32(id), Pad: int32(id >> 32)}
	return h.callWithEpoll(func(epoll uintptr) error {
		var failed error
		if err := c.Control(func(fd uintptr) { failed = syscall.EpollCtl(int(epoll), operation, int(fd), &event) }); err != nil {
			return err
		}
		return failed
	})
}

// Remove removes a connection that is being closed, if it is watched. The kernel removes the
// descriptor from the epoll set when the descriptor is closed.
func (h *HangUpWatch) Remove(u *HangUpHandle) {
	if u.IsWatched() {
		h.mu.Lock()
		h.removeLocked(u)
		h.mu.Unlock()
	}
}

// removeLocked is like Remove, but the caller must hold mu.
func (h *HangUpWatch) removeLocked(u *HangUpHandle) {
	id := u.id.Swap(0)
	delete(h.callbacks, id)
	delete(h.arrivals, id)
	if len(h.callbacks) == 0 && !h.isOpen {
		h.closeSet()
	}
}

// closeSet closes the set, which makes the goroutine exit. The caller must hold mu.
func (h *HangUpWatch) closeSet() {
	if h.epoll != nil {
		_ = h.epoll.Close()
		h.epoll = nil
	}
}

// callWithEpoll runs f with the epoll set's descriptor.
func (h *HangUpWatch) callWithEpoll(f func(epoll uintptr) error) error {
	raw, err := h.epoll.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(fd) }); err != nil {
		return err
	}
	return failed
}

// createSet creates the epoll set and starts the goroutine. The caller must hold mu.
func (h *HangUpWatch) createSet(start func(run func())) error {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	_ = syscall.SetNonblock(fd, true) // makes os.NewFile add the set to the poller
	h.epoll = os.NewFile(uintptr(fd), "hang-ups")
	raw, err := h.epoll.SyscallConn()
	if err != nil {
		h.closeSet()
		return err
	}
	if h.callbacks == nil {
		h.callbacks = map[uint64]func(){}
	}
	start(func() { h.reportLoop(raw) })
	return nil
}

// reportLoop reports hang-ups until the epoll set is closed.
func (h *HangUpWatch) reportLoop(raw syscall.RawConn) {
	var (
		events [64]syscall.EpollEvent
		n      int
	)
	for {
		err := raw.Read(func(fd uintptr) bool {
			n, _ = syscall.EpollWait(int(fd), events[:], 0)
			return n > 0
		})
		if err != nil {
			return
		}
		for _, e := range events[:n] {
			h.reportEvent(e)
		}
	}
}

func (h *HangUpWatch) reportEvent(e syscall.EpollEvent) {
	id := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
	hungUp := e.Events&endEvents != 0
	h.mu.Lock()
	gone := h.callbacks[id]
	came := h.endByteWait(id, hungUp)
	h.mu.Unlock()
	if gone != nil && hungUp {
		gone()
	}
	if came != nil {
		came()
	}
}
